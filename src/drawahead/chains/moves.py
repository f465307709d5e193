"""How states move. Chains, paths, questions and answers are the same for every kind of step: a new one is a `Moves`."""

from __future__ import annotations

import abc
import math
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.affine_queries import CUDA, Aside
from drawahead.doors import kernels
from drawahead.laws import Gaussian
from drawahead.randomness import Purpose, Stream
from drawahead.schedules import Plan, Schedule
from drawahead.schedules.subspace import Subspace


class Moves(abc.ABC):
    """The steps of a plan, worked out where the model lives. States, answers and values are flat; `step` (rows, w) and
    `taken` (rows, w) may lie beyond the last step: padding."""

    plan: Any
    size: int
    """d, the number of entries of the vector that an answer tells."""
    state_shape: tuple[int, ...]
    """What the model is shown."""
    answer_shape: tuple[int, ...]
    """What the model answers."""
    sample_shape: tuple[int, ...]
    """Of a sample, and of every state recorded."""
    looks_back: bool = False
    """Whether a step's law depends on the answer at the state before its own, too."""
    windows_only: str = ""
    """What about the steps only samplers that draw in windows can take; empty if there is nothing."""
    basis: Tensor | None = None
    """Orthonormal columns that span the subspace of states (d, dimensions); None where they are not held in one."""

    def _place(self, deterministic: Tensor) -> None:
        """Note which steps (N,) have no noise."""
        self.steps = steps = len(deterministic)
        first = torch.where(deterministic.cpu(), torch.arange(steps), steps)
        ahead = torch.cat([first.flip(0).cummin(0).values.flip(0), torch.tensor([steps])])
        self.deterministic_within = bool(deterministic[:-1].any())  # at a step before the last
        self.next_deterministic = {place: ahead.to(place) for place in {"cpu", deterministic.device.type}}
        """By device and step (N + 1,): the first deterministic step at or after it; N if there is none."""

    @property
    @abc.abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What they are worked out from, by identity: two with equal keys say the same."""

    def captured_parts(self) -> dict[str, Any]:
        """What a captured round depends on: its tables, where they lie, and what they were worked out from."""
        return {"key": self.key} | {name: part for name, part in vars(self).items() if isinstance(part, Tensor)}

    @abc.abstractmethod
    def first(self, stream: Stream) -> Tensor:
        """The first states (rows, ...), drawn."""

    @abc.abstractmethod
    def begin(self, x: Tensor, aside: Aside) -> Tensor:
        """What first states (rows, ...) become before any step is taken."""

    def adjust(self, prediction: Tensor) -> Tensor:
        """What is done to flat answers (m, ...) before they are used; part of the law."""
        return prediction

    @abc.abstractmethod
    def law(self, answer: Tensor, step: Tensor, aside: Aside, before: Tensor | None = None) -> Gaussian:
        """The laws of the values at `step` (rows, w), from answers (rows, w, ...) and, where steps look back, those at
        the states before: without them, as if the model had answered the same there."""

    def deviations(self, answer: Tensor, step: Tensor) -> Tensor | None:
        """The standard deviations (rows, w, d) that answers (rows, w, ...) say steps have; None where a plan does."""
        return None

    @abc.abstractmethod
    def lean(
        self, target: Gaussian, states: Tensor, step: Tensor, draft: Gaussian, width: Tensor, aside: Aside
    ) -> Gaussian:
        """`target` (rows, w + 1), answered at `states` and `step`, as it leans; `width` (rows,) of its columns had a
        draft. See `Answer.newest`."""

    @abc.abstractmethod
    def roll(self, x: Tensor, values: Tensor, taken: Tensor, aside: Aside) -> Tensor:
        """The states (rows, w + 1, ...) after 0, 1, ... of the values (rows, w, ...) from x, `taken` (rows, w + 1)."""

    @abc.abstractmethod
    def follow(
        self, x: Tensor, draft: Gaussian, noise: Tensor, step: Tensor, aside: Aside
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The values (rows, w, ...) of a draft that leans, along its own path from x on, and the means they were drawn
        from; and the states of that path (rows, w + 1, ...), unless entries of them are overwritten."""

    @abc.abstractmethod
    def onward(self, state: Tensor, value: Tensor, step: Tensor, aside: Aside) -> Tensor:
        """The states (rows, ...) that values (rows, ...) at `step` (rows,) lead to from states (rows, ...)."""

    def reached(self, x: Tensor, states: Tensor, values: Tensor, step: Tensor, count: Tensor, aside: Aside) -> Tensor:
        """The states (rows, ...) after `count` (rows,) values from x at `step` (rows,), from the very states (rows,
        columns, ...) that were asked about on the way: rolled again from x, rounding might have grown."""
        rows, last = torch.arange(len(x), device=x.device), (count - 1).clamp(min=0)
        after = self.onward(states[rows, last], values[rows, last], step + last, aside)
        return torch.where(count[:, None] > 0, after, x)

    @abc.abstractmethod
    def mixing(self, step: int) -> tuple[Tensor, Tensor]:
        """How lanes move with a step's value, and with its noise (lanes, noises)."""

    @abc.abstractmethod
    def outcome(self, recorded: Tensor, last: Tensor) -> Tensor:
        """What a sample holds, from the states recorded (rows, len(record), ...) and the last one (rows, ...)."""


