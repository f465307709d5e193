"""Addressed randomness: noise is looked up by where it is used, never consumed from a stream.

An address is (seed, sample, purpose, step, attempt). The same address always holds the same number, so a sample does
not depend on the batch it was drawn in, on the order of rounds, or on how many samples were asked for.

The numbers come from the counter-based generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), written in
integer tensor operations so that it runs on any device and one call serves a whole batch of addresses.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_CHUNK = 1 << 18  # blocks worked on at a time: the temporaries stay in cache


class Purpose(enum.IntEnum):
    """What a number is for. Two uses that must be independent have two purposes."""

    SAMPLE = 0
    CHILD = 1
    ORDER = 2
    VALUE = 3
    ACCEPT = 4
    CORRECT = 5
    START = 6


def philox(key: Tensor, counter: tuple[Tensor | int, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four 32-bit words (as int64) for each counter; `key` (..., 2) and the four counter words broadcast together."""
    k0, k1 = key[..., 0], key[..., 1]
    words = torch.broadcast_tensors(*(torch.as_tensor(c, device=key.device) for c in counter), k0)[:4]
    c0, c1, c2, c3 = (word & _MASK for word in words)
    for _ in range(10):
        # The 64-bit products wrap around in int64; the masks recover both unsigned halves.
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = ((p1 >> 32) & _MASK) ^ c1 ^ k0, ((p0 >> 32) & _MASK) ^ c3 ^ k1
        c1, c3 = p1 & _MASK, p0 & _MASK
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def _unit(high: Tensor, low: Tensor) -> Tensor:
    """A uniform in the open interval (0, 1) from two 32-bit words, with 52 random bits."""
    return ((high >> 6) * 67108864.0 + (low >> 6) + 0.5) * 2.0**-52


@dataclass(frozen=True)
class Stream:
    """The noise of a batch of samples: one 64-bit key a row, as two words. `keys` is (rows, 2)."""

    keys: Tensor

    @staticmethod
    def of_samples(seed: int, samples: Tensor) -> Stream:
        """The streams of the samples with these numbers (rows,), under one seed."""
        key = torch.tensor([seed & _MASK, (seed >> 32) & _MASK], device=samples.device)
        words = philox(key, (samples, samples >> 32, 0, int(Purpose.SAMPLE)))
        return Stream(torch.stack(words[:2], dim=-1))

    def child(self, index: int, step: int) -> Stream:
        """An independent stream for candidate `index` of the segment that starts at `step`."""
        words = philox(self.keys, (index, step, index >> 32, int(Purpose.CHILD)))
        return Stream(torch.stack(words[:2], dim=-1))

    def __getitem__(self, rows: Tensor) -> Stream:
        return Stream(self.keys[rows])

    def uniform(self, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0, size: int | None = None) -> Tensor:
        """Uniforms in (0, 1), float64. `step` is (rows, w) or (rows,), `attempt` (rows,); `size` adds a last axis."""
        words = self._words(purpose, step, attempt, 1 if size is None else size)
        return words[..., 0] if size is None else words

    def normal(self, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0, size: int = 1) -> Tensor:
        """Standard normals, float64 (Box-Muller on consecutive uniforms); shape of `step` plus a last axis."""
        u = self._words(purpose, step, attempt, size + size % 2).unflatten(-1, (-1, 2))
        radius, angle = (-2.0 * u[..., 0].log()).sqrt_(), u[..., 1] * (2.0 * math.pi)
        return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1).flatten(-2)[..., :size]

    def _words(self, purpose: Purpose, step: Tensor, attempt: Tensor | int, size: int) -> Tensor:
        attempts = torch.as_tensor(attempt, device=step.device).expand(step.shape[:1])
        blocks = torch.arange((size + 1) // 2, device=step.device)
        extra = (1,) * (step.dim() - 1)
        keys, attempts = self.keys.view(-1, *extra, 2), attempts.view(-1, *extra)
        shape = step.shape
        keys = keys.expand(*shape, 2).reshape(-1, 1, 2)
        steps, attempts = step.reshape(-1, 1), attempts.expand(shape).reshape(-1, 1)
        out = torch.empty(len(steps), len(blocks), 2, dtype=torch.float64, device=step.device)
        rows = max(1, _CHUNK // max(1, len(blocks)))
        for lo in range(0, len(steps), rows):
            part = slice(lo, lo + rows)
            w0, w1, w2, w3 = philox(keys[part], (blocks, steps[part], attempts[part], int(purpose)))
            out[part, :, 0], out[part, :, 1] = _unit(w0, w1), _unit(w2, w3)
        return out.view(*shape, 2 * len(blocks))[..., :size]


def seed_from(seed: int | None, generator: torch.Generator | None) -> int:
    """The seed to use: the one given, or one drawn from `generator`, or a fresh one from the system."""
    if seed is not None:
        return seed
    if generator is None:
        generator = torch.Generator()
        generator.seed()
    return int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device))
