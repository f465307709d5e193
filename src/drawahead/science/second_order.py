"""Steps of second order: they ask their model twice.

Both passes, one after the other, are one query of a composite denoiser: its answer is the prediction with which a step
of first order would end where this one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains import StackedChain, StackedPlan
from drawahead.errors import InputError
from drawahead.oracles.denoisers import Denoiser
from drawahead.schedules import Plan
from drawahead.science.ladders import Ladder, Tables, ancestral, planned
from drawahead.validate import number
from drawahead.values import dataclass

Model = Callable[..., Tensor]
"""(x, sigma (m,), **condition) -> predicted data."""


class Twice(Ladder):
    """Steps that ask twice: at the level before the step, and at a second one, closer to the data."""

    def second(self) -> Tensor:
        """The second level of each step (N,): halfway, in logarithms, to where it goes; 0 where none is asked."""
        here, after = self.levels()
        return (here * ancestral(here, after, self.eta)[0]).sqrt()

    def combine(self, x: Tensor, here: Tensor, one: Tensor, there: Tensor, at: Tensor, two: Tensor) -> Tensor:
        """The prediction that a step makes do with, of that at `x` and that at `at`, where Euler's step led to."""
        raise NotImplementedError

    def denoiser(self, model: Model) -> Denoiser:
        """Both passes, as one query."""
        return _Composite(model, self)


@final
class _Composite:
    passes = 2

    def __init__(self, model: Model, schedule: Twice) -> None:
        self.model, self.schedule = model, schedule
        self.levels = Tables(schedule.plan().time, schedule.second())

    def __call__(self, x: Tensor, k: Tensor, **given: Tensor) -> Tensor:
        here, there = (table[k] for table in self.levels[x.device])
        asked = torch.where(there > 0, there, here)
        one = self.model(x, here, **given).double()
        wide = x.double()
        first, second = (level.view(-1, *(1,) * (x.dim() - 1)) for level in (here, asked))
        at = wide + (second / first - 1) * (wide - one)  # Euler's step
        two = self.model(at.to(x.dtype), asked, **given).double()
        both = self.schedule.combine(wide, first, one, second, at, two)
        return torch.where((there > 0).view_as(first), both, one)


@final
@dataclass(frozen=True, repr=False)
class DPM2Ancestral(Twice):
    """`dpm_2_ancestral`: the slope halfway is taken for the whole step."""

    def combine(self, x: Tensor, here: Tensor, one: Tensor, there: Tensor, at: Tensor, two: Tensor) -> Tensor:
        return x - here * (at - two) / there


@final
@dataclass(frozen=True, repr=False)
class DPMPP2SAncestral(Twice):
    """`dpmpp_2s_ancestral`: the prediction halfway is taken for the whole step."""

    def combine(self, x: Tensor, here: Tensor, one: Tensor, there: Tensor, at: Tensor, two: Tensor) -> Tensor:
        return two


@final
@dataclass(frozen=True, repr=False)
class StochasticHeun(Twice):
    """Karras' stochastic sampler (algorithm 2), `heun` with churn: noise is added first, and Heun's step follows.

    `churn`, `least`, `most` and `s_noise` are his S_churn, S_min, S_max and S_noise. A step ends with the noise that
    comes before the next one, so states are those that the model is shown. Steps without churn have no noise: exact
    samplers take them one at a time.
    """

    churn: float = 40.0
    least: float = 0.0
    most: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        number("churn", self.churn, above=0)
        if not number("least", self.least, least=0) < self.most:
            raise InputError(f"least={self.least} must be below most={self.most}")
        if not bool((self.added()[1:] > 0).any()):
            raise InputError(f"no level lies between least={self.least} and most={self.most}: no step would have noise")

    def raised(self) -> Tensor:
        """The level at which each step asks (N,)."""
        here, _ = self.levels()
        gamma = min(self.churn / len(here), math.sqrt(2) - 1)
        return here * (1 + gamma * ((here >= self.least) & (here <= self.most)).double())

    def added(self) -> Tensor:
        """The standard deviation of the noise before each step (N,)."""
        return self.s_noise * (self.raised() ** 2 - self.levels()[0] ** 2).clamp(min=0).sqrt()

    def plan(self) -> Plan:
        (_, after), raised, added = self.levels(), self.raised(), self.added()
        scale = torch.cat([added[1:], torch.zeros_like(added[:1])])
        return planned(after / raised, scale, raised, after[-1:], math.hypot(self.sigmas[0], float(added[0])))

    def second(self) -> Tensor:
        return self.levels()[1]

    def combine(self, x: Tensor, here: Tensor, one: Tensor, there: Tensor, at: Tensor, two: Tensor) -> Tensor:
        return x - here * ((x - one) / here + (at - two) / there) / 2


@final
@dataclass(frozen=True, repr=False)
class DPMPPSDE(Ladder):
    """`dpmpp_sde`: both passes of a step see noise, and the noise of the whole step holds that of its first half.

    The first half's noise is a lane of its own, drawn afresh for every step and shown to the model; given it, the rest
    of a step is Gaussian.
    """

    def chain(self, model: Model, shape: Sequence[int], **settings: Any) -> StackedChain:
        """A chain of two lanes, of which samples have the first."""
        here, after = self.levels()
        down, up = ancestral(here, after, self.eta)
        ends, middle = up == 0, (here * after).sqrt()
        share = torch.where(ends, 0.0, (here - middle) / (here - after))  # of the noise that the first half has drawn
        lane, scale = up * self.s_noise * share.sqrt(), up * self.s_noise * (1 - share).sqrt()
        n, a, s = len(here), torch.zeros(len(here), 2, 2), torch.zeros(len(here), 2, 1)
        a, s = a.double(), s.double()
        a[:, 0, 0], a[:, 0, 1], s[:, 0, 0] = down / here, lane, torch.where(ends, 1.0, scale)
        keep, add = torch.zeros(n + 1, 2, 2).double(), torch.zeros(n + 1, 2, 1).double()
        keep[:, 0, 0], add[:, 1, 0] = 1.0, 1.0
        plan = StackedPlan(
            a,
            ((1 - down / here) / s[:, 0, 0])[:, None],
            s,
            start=torch.tensor([self.sigmas[0], 0.0]),
            final=torch.tensor([1.0, 0.0]),
            refresh=(keep, add),
            deterministic=ends,
            reads=torch.tensor([[1.0, 0.0]]).expand(n, 2),
            slopes=(torch.zeros(n), torch.ones(n)),
        )
        return StackedChain(_Halves(model, self), plan, shape, **settings)


@final
class _Halves:
    passes = 2

    def __init__(self, model: Model, schedule: DPMPPSDE) -> None:
        here, after = schedule.levels()
        middle = torch.where(after > 0, (here * after).sqrt(), here)
        down, up = ancestral(here, middle, schedule.eta)
        self.model = model
        self.tables = Tables(here, middle, down / here, up * schedule.s_noise, (after == 0).double())

    def __call__(self, lanes: Tensor, k: Tensor, **given: Tensor) -> Tensor:
        x, noise = lanes.unbind(1)
        here, middle, *rest = (table[k] for table in self.tables[lanes.device])
        kept, up, ends = (value.view(-1, *(1,) * (x.dim() - 1)) for value in rest)
        one = self.model(x, here, **given).double()
        at = kept * x.double() + (1 - kept) * one + up * noise.double()
        two = self.model(at.to(x.dtype), middle, **given).double()
        return torch.where(ends > 0, one, two)
