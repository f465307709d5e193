"""The random samplers of k-diffusion: steps down a ladder of noise levels (Karras et al. 2022), x = y + sigma eps.

Steps of second order ask their model twice. Both passes, one after the other, are one query of a composite denoiser:
its answer is the prediction with which a step of first order would end where this one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.errors import InputError
from drawahead.oracles.condition import Condition
from drawahead.oracles.denoisers import Denoiser, from_data_prediction
from drawahead.schedules import EulerAncestral, Plan, Schedule
from drawahead.schedules.ladder import levels
from drawahead.schedules.stacked import StackedPlan
from drawahead.science.rows import Tables
from drawahead.validate import number
from drawahead.values import dataclass
from drawahead.words import pick

Model = Callable[..., Tensor]
"""(x, sigma (m,), **condition) -> predicted data."""


@dataclass(frozen=True, repr=False)
class Ladder(Schedule):
    """`sigmas` fall and may end in 0. `eta` is how much noise a step has, `s_noise` multiplies it."""

    sigmas: tuple[float, ...]
    eta: float = 1.0
    s_noise: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigmas", levels("sigmas", self.sigmas))
        for name in ("eta", "s_noise"):
            object.__setattr__(self, name, number(name, getattr(self, name), above=0))

    def plan(self) -> Plan:
        return EulerAncestral(self.sigmas, self.eta, self.s_noise).plan()

    def levels(self) -> tuple[Tensor, Tensor]:
        """Before and after each step (N,)."""
        sigma = torch.tensor(self.sigmas, dtype=torch.float64)
        return sigma[:-1], sigma[1:]

    def split(self, to: Tensor) -> tuple[Tensor, Tensor]:
        """A step to another level as one down to a lower level, and noise that leads up again."""
        here, _ = self.levels()
        up = torch.minimum(to, self.eta * (to**2 * (here**2 - to**2).clamp(min=0)).sqrt() / here)
        return (to**2 - up**2).clamp(min=0).sqrt(), up


@final
@dataclass(frozen=True, repr=False)
class DPMPP2MSDE(Ladder):
    """`dpmpp_2m_sde`: a step also uses the prediction of the step before; `heun` is the other of its two solvers."""

    heun: bool = False

    def plan(self) -> Plan:
        here, after = self.levels()
        ends = after == 0
        h = torch.where(ends, 1.0, (here / torch.where(ends, 1.0, after)).log())
        total = h * (1 + self.eta)
        b = -torch.expm1(-total)
        lean = (b / -total + 1) if self.heun else b / 2
        before = torch.cat([torch.ones(1, dtype=torch.float64), h[:-1]])
        c = torch.where(ends | (torch.arange(len(h)) == 0), 0.0, -lean * h / before)
        a = torch.where(ends, 0.0, after / here * torch.exp(-self.eta * h))
        scale = self.s_noise * after * (-torch.expm1(-2 * self.eta * h)).sqrt()
        return replace(super().plan(), a=a, b=torch.where(ends, 1.0, b) - c, s=scale, c=c)


class Twice(Ladder):
    """Steps with two passes: at the level before the step, and at a second one, closer to the data."""

    def second(self) -> Tensor:
        """The second level of each step (N,): halfway, in logarithms, to where it goes; 0 for steps with one pass."""
        here, after = self.levels()
        return (here * self.split(after)[0]).sqrt()

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
        level = torch.where(there > 0, there, here)
        one = self.model(x, here, **given).double()
        wide = x.double()
        first, second = (each.view(-1, *(1,) * (x.dim() - 1)) for each in (here, level))
        at = wide + (second / first - 1) * (wide - one)  # Euler's step
        two = self.model(at.to(x.dtype), level, **given).double()
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
        a, noise = after / raised, torch.cat([raised, after[-1:]])
        start = math.hypot(self.sigmas[0], float(added[0]))
        return Plan(a, 1 - a, scale, torch.ones_like(noise), noise, raised, start=start)

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
        down, up = self.split(after)
        ends, middle = up == 0, (here * after).sqrt()
        share = torch.where(ends, 0.0, (here - middle) / (here - after))  # of the noise that the first half has drawn
        lane, scale = up * self.s_noise * share.sqrt(), up * self.s_noise * (1 - share).sqrt()
        n = len(here)
        a, s = torch.zeros(n, 2, 2, dtype=torch.float64), torch.zeros(n, 2, 1, dtype=torch.float64)
        a[:, 0, 0], a[:, 0, 1], s[:, 0, 0] = down / here, lane, torch.where(ends, 1.0, scale)
        keep = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64).repeat(n + 1, 1, 1)
        add = torch.tensor([[0.0], [1.0]], dtype=torch.float64).repeat(n + 1, 1, 1)
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
        down, up = schedule.split(middle)
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


SAMPLERS: dict[str, Callable[[tuple[float, ...]], Schedule]] = {
    "euler_ancestral": EulerAncestral,
    "dpmpp_2m_sde": DPMPP2MSDE,
    "dpmpp_sde": DPMPPSDE,
    "dpm_2_ancestral": DPM2Ancestral,
    "dpmpp_2s_ancestral": DPMPP2SAncestral,
    "heun": StochasticHeun,
}
"""By the names of k-diffusion's functions, less their `sample_`."""


def from_k_diffusion(
    model: Model,
    schedule: Schedule | str,
    shape: Sequence[int],
    sigmas: Sequence[float] | None = None,
    *,
    condition: Condition = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> GaussianChain | StackedChain:
    """A k-diffusion loop: `model(x, sigma, **condition)` predicts the data, as its wrappers do.

    schedule: such as `da.science.DPMPPSDE(sigmas)`; or the name of a `sample_` function, with `sigmas`.
    """
    if isinstance(schedule, str):
        made = pick("random sampler", schedule.removeprefix("sample_"), SAMPLERS)
        if sigmas is None:
            raise InputError(f"{schedule} needs sigmas=, such as k_diffusion.sampling.get_sigmas_karras gives")
        schedule = made(levels("sigmas", sigmas))
    settings: dict[str, Any] = {"condition": condition, "dtype": dtype, "device": device}
    if isinstance(schedule, DPMPPSDE):
        return schedule.chain(model, shape, **settings)
    denoiser = schedule.denoiser(model) if isinstance(schedule, Twice) else from_data_prediction(model, schedule)
    return GaussianChain(denoiser, schedule, shape, **settings)