@final
class ScalarMoves(Moves):
    """Steps x' = A_k x + B_k m_k + S_k xi, with a number for each coefficient: those of a schedule.

    The value is the increment B_k m_k + S_k xi: draft and target then differ in their mean alone. It may hold more than
    that, and this stays true: C_k m_{k-1}, the prediction at the state before; part of the noise, fixed once and the
    same for draft and target, where the denoiser answers standard deviations of its own (`schedules.Spread`); and
    directions that are dropped on the way to the state (`schedules.subspace`).

    With `clean`, entries that are known are overwritten by their values, else by noised copies of them.
    """

    def __init__(
        self,
        schedule: Schedule,
        subspace: Subspace | None,
        clean: bool,
        shape: tuple[int, ...],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.schedule, self.subspace, self.clean = schedule, subspace, clean
        plan = schedule.plan().to(device, dtype)
        self.size, self.state_shape, self.sample_shape = math.prod(shape), shape, shape
        self.answer_shape = shape if plan.spread is None else (2 * shape[0], *shape[1:])
        self._place(plan.s == 0)
        self.factors = pad(plan.a, (0, 1), value=1.0)  # (N + 1,) A of every step, and 1 for the padding behind them
        self.moments = torch.stack([plan.b, plan.s], dim=-1)  # (N, 2)
        # The plan is a view of these tables: what is laid out for speed can never say something else.
        self.plan: Plan = replace(plan, a=self.factors[:-1], b=self.moments[:, 0], s=self.moments[:, 1])
        signal = self.plan.signal[:-1]
        # No increment can change faster with the state than if the state told the data outright.
        steepest = torch.where(signal != 0, self.plan.b / torch.where(signal != 0, signal, 1.0), 0.0)
        self.slopes = steepest.clamp(max=0.0), steepest.clamp(min=0.0)
        self.adjusts = type(schedule).adjust is not Schedule.adjust
        self.looks_back = plan.c is not None
        if plan.spread is not None:
            self.windows_only = "steps whose variance is learned"
        elif self.looks_back:
            self.windows_only = "steps that depend on the prediction before theirs"

    @property
    def key(self) -> tuple[Any, ...]:
        project = None if self.subspace is None else self.subspace.project
        of = id(self.schedule), id(project), self.clean
        return *of, self.state_shape, self.factors.device, self.factors.dtype

    def captured_parts(self) -> dict[str, Any]:
        return super().captured_parts() | {"project": None if self.subspace is None else self.subspace.project}

    @property
    def basis(self) -> Tensor | None:  # type: ignore[override]
        return None if self.subspace is None else self.subspace.basis(self.size, self.factors.device)

    def first(self, stream: Stream) -> Tensor:
        step = torch.zeros(len(stream.keys), dtype=torch.int64, device=self.factors.device)
        if not self.plan.start:
            return self.factors.new_zeros(len(stream.keys), self.size)
        return stream.normal(Purpose.START, step, size=self.size) * self.plan.start

    def begin(self, x: Tensor, aside: Aside) -> Tensor:
        none = torch.zeros(len(x), 1, dtype=torch.int64, device=x.device)
        return self._overwritten(self.projected(x)[:, None], none, aside)[:, 0]

    def adjust(self, prediction: Tensor) -> Tensor:
        spread = self.plan.spread
        if spread is None:
            return self.schedule.adjust(prediction) if self.adjusts else prediction
        data, rest = prediction.tensor_split([self.size], dim=-1)
        return torch.cat([self.schedule.adjust(data), spread.read(rest)], dim=-1)

    def projected(self, vectors: Tensor) -> Tensor:
        """Vectors (..., d) in the subspace of states."""
        return vectors if self.subspace is None else self.subspace(vectors)

    def law(self, answer: Tensor, step: Tensor, aside: Aside, before: Tensor | None = None) -> Gaussian:
        padded, step = step, step.clamp(max=self.steps - 1)
        data, own = answer[..., : self.size], self.deviations(answer, step)
        b, scale = self.moments[step].unbind(-1)
        mean, thin = b[..., None] * data, None
        if self.plan.c is not None:
            mean = mean + self.plan.c[step][..., None] * (data if before is None else before[..., : self.size])
        if own is not None:
            least = scale[..., None]
            # Without noise at hand, as it is one standard deviation away.
            eta = 1.0 if aside.copies is None else aside.copies.normal(Purpose.SPREAD, padded, size=self.size)
            more = torch.where(least > 0, (own**2 - least**2).clamp(min=0).sqrt(), 0.0)
            mean, thin = mean + more * eta, torch.minimum(own, least)
        mean = self.projected(mean)
        if (free := aside.free) is not None:
            mean = torch.where(free[:, None], mean, 0.0)  # what is overwritten must not count against a draft
            thin = None if thin is None else torch.where(free[:, None], thin, scale[..., None])
        return Gaussian(mean, scale, thin=thin)

    def deviations(self, answer: Tensor, step: Tensor) -> Tensor | None:
        spread = self.plan.spread
        return None if spread is None else spread.scale(answer[..., self.size :], step.clamp(max=self.steps - 1))

    def lean(
        self, target: Gaussian, states: Tensor, step: Tensor, draft: Gaussian, width: Tensor, aside: Aside
    ) -> Gaussian:
        drafted = step[:, : draft.shape[1]]
        slopes = self.slopes[0][drafted], self.slopes[1][drafted]
        return target.leaning(states, draft, slopes, width, aside.free)

    def roll(self, x: Tensor, values: Tensor, taken: Tensor, aside: Aside) -> Tensor:
        return self._overwritten(self._rolled(x, taken[:, :-1], values), taken, aside)

    def follow(
        self, x: Tensor, draft: Gaussian, noise: Tensor, step: Tensor, aside: Aside
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        assert draft.slope is not None and draft.anchor is not None
        free = aside.known is None
        if self.subspace is None and (kernel := kernels(CUDA, x.device.type)) is not None:
            values, mean, states = kernel.followed(x, draft, noise, step, self.factors)
            return values, mean, states if free else None
        slope = draft.slope.nan_to_num(0.0)
        unmoved = torch.addcmul(draft.mean, slope[..., None], draft.anchor, value=-1)
        inputs = torch.addcmul(unmoved, draft.scale[..., None], noise)
        states = self._rolled(x, step, inputs, slope)
        mean = torch.addcmul(unmoved, slope[..., None], states[:, :-1])
        return Gaussian(mean, draft.scale).draw(noise), mean, states if free else None

    def onward(self, state: Tensor, value: Tensor, step: Tensor, aside: Aside) -> Tensor:
        step = step.clamp(max=self.steps - 1)
        after = torch.addcmul(self.projected(value), self.plan.a[step][:, None], state)
        return after if aside.known is None else self._overwritten(after[:, None], step[:, None] + 1, aside)[:, 0]

    def reached(self, x: Tensor, states: Tensor, values: Tensor, step: Tensor, count: Tensor, aside: Aside) -> Tensor:
        if self.subspace is not None or aside.known is not None or (kernel := kernels(CUDA, x.device.type)) is None:
            return super().reached(x, states, values, step, count, aside)
        after: Tensor = kernel.reached(x, states, values, step, count, self.factors)
        return after

    def mixing(self, step: int) -> tuple[Tensor, Tensor]:
        spread = self.plan.s[step].double().view(1, 1)
        return torch.ones_like(spread), spread

    def outcome(self, recorded: Tensor, last: Tensor) -> Tensor:
        final = (last.cpu() * self.plan.final)[:, None]  # a device would launch a kernel for each of these
        return torch.cat([recorded.cpu(), final], dim=1) if recorded.shape[1] else final

    def _a(self, step: Tensor) -> Tensor:
        """A (rows, w); 1 in the padding beyond the last step."""
        return self.factors[step.clamp(max=self.steps)]

    def _rolled(self, x: Tensor, step: Tensor, values: Tensor, slope: Tensor | None = None) -> Tensor:
        values = self.projected(values)
        if slope is None and (kernel := kernels(CUDA, x.device.type)) is not None:
            states: Tensor = kernel.walked(x, values, step, self.factors)
            return states
        return rolled(x, self._a(step) if slope is None else self._a(step) + slope, values)

    def _overwritten(self, states: Tensor, taken: Tensor, aside: Aside) -> Tensor:
        """States (rows, w, d) after `taken` (rows, w) steps, known entries replaced."""
        known = aside.known
        if known is None:
            return states
        if self.clean:
            return torch.where(known.isnan()[:, None], states, known[:, None])
        assert aside.copies is not None
        taken = taken.clamp(max=self.steps)
        g = aside.copies.normal(Purpose.KNOWN, taken, size=self.size)
        copy = self.plan.signal[taken][..., None] * known[:, None] + self.plan.noise[taken][..., None] * g
        return torch.where(copy.isnan(), states, copy)


def rolled(x: Tensor, a: Tensor, values: Tensor) -> Tensor:
    """The states x, a_0 x + value_0, ... (rows, w + 1, d), from x (rows, d), a (rows, w) and values (rows, w, d).

    One after another is the only way that is stable for every a: dividing by products of a loses all digits where they
    grow or vanish.
    """
    states = values.new_empty(len(x), values.shape[1] + 1, x.shape[-1])
    states[:, 0] = x
    for i in range(values.shape[1]):
        x = torch.addcmul(values[:, i], a[:, i, None], x, out=states[:, i + 1])
    return states
