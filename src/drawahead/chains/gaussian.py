"""Gaussian-step chains: step k draws x' = A_k x + B_k m_k + S_k xi, m_k the denoiser's prediction at x.

The value a sampler handles is the increment B_k m_k + S_k xi: draft and target then differ in their mean alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.base import Tally
from drawahead.chains.gaussian_queries import leaning
from drawahead.chains.rolling import rolled, stable_block
from drawahead.chains.vectors import VectorChain, VectorPaths, rows_of
from drawahead.errors import InputError
from drawahead.laws import Gaussian, Law
from drawahead.models.condition import Condition, Given, of_samples
from drawahead.models.denoisers import Denoiser, DenoisingTarget
from drawahead.randomness import Purpose, Stream
from drawahead.schedules import Plan, Schedule, StochasticLocalization
from drawahead.validate import short


@final
class GaussianChain(VectorChain):
    """Draws vectors by the steps of a schedule.

    `denoiser` is a callable `(x, k) -> prediction` (see `denoisers`) with `shape` given, or a `DenoisingTarget`.
    `start` fixes the first state, (*shape) or one for each sample. `known` holds values for some entries of the
    output and NaN elsewhere, (*shape) or one for each sample: after every step the known entries are overwritten by
    a noised copy of them. That is the usual inpainting heuristic, drawn exactly; it is not the conditional law.
    `record` lists numbers of steps after which to keep the state: samples then have shape
    (num_samples, len(record) + 1, *shape), raw states first and the output last. `dtype` is what the denoiser is
    given and what samples come back as; laws are always worked out in float64.

    `condition` tells the denoiser more about each sample: a tensor, or a dictionary of tensors, with a row for each
    sample or one for all. It is called as `denoiser(x, k, **rows)`, with the rows that belong to its states.
    """

    noun: ClassVar[str] = "denoiser"
    settings: ClassVar[frozenset[str]] = frozenset(
        {"denoiser", "schedule", "shape", "start", "known", "record", "dtype", "device", "condition"}
    )

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
        condition: Condition = None,
    ) -> None:
        if isinstance(denoiser, DenoisingTarget):
            schedule = schedule or StochasticLocalization(512, denoiser.radius)
            shape, dtype = denoiser.shape, dtype or torch.float64
            denoiser = denoiser.denoiser(schedule)
        if not callable(denoiser):
            raise InputError(f"a denoiser must be a DenoisingTarget or a callable, not {type(denoiser).__name__}")
        if schedule is None or shape is None:
            raise InputError("a plain denoiser needs schedule= and shape=")
        if not isinstance(schedule, Schedule):
            raise InputError(f"schedule must be a schedule such as DDPM(), not {short(schedule)}")
        plan = schedule.plan()
        super().__init__(shape, record, dtype, device, plan.s == 0, condition)
        self.denoiser = denoiser
        self.schedule = schedule
        self.plan = plan.to(self.device)
        signal = self.plan.signal[:-1]
        # No increment can change faster with the state than if the state told the data outright.
        steepest = torch.where(signal != 0, self.plan.b / torch.where(signal != 0, signal, 1.0), 0.0)
        self.slopes = steepest.clamp(max=0.0), steepest.clamp(min=0.0)
        self.block = stable_block(torch.stack([self.plan.a + slope for slope in self.slopes]).abs().amax(0).cpu())
        self.start_state = None if start is None else self.entries("start", start)
        self.known = None if known is None else self.entries("known", known)
        self.built = True

    def start(self, seed: int, samples: Tensor, tally: Tally) -> GaussianPaths:
        rows = len(samples)
        stream = Stream.of_samples(seed, samples.to(self.device))
        first = torch.zeros(rows, dtype=torch.int64, device=self.device)
        if self.start_state is not None:
            x = rows_of(self.start_state, samples)
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
            torch.zeros(rows, len(self.record), self.size, dtype=torch.float64, device=self.device),
            stream,
            of_samples(self.condition, samples),
            known=None if self.known is None else rows_of(self.known, samples),
        )
        paths.x = paths.overwritten(x[:, None], first[:, None])[:, 0]
        return paths

    def predict(self, x: Tensor, step: Tensor, given: Given) -> object:
        return self.denoiser(x, step, **given)

    def adjust(self, prediction: Tensor) -> Tensor:
        return self.schedule.adjust(prediction)

    def law(self, prediction: Tensor, step: Tensor, free: Tensor | None) -> Gaussian:
        step = step.clamp(max=self.steps - 1)  # padding
        mean = self.plan.b[step][..., None] * prediction
        if free is not None:
            mean = torch.where(free[:, None], mean, 0.0)  # what is overwritten must not count against a draft
        return Gaussian(mean, self.plan.s[step])

    def lean(
        self, target: Gaussian, states: Tensor, step: Tensor, draft: Gaussian, width: Tensor, free: Tensor | None
    ) -> Gaussian:
        drafted = step[:, : draft.shape[1]]
        return leaning(target, states, draft, (self.slopes[0][drafted], self.slopes[1][drafted]), width, free)

    def outcome(self, recorded: Tensor, last: Tensor) -> Tensor:
        return torch.cat([recorded, (last * self.plan.final)[:, None]], dim=1)

    def replace(self, **changes: Any) -> GaussianChain:
        """The same chain, but for these arguments of the constructor."""
        start = None if self.start_state is None else self.start_state.view(-1, *self.shape)
        known = None if self.known is None else self.known.view(-1, *self.shape)
        own: dict[str, Any] = {
            "denoiser": self.denoiser,
            "schedule": self.schedule,
            "shape": self.shape,
            "start": start,
        }
        own |= {"known": known, "record": self.record, "dtype": self.dtype, "device": self.device}
        chain = GaussianChain(**own | {"condition": self.condition} | changes)
        if chain.schedule is self.schedule and chain.device == self.device:  # then captured rounds may serve both
            vars(chain).update({name: vars(self)[name] for name in ("plan", "slopes", "_ahead")})
        return chain

    @property
    def owner(self) -> Any:
        return self.denoiser if type(self.denoiser).__weakrefoffset__ else self

    def check(self, num_samples: int) -> None:
        super().check(num_samples)
        self.enough("known", self.known, num_samples)


@final
@dataclass(eq=False)
class GaussianPaths(VectorPaths):
    """Gaussian samples under way."""

    chain: GaussianChain
    known: Tensor | None = None  # (rows, d), NaN where unknown

    @property
    def plan(self) -> Plan:
        return self.chain.plan

    @property
    def free(self) -> Tensor | None:
        return None if self.known is None else self.known.isnan()

    def overwritten(self, states: Tensor, step: Tensor) -> Tensor:
        """States (rows, w, d) after `step` (rows, w) steps, known entries replaced."""
        if self.known is None:
            return states
        step = step.clamp(max=self.chain.steps)
        g = self.copies.normal(Purpose.KNOWN, step, size=self.chain.size)
        copy = self.plan.signal[step][..., None] * self.known[:, None] + self.plan.noise[step][..., None] * g
        return torch.where(copy.isnan(), states, copy)

    def states(self, values: Tensor) -> Tensor:
        if self.followed is not None and self.followed[0] is values:
            return self.followed[1]
        return self.overwritten(self._rolled(self._a(values.shape[1]), values), self.steps(values.shape[1] + 1))

    def follow(self, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        if not isinstance(draft, Gaussian) or draft.slope is None or draft.anchor is None:
            return super().follow(draft, noise)
        slope = draft.slope.nan_to_num(0.0)
        unmoved = draft.mean - slope[..., None] * draft.anchor
        inputs = torch.addcmul(unmoved, draft.scale[..., None], noise)
        states = self._rolled(self._a(noise.shape[1]) + slope, inputs)
        mean = torch.addcmul(unmoved, slope[..., None], states[:, :-1])
        guess, plain = super().follow(Gaussian(mean, draft.scale), noise)
        self.followed = None if self.known is not None else (guess, states)
        return guess, plain

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | ({} if self.known is None else {"known": self.known})

    def onward(self, state: Tensor, value: Tensor, step: Tensor) -> Tensor:
        step = step.clamp(max=self.chain.steps - 1)
        after = torch.addcmul(value, self.plan.a[step][:, None], state)
        return self.overwritten(after[:, None], step[:, None] + 1)[:, 0]

    def _a(self, width: int) -> Tensor:
        """The next A's (rows, w); 1 in the padding beyond the last step."""
        step = self.steps(width)
        return torch.where(step < self.chain.steps, self.plan.a[step.clamp(max=self.chain.steps - 1)], 1.0)

    def _rolled(self, a: Tensor, values: Tensor) -> Tensor:
        return rolled(self.x, a, values, self.chain.block if self.blocked else 1)

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.known = None if self.known is None else self.known[rows.to(self.device)]
