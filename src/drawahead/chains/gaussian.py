"""Gaussian-step chains: step k draws x' = A_k x + B_k m_k + S_k xi, m_k the denoiser's prediction at x.

The value a sampler handles is the increment B_k m_k + S_k xi: draft and target then differ in their mean alone. It may
hold more than that, and this stays true: C_k m_{k-1}, the prediction at the state before; part of the noise, fixed once
and the same for draft and target, where the denoiser answers standard deviations of its own (`schedules.spread`); and
directions that are dropped on the way to the state (`chains.subspace`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.aside import Aside
from drawahead.chains.base import Tally
from drawahead.chains.gaussian_paths import GaussianPaths
from drawahead.chains.gaussian_queries import leaning
from drawahead.chains.rolling import stable_block
from drawahead.chains.subspace import Projection, Subspace
from drawahead.chains.vectors import VectorChain, rows_of
from drawahead.errors import InputError
from drawahead.laws import Gaussian
from drawahead.models.condition import Condition, Given, checked, of_samples
from drawahead.models.denoisers import Denoiser, DenoisingTarget
from drawahead.randomness import Purpose, Stream
from drawahead.schedules import Schedule, StochasticLocalization
from drawahead.validate import instance, short


@final
class GaussianChain(VectorChain):
    """Draws vectors by the steps of a schedule.

    `denoiser` is a callable `(x, k) -> prediction` (see `denoisers`) with `shape` given, or a `DenoisingTarget`.
    `start` fixes the first state, (*shape) or one for each sample. `known` holds values for some entries of the
    output and NaN elsewhere, (*shape) or one for each sample: after every step the known entries are overwritten by
    a noised copy of them, or with `clean` by the values themselves. Both are usual inpainting heuristics, drawn
    exactly; neither is the conditional law. `around` is the mean of the first state where that is not zero, (*shape)
    or one for each sample.

    `record` lists numbers of steps after which to keep the state: samples then have shape
    (num_samples, len(record) + 1, *shape), raw states first and the output last. `dtype` is what the denoiser is
    given and what samples come back as; `law_dtype` what laws are worked out in: float64, or float32 on devices that
    have no other (or where it is asked for, see docs/exact.md).

    `condition` tells the denoiser more about each sample: a tensor, or a dictionary of tensors, with a row for each
    sample or one for all. It is called as `denoiser(x, k, **rows)`, with the rows that belong to its states.

    `project` holds states in a subspace: a function `(m, *shape) -> (m, *shape)` that projects states onto it. The
    first state, predictions and noise are all projected.

    Where the schedule has a learned variance, the denoiser answers twice the channels, (m, 2 * shape[0], ...):
    predictions first, and then what the schedule reads standard deviations from.
    """

    noun: ClassVar[str] = "denoiser"
    settings: ClassVar[frozenset[str]] = frozenset(
        {"denoiser", "schedule", "shape", "start", "known", "record", "dtype", "device", "condition", "project"}
        | {"around", "clean", "law_dtype"}
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
        project: Projection | None = None,
        around: Tensor | None = None,
        clean: bool = False,
        law_dtype: torch.dtype | None = None,
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
        super().__init__(shape, record, dtype, device, plan.s == 0, condition, law_dtype)
        self.denoiser = denoiser
        self.schedule = schedule
        plan = plan.to(self.device, self.law_dtype)
        self.factors = pad(plan.a, (0, 1), value=1.0)  # (N + 1,) A of every step, and 1 for the padding behind them
        self.moments = torch.stack([plan.b, plan.s], dim=-1)  # (N, 2)
        # The plan is a view of these tables: what is laid out for speed can never say something else.
        self.plan = replace(plan, a=self.factors[:-1], b=self.moments[:, 0], s=self.moments[:, 1])
        signal = self.plan.signal[:-1]
        # No increment can change faster with the state than if the state told the data outright.
        steepest = torch.where(signal != 0, self.plan.b / torch.where(signal != 0, signal, 1.0), 0.0)
        self.slopes = steepest.clamp(max=0.0), steepest.clamp(min=0.0)
        self.block = stable_block(torch.stack([self.plan.a + slope for slope in self.slopes]).abs().amax(0).cpu())
        self.start_state = None if start is None else self.entries("start", start)
        self.known = None if known is None else self.entries("known", known)
        self.around = None if around is None else self.entries("around", around)
        if start is not None and around is not None:
            raise InputError("give start, which is the first state, or around, which is its mean, not both")
        instance("clean", clean, bool, "True or False")
        self.clean = clean
        self.subspace = None if project is None else Subspace(project, self.shape)
        if self.subspace is not None:
            self._check_subspace(self.subspace)
        self.built = True

    def start(self, seed: int, samples: Tensor, tally: Tally) -> GaussianPaths:
        rows = len(samples)
        stream = Stream.of_samples(seed, samples, self.law_dtype, self.device)
        first = torch.zeros(rows, dtype=torch.int64, device=self.device)
        if self.start_state is not None:
            x = rows_of(self.start_state, samples)
        elif self.plan.start:
            x = stream.normal(Purpose.START, first, size=self.size) * self.plan.start
        else:
            x = torch.zeros(rows, self.size, dtype=self.law_dtype, device=self.device)
        x = self.projected(x if self.around is None else x + rows_of(self.around, samples))
        answers = math.prod(self.answer_shape)
        paths = GaussianPaths(
            self,
            samples,
            torch.zeros(rows, dtype=torch.int64),
            torch.full((rows,), self.steps),
            stream,
            tally,
            x,
            torch.zeros(rows, len(self.record), self.size, dtype=self.law_dtype, device=self.device),
            stream,
            of_samples(self.condition, samples),
            x.new_zeros(rows, answers) if self.looks_back else None,
            known=None if self.known is None else rows_of(self.known, samples),
        )
        paths.x = paths.overwritten(x[:, None], first[:, None])[:, 0]
        return paths

    def predict(self, x: Tensor, step: Tensor, given: Given) -> object:
        return self.denoiser(x, step, **given)

    def adjust(self, prediction: Tensor) -> Tensor:
        spread = self.plan.spread
        if spread is None:
            return self.schedule.adjust(prediction)
        data, rest = prediction.tensor_split([self.size], dim=-1)
        return torch.cat([self.schedule.adjust(data), spread.read(rest)], dim=-1)

    @property
    def answer_shape(self) -> tuple[int, ...]:
        return self.shape if self.plan.spread is None else (2 * self.shape[0], *self.shape[1:])

    @property
    def passes(self) -> int:
        return int(getattr(self.denoiser, "passes", 1))

    @property
    def looks_back(self) -> bool:
        return self.plan.c is not None

    @property
    def windows_only(self) -> str:
        if self.plan.spread is not None:
            return "steps whose variance is learned"
        return "steps that depend on the prediction before theirs" if self.looks_back else ""

    @property
    def subspace_basis(self) -> Tensor | None:
        return None if self.subspace is None else self.subspace.basis(self.size, self.device)

    def projected(self, vectors: Tensor) -> Tensor:
        """Vectors (..., d) in the subspace of states."""
        return vectors if self.subspace is None else self.subspace(vectors)

    def law(self, answer: Tensor, step: Tensor, aside: Aside, before: Tensor | None = None) -> Gaussian:
        padded, step = step, step.clamp(max=self.steps - 1)
        data, spread = answer.tensor_split([self.size], dim=-1)
        b, scale = self.moments[step].unbind(-1)
        mean, thin = b[..., None] * data, None
        if self.plan.c is not None:
            mean = mean + self.plan.c[step][..., None] * (data if before is None else before[..., : self.size])
        if self.plan.spread is not None:
            own, least = self.plan.spread.scale(spread, step), scale[..., None]
            # Without noise at hand, as it is one standard deviation away.
            eta = 1.0 if aside.copies is None else aside.copies.normal(Purpose.SPREAD, padded, size=self.size)
            more = torch.where(least > 0, (own**2 - least**2).clamp(min=0).sqrt(), 0.0)
            mean, thin = mean + more * eta, torch.minimum(own, least)
        mean = self.projected(mean)
        if aside.free is not None:
            mean = torch.where(aside.free[:, None], mean, 0.0)  # what is overwritten must not count against a draft
            thin = None if thin is None else torch.where(aside.free[:, None], thin, scale[..., None])
        return Gaussian(mean, scale, thin=thin)

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
        own |= {"project": None if self.subspace is None else self.subspace.project, "clean": self.clean}
        own |= {"around": None if self.around is None else self.around.view(-1, *self.shape)}
        own |= {"known": known, "record": self.record, "dtype": self.dtype, "device": self.device}
        own |= {"condition": self.condition, "law_dtype": self.law_dtype}
        chain = GaussianChain(**own | changes)
        same = chain.schedule is self.schedule and chain.law_dtype == self.law_dtype
        if same and chain.device == self.device:  # then captured rounds may serve both
            vars(chain).update({name: vars(self)[name] for name in ("plan", "factors", "moments", "slopes", "_ahead")})
        return chain

    def for_samples(
        self, *, start: Tensor | None = None, known: Tensor | None = None, condition: Condition = None
    ) -> GaussianChain:
        """The same chain for other samples: what `replace` gives for these, but nothing else is worked out anew."""
        chain = copy.copy(self)
        vars(chain)["start_state"] = None if start is None else self.entries("start", start)
        vars(chain)["known"] = None if known is None else self.entries("known", known)
        vars(chain)["condition"] = checked(condition, self.device)
        return chain

    @property
    def owner(self) -> Any:
        return self.denoiser if type(self.denoiser).__weakrefoffset__ else self

    def check(self, num_samples: int) -> None:
        super().check(num_samples)
        self.enough("known", self.known, num_samples)
        self.enough("around", self.around, num_samples)

    def _check_subspace(self, subspace: Subspace) -> None:
        subspace.check(self.device)
        if self.known is not None:
            raise InputError("known entries cannot be overwritten in states that are held in a subspace by project")
        start = self.start_state
        if start is not None and bool((subspace(start) - start).abs().max() > 1e-6 * (1 + start.abs().max())):
            raise InputError("start must lie in the subspace that project projects onto: give project(start)")
