"""Addressed randomness: noise is looked up by where it is used, never consumed from a stream.

An address is (seed, sample, purpose, step, attempt). The same address always holds the same number, so with a named
sampler a sample does not depend on the batch it was drawn in, on the order of rounds, or on how many samples were asked
for.

The numbers come from the counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), written in
integer tensor operations so that it runs on any device and one call serves a whole batch of addresses.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drawahead.doors import kernels
from drawahead.errors import InputError
from drawahead.validate import short, whole

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
# Block counts up to which plain integers, and then numpy, are quicker than torch with many threads; and how many are
# taken at a time on a CPU, so that temporaries stay in cache. None of them changes a number.
_FEW = 8
_SMALL = 1 << 13
_CHUNK = 1 << 16
_THREADS = 2  # of torch, with which it is slower than numpy


class Purpose(enum.IntEnum):
    """What a number is for. Two uses that must be independent have two purposes."""

    SAMPLE = 0
    CHILD = 1
    ORDER = 2
    VALUE = 3
    ACCEPT = 4
    CORRECT = 5
    START = 6
    KNOWN = 7
    SPREAD = 8


def philox(k0: Any, k1: Any, c0: Any, c1: Any, c2: Any, c3: Any) -> tuple[Any, Any, Any, Any]:
    """Four 32-bit words for each key (k0, k1) and counter (c0 ... c3), which broadcast together.

    Operators only, so that torch tensors, numpy arrays (int64) and Python integers all serve. A 64-bit product wraps
    around in int64; the masks recover both unsigned halves.
    """
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = ((p1 >> 32) & _MASK) ^ c1 ^ k0, ((p0 >> 32) & _MASK) ^ c3 ^ k1
        c1, c3 = p1 & _MASK, p0 & _MASK
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def _unit(high: Any, low: Any, dtype: torch.dtype = torch.float64) -> Any:
    """A uniform in the open interval (0, 1) from two 32-bit words: with 52 random bits, or the first 23 in float32."""
    if dtype == torch.float32:
        return ((high >> 9).to(dtype) + 0.5) * 2.0**-23
    bits = ((high >> 6) << 26) | (low >> 6)
    if isinstance(bits, Tensor):
        bits = bits.double()  # torch would make it float32
    return (bits + 0.5) * 2.0**-52


@dataclass(frozen=True)
class Stream:
    """The noise of a batch of samples: one 64-bit key a row, as two words. `keys` is (rows, 2)."""

    keys: Tensor
    dtype: torch.dtype = torch.float64
    """Of all that is drawn: float64, or float32, which has the first bits of the same numbers."""

    @staticmethod
    def of_samples(
        seed: int, samples: Tensor, dtype: torch.dtype = torch.float64, device: torch.device | None = None
    ) -> Stream:
        """The streams of the samples with these numbers (rows,), under one seed; on a device, or where those are."""
        seed, numbers = checked_seed(seed), samples.cpu()

        def keys(number: Any) -> tuple[Any, ...]:
            counter = (number & _MASK, (number >> 32) & _MASK, 0, int(Purpose.SAMPLE))
            return philox(seed & _MASK, (seed >> 32) & _MASK, *counter)[:2]

        if len(numbers) <= _FEW:  # plain integers are quickest
            found = torch.tensor([keys(number) for number in numbers.tolist()], dtype=torch.int64).view(-1, 2)
        else:
            found = torch.stack(keys(numbers), dim=-1)
        return Stream(found.to(device or samples.device), dtype)

    def child(self, index: int | Tensor, step: int | Tensor) -> Stream:
        """An independent stream for candidate `index` of the segment that starts at `step`; both may be (rows,)."""
        counter = (index & _MASK, step, index >> 32, int(Purpose.CHILD))
        if len(self.keys) == 1 and isinstance(index, int):  # plain integers are quickest
            k0, k1 = self.keys[0].tolist()
            return Stream(self.keys.new_tensor([philox(k0, k1, *counter)[:2]]), self.dtype)
        return Stream(torch.stack(philox(self.keys[:, 0], self.keys[:, 1], *counter)[:2], dim=-1), self.dtype)

    def __getitem__(self, rows: Tensor) -> Stream:
        return Stream(self.keys[rows], self.dtype)

    def tensors(self) -> dict[str, Tensor]:
        """What a row of it is made of."""
        return {"keys": self.keys}

    def made_of(self, tensors: dict[str, Tensor]) -> Stream:
        """The streams with these keys."""
        return Stream(**tensors, dtype=self.dtype)

    def uniform(self, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0, size: int | None = None) -> Tensor:
        """Uniforms in (0, 1). `step` is (rows, w) or (rows,), `attempt` (rows,); `size` adds a last axis."""
        words = self._words(purpose, step, attempt, 1 if size is None else size)
        return words[..., 0] if size is None else words

    def normal(self, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0, size: int = 1) -> Tensor:
        """Standard normals (Box-Muller on consecutive uniforms); shape of `step` plus a last axis."""
        if self.dtype == torch.float64 and (kernel := _kernel(step.device.type)) is not None:
            width = (size + 1) // 2
            pairs = kernel(self.keys, int(purpose), step, attempt, width, normal=True)
            return pairs.view(*step.shape, 2 * width)[..., :size]
        u = self._words(purpose, step, attempt, size + size % 2).unflatten(-1, (-1, 2))
        radius, angle = (-2.0 * u[..., 0].log()).sqrt_(), u[..., 1] * (2.0 * math.pi)
        return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1).flatten(-2)[..., :size]

    def _words(self, purpose: Purpose, step: Tensor, attempt: Tensor | int, size: int) -> Tensor:
        width = (size + 1) // 2  # two uniforms from every block of four words
        blocks = step.numel() * width
        if (kernel := _kernel(step.device.type)) is not None:
            words = kernel(self.keys, int(purpose), step, attempt, width, normal=False)
            return self._narrowed(words).view(*step.shape, 2 * width)[..., :size]
        if len(self.keys) == 1 and blocks <= _FEW and step.device.type == "cpu":
            words = self._few(purpose, step, attempt, width)
        else:
            numpy = step.device.type == "cpu" and (blocks <= _SMALL or torch.get_num_threads() <= _THREADS)
            words = self._many(purpose, step, attempt, width, numpy=numpy)
        return self._narrowed(words).view(*step.shape, 2 * width)[..., :size]

    def _narrowed(self, words: Tensor) -> Tensor:
        """The first bits, if there are more than wanted."""
        if words.dtype == self.dtype:
            return words
        return ((words * 2.0**23).floor_() + 0.5).mul_(2.0**-23).to(self.dtype)

    def _few(self, purpose: Purpose, step: Tensor, attempt: Tensor | int, width: int) -> Tensor:
        (k0, k1), c2 = self.keys[0].tolist(), int(attempt)
        words = [philox(k0, k1, c0, c1, c2, int(purpose)) for c1 in step.flatten().tolist() for c0 in range(width)]
        units = [[_unit(w0, w1), _unit(w2, w3)] for w0, w1, w2, w3 in words]
        return torch.tensor(units, dtype=torch.float64, device=step.device)

    def _many(self, purpose: Purpose, step: Tensor, attempt: Tensor | int, width: int, *, numpy: bool) -> Tensor:
        per_row = step[:1].numel()
        rows = torch.arange(len(step), device=step.device).repeat_interleave(per_row) if per_row != 1 else slice(None)
        keys = self.keys[rows]
        attempts = attempt[rows] if isinstance(attempt, Tensor) else torch.full_like(keys[:, 0], attempt)
        columns: list[Any] = [t[:, None] for t in (keys[:, 0], keys[:, 1], step.reshape(-1), attempts)]
        blocks: Any = torch.arange(width, device=step.device)
        if numpy:
            columns, blocks = [column.numpy() for column in columns], blocks.numpy()
        stride = max(1, _CHUNK // max(1, width)) if step.device.type == "cpu" else step.numel()
        parts = []
        for lo in range(0, max(1, step.numel()), max(1, stride)):
            k0, k1, c1, c2 = (column[lo : lo + stride] for column in columns)
            w0, w1, w2, w3 = philox(k0, k1, blocks, c1, c2, int(purpose))
            wide = torch.float64 if step.device.type in ("cpu", "cuda") else self.dtype  # others may have none
            pair = [_unit(w0, w1, wide), _unit(w2, w3, wide)]
            parts.append(torch.from_numpy(np.stack(pair, -1)) if numpy else torch.stack(pair, -1))
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _kernel(device: str) -> Callable[..., Tensor] | None:
    """All of it as one CUDA kernel, where that can be had."""
    found = kernels("drawahead.randomness.philox_cuda", device)
    numbers: Callable[..., Tensor] | None = found and found.numbers
    return numbers


def checked_seed(seed: object) -> int:
    """`seed`, if it is one of the 2^64 keys: a number beyond them would draw the samples of another one."""
    number = whole("seed", seed)
    if not 0 <= number < 2**64:
        raise InputError(f"seed must be from 0 to 2^64 - 1, not {short(number)}")
    return number


def seeded(seed: object) -> torch.Generator:
    """A private generator: the global one is never touched."""
    return torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1))


def seed_from(seed: int | None, generator: torch.Generator | None) -> int:
    """The seed to use: the one given, or one drawn from `generator`, or a fresh one from the system."""
    if seed is not None and generator is not None:
        raise InputError("give seed or generator, not both")
    if seed is not None:
        return checked_seed(seed)
    if generator is None:
        generator = torch.Generator()
        generator.seed()
    return int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device))
