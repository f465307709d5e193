"""Gaussian-step chains: step k draws x' = A_k x + B_k m_k + S_k xi, m_k the denoiser's prediction at x.

The value a sampler handles is the increment B_k m_k + S_k xi: draft and target then differ in their mean alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from drawahead.chains.base import Chain, Paths, Tally
from drawahead.chains.gaussian_queries import GaussianQuery
from drawahead.denoisers import Denoiser, DenoisingTarget
from drawahead.errors import InputError
from drawahead.laws import Gaussian, Law
from drawahead.randomness import Purpose, Stream
from drawahead.schedules import Plan, Schedule, StochasticLocalization

_LEAST = 1e-80  # stands for an A of zero, so that states can be worked out by division


@final
class GaussianChain(Chain):
    """Draws vectors by the steps of a schedule.

    `denoiser` is a callable `(x, k) -> prediction` (see `denoisers`) with `shape` given, or a `DenoisingTarget`.
    `start` fixes the first state, (*shape) or one for each sample. `known` holds values for some entries of the
    output and NaN elsewhere, (*shape) or one for each sample: after every step the known entries are overwritten by
    a noised copy of them. That is the usual inpainting heuristic, drawn exactly; it is not the conditional law.
    `record` lists numbers of steps after which to keep the state: samples then have shape
    (num_samples, len(record) + 1, *shape), raw states first and the output last. `dtype` is what the denoiser is
    given and what samples come back as; laws are always worked out in float64.
    """

    def __init__(
        self,
        denoiser: Denoiser | DenoisingTarget,
        schedule: Schedule | None = None,
        shape: Sequence[int] | None = None,
        *,
        start: Tensor | None = None,
        known: Tensor | None = None,
        record: Sequence[int] = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        if isinstance(denoiser, DenoisingTarget):
            schedule = schedule or StochasticLocalization(512, denoiser.radius)
            shape, dtype = denoiser.shape, dtype or torch.float64
            denoiser = denoiser.denoiser(schedule)
        if not callable(denoiser):
            raise InputError(f"a denoiser must be a DenoisingTarget or a callable, not {type(denoiser).__name__}")
        if schedule is None or shape is None:
            raise InputError("a plain denoiser needs schedule= and shape=")
        if not shape or any(size < 1 for size in shape):
            raise InputError(f"shape must be one or more positive sizes, not {tuple(shape)}")
        self.denoiser = denoiser
        self.schedule = schedule
        self.shape = tuple(shape)
        self.dtype = dtype or torch.float32
        self.device = torch.device(device)
        plan = schedule.plan()
        self.plan = plan.to(self.device)
        self.log_scale = torch.nn.functional.pad(
            plan.a.clamp(min=_LEAST).log().cumsum(0), (1, 0)
        )  # of the product of A's, (N + 1,)
        signal = self.plan.signal[:-1]
        # No increment can change faster with the state than if the state told the data outright.
        self.steepest = torch.where(signal > 0, self.plan.b / torch.where(signal > 0, signal, 1.0), 0.0)
        self.start_state = None if start is None else self._entries("start", start)
        self.known = None if known is None else self._entries("known", known)
        self.record = tuple(record)
        if any(not 0 < step < self.steps for step in self.record):
            raise InputError(f"record must list numbers of steps between 1 and {self.steps - 1}, not {self.record}")
        # next_fixed[k]: the first deterministic step at or after k; N if there is none.
        fixed = torch.where(plan.s > 0, self.steps, torch.arange(self.steps))
        self.next_fixed = torch.cat([fixed.flip(0).cummin(0).values.flip(0), torch.tensor([self.steps])])

    @property
    def steps(self) -> int:
        return len(self.plan.a)

    @property
    def size(self) -> int:
        """d, the number of entries of a state."""
        return int(torch.tensor(self.shape).prod())

    def start(self, seed: int, samples: Tensor, tally: Tally) -> GaussianPaths:
        rows = len(samples)
        stream = Stream.of_samples(seed, samples.to(self.device))
        first = torch.zeros(rows, dtype=torch.int64, device=self.device)
        if self.start_state is not None:
            x = _rows(self.start_state, samples, self.size)
        elif self.plan.start:
            x = stream.normal(Purpose.START, first, size=self.size) * self.plan.start
        else:
            x = torch.zeros(rows, self.size, dtype=torch.float64, device=self.device)
        paths = GaussianPaths(
            self,
            samples,
            torch.zeros(rows, dtype=torch.int64),
            torch.full((rows,), self.steps),
            stream,
            tally,
            x,
            None if self.known is None else _rows(self.known, samples, self.size),
            torch.zeros(rows, len(self.record), self.size, dtype=torch.float64, device=self.device),
            stream,
        )
        paths.x = paths.overwritten(x[:, None], first[:, None])[:, 0]
        return paths

    def law(self, prediction: Tensor, step: Tensor, free: Tensor | None) -> Gaussian:
        """The laws of the increments at `step` (rows, w), from predictions (rows, w, d)."""
        step = step.clamp(max=self.steps - 1)  # padding
        mean = self.plan.b[step][..., None] * prediction
        if free is not None:
            mean = torch.where(free[:, None], mean, 0.0)  # what is overwritten must not count against a draft
        return Gaussian(mean, self.plan.s[step])

    def check(self, num_samples: int) -> None:
        for name, given in (("start", self.start_state), ("known", self.known)):
            if given is not None and 1 != len(given) < num_samples:
                raise InputError(f"{name} has {len(given)} rows, but {num_samples} samples are asked for")

    def empty(self, num_samples: int) -> Tensor:
        kept = (len(self.record) + 1,) if self.record else ()
        return torch.zeros(num_samples, *kept, *self.shape, dtype=self.dtype)

    def _entries(self, name: str, value: Tensor) -> Tensor:
        """(1 or num_samples, d) on the device."""
        given = torch.as_tensor(value, dtype=torch.float64, device=self.device)
        if given.shape[-len(self.shape) :] != self.shape or given.dim() - len(self.shape) not in (0, 1):
            raise InputError(f"{name} must have shape {self.shape} or (num_samples, *{self.shape}), not {given.shape}")
        return given.reshape(-1, self.size)


def _rows(table: Tensor, samples: Tensor, size: int) -> Tensor:
    return table.expand(len(samples), size) if len(table) == 1 else table[samples.to(table.device)]


@final
@dataclass(eq=False)
class GaussianPaths(Paths):
    """Gaussian samples under way."""

    chain: GaussianChain
    sample: Tensor
    position: Tensor
    length: Tensor
    stream: Stream
    tally: Tally
    x: Tensor  # (rows, d) the committed state
    known: Tensor | None  # (rows, d), NaN where unknown
    recorded: Tensor  # (rows, len(record), d)
    copies: Stream  # the noise of the known entries: a branch overwrites with the same copies as its parent
    rolled: tuple[Tensor, Tensor] | None = None  # the last guess that was followed, and its states

    @property
    def device(self) -> torch.device:
        return self.chain.device

    @property
    def room(self) -> Tensor:
        return torch.minimum(self.length - 1, self.chain.next_fixed[self.position]) - self.position

    @property
    def stretch(self) -> Tensor:
        return (self.chain.next_fixed[self.position] - self.position).clamp(min=1)

    @property
    def plan(self) -> Plan:
        return self.chain.plan

    @property
    def free(self) -> Tensor | None:
        """Which entries are not overwritten (rows, d)."""
        return None if self.known is None else self.known.isnan()

    def no_draft(self) -> Gaussian:
        nothing = torch.zeros(len(self), 0, self.chain.size, dtype=torch.float64, device=self.device)
        return self.chain.law(nothing, self.steps(0), None)

    def overwritten(self, states: Tensor, step: Tensor) -> Tensor:
        """States (rows, w, d) after `step` (rows, w) steps, known entries replaced."""
        if self.known is None:
            return states
        step = step.clamp(max=self.chain.steps)
        g = self.copies.normal(Purpose.KNOWN, step, size=self.chain.size)
        copy = self.plan.signal[step][..., None] * self.known[:, None] + self.plan.noise[step][..., None] * g
        return torch.where(copy.isnan(), states, copy)

    def states(self, values: Tensor) -> Tensor:
        """The states after 0, 1, ... of the increments `values` (rows, w, d) -> (rows, w + 1, d)."""
        if self.rolled is not None and self.rolled[0] is values:
            return self.rolled[1]
        return self.overwritten(self._rolled(self._a(values.shape[1]), values), self.steps(values.shape[1] + 1))

    def follow(self, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        if not isinstance(draft, Gaussian) or draft.slope is None or draft.anchor is None:
            return super().follow(draft, noise)
        slope = draft.slope.nan_to_num(0.0)[..., None]
        unmoved = draft.mean - slope * draft.anchor
        rolled = self._rolled(self._a(noise.shape[1]) + slope, torch.addcmul(unmoved, draft.scale[..., None], noise))
        guess, followed = super().follow(Gaussian(torch.addcmul(unmoved, slope, rolled[:, :-1]), draft.scale), noise)
        self.rolled = None if self.known is not None else (guess, rolled)
        return guess, followed

    def _a(self, width: int) -> Tensor:
        """The next A's (rows, w, 1); 1 in the padding beyond the last step."""
        step = self.steps(width)
        a = self.plan.a[step.clamp(max=self.chain.steps - 1)].clamp(min=_LEAST)
        return torch.where(step < self.chain.steps, a, 1.0)[..., None]

    def _rolled(self, a: Tensor, values: Tensor) -> Tensor:
        """The states x' = a x + value, one after another (rows, w + 1, d); `a` (rows, w, 1) is at least the chain's."""
        width = values.shape[1]
        if self._divides(width):
            # x_i = P_i (x + sum_{j < i} z_j / P_{j+1}), P_i the product of the first i a's
            scale = a.cumprod(1)
            later = (values / scale).cumsum_(1).add_(self.x[:, None]).mul_(scale)
        else:
            later = torch.empty_like(values)
            x = self.x
            for i in range(width):
                x = torch.addcmul(values[:, i], a[:, i], x)
                later[:, i] = x
        return torch.cat([self.x[:, None], later], dim=1)

    def _divides(self, width: int) -> bool:
        """Whether no product of A's over a window is too small to divide by, or zero."""
        if self.position.is_cuda:  # not to be read from here; `fixed` has checked it for every window
            return True
        end = (self.position + width).clamp(max=self.chain.steps)
        return bool((self.chain.log_scale[end] - self.chain.log_scale[self.position] > -200).all())

    def ask(self, guess: Tensor | None, count: Tensor, reach: Tensor, first: int = 0) -> GaussianQuery:
        states = self.x[:, None] if guess is None else self.states(guess)
        row = torch.repeat_interleave(torch.arange(len(self)), count)
        depth = first + torch.arange(len(row)) - (count.cumsum(0) - count)[row]
        at = (row * states.shape[1] + depth).to(self.device)
        step = self.position[row] + depth
        return GaussianQuery(self.chain, self.sample[row], states.flatten(0, 1)[at], step, count, self.free)

    def advance(self, values: Tensor, count: Tensor) -> None:
        states = self.states(values[:, : int(count.max())])
        rows, depth = torch.arange(len(self)), count
        for column, step in enumerate(self.chain.record):
            passed = ((self.position < step) & (step <= self.position + count)).nonzero()[:, 0]
            at = (step - self.position)[passed]
            self.recorded[passed.to(self.device), column] = states[passed.to(self.device), at.to(self.device)]
        self.x = states[rows.to(self.device), depth.to(self.device)]
        self.position = self.position + count

    def branch(self, stream: Stream) -> GaussianPaths:
        return replace(self, stream=stream, recorded=self.recorded.clone())

    def select(self, rows: Tensor) -> None:
        self.sample, self.position, self.length = self.sample[rows], self.position[rows], self.length[rows]
        rows = rows.to(self.device)
        self.stream, self.copies = self.stream[rows], self.copies[rows]
        self.x, self.recorded = self.x[rows], self.recorded[rows]
        self.known = None if self.known is None else self.known[rows]

    def result(self, rows: Tensor) -> Tensor:
        final = self.x[rows] * self.plan.final
        if self.chain.record:
            final = torch.cat([self.recorded[rows], final[:, None]], dim=1)
        return final.reshape(len(rows), *self.chain.empty(1).shape[1:]).to("cpu", self.chain.dtype)
