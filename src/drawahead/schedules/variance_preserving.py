"""DDPM and DDIM: variance-preserving diffusions on a ladder of timesteps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.schedules.base import LearnedRange, Plan, Schedule, falls
from drawahead.validate import number, numbers, whole, wholes
from drawahead.values import dataclass

_HEADROOM = 0.5
"""How far below its range, in ranges, a learned log variance may lie before the step is drawn by itself."""


def spaced(steps: int, of: int) -> tuple[int, ...]:
    """`steps` timesteps spread evenly over `of`, from noisy to clean, for `timesteps=`."""
    steps, of = whole("steps", steps), whole("of", of)
    if not 1 <= steps <= of:
        raise InputError(f"steps must be between 1 and {of}, not {steps}")
    grid: Sequence[float] = torch.linspace(of - 1, 0, steps, dtype=torch.float64).tolist()
    return tuple(round(t) for t in grid)


def linear_betas(steps: int = 1000, first: float = 1e-4, last: float = 0.02) -> tuple[float, ...]:
    """Noise variances rising linearly (Ho et al. 2020)."""
    return tuple(_even(steps, number("first", first), number("last", last)).tolist())


def scaled_linear_betas(steps: int = 1000, first: float = 0.00085, last: float = 0.012) -> tuple[float, ...]:
    """Noise standard deviations rising linearly (latent diffusion)."""
    first, last = number("first", first, least=0), number("last", last, least=0)
    return tuple((_even(steps, first**0.5, last**0.5) ** 2).tolist())


def cosine_betas(steps: int = 1000, largest: float = 0.999) -> tuple[float, ...]:
    """The signal follows a squared cosine (Nichol, Dhariwal 2021)."""

    def left(t: float) -> float:
        return math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2

    largest, steps = number("largest", largest), whole("steps", steps, 1)
    return tuple(min(1 - left((i + 1) / steps) / left(i / steps), largest) for i in range(steps))


def _even(steps: int, first: float, last: float) -> Tensor:
    return torch.linspace(first, last, whole("steps", steps, 1), dtype=torch.float64)


@dataclass(frozen=True)
class Threshold:
    """Dynamic thresholding: clip each prediction at a quantile of its own absolute values, then rescale."""

    ratio: float = 0.995
    most: float = 1.0

    def __post_init__(self) -> None:
        number("most", self.most, above=0)
        if number("ratio", self.ratio, least=0) > 1:
            raise InputError(f"ratio must be between 0 and 1, not {self.ratio}")

    def __call__(self, prediction: Tensor) -> Tensor:
        size = prediction.abs().quantile(self.ratio, dim=-1, keepdim=True).clamp(min=1.0, max=self.most)
        return prediction.clamp(-size, size) / size


@dataclass(frozen=True, repr=False)
class _VariancePreserving(Schedule):
    """Shared by DDPM and DDIM: betas, a choice of timesteps, and what is done to predictions.

    `timesteps` are the ones to visit, from noisy to clean (None: all). `clip` bounds every prediction, `threshold`
    does it dynamically; both are part of the law, and are applied to draft and target alike.
    """

    betas: tuple[float, ...] = field(default_factory=linear_betas)
    timesteps: tuple[int, ...] | None = None
    clip: float | None = None
    threshold: Threshold | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", numbers("betas", self.betas))
        if self.timesteps is not None:
            object.__setattr__(self, "timesteps", wholes("timesteps", self.timesteps))
        if self.clip is not None:
            object.__setattr__(self, "clip", number("clip", self.clip, least=0))
        if not self.betas or not all(0 < beta < 1 for beta in self.betas):
            raise InputError("betas must be numbers between 0 and 1, at least one")
        steps = self.timesteps
        if steps is not None and (not steps or not falls(steps) or steps[-1] < 0 or steps[0] >= len(self.betas)):
            raise InputError(f"timesteps must fall strictly, from at most {len(self.betas) - 1} to at least 0")

    def adjust(self, prediction: Tensor) -> Tensor:
        if self.threshold is not None:
            return self.threshold(prediction)
        return prediction if self.clip is None else prediction.clamp(-self.clip, self.clip)

    def _levels(self) -> tuple[Tensor, Tensor, Tensor]:
        """Timesteps (N,), and abar before and after each step (N,)."""
        abar = torch.cumprod(1 - torch.tensor(self.betas, dtype=torch.float64), 0)
        time = torch.tensor(self.timesteps if self.timesteps is not None else range(len(self.betas) - 1, -1, -1))
        here = abar[time]
        return time, here, torch.cat([here[1:], torch.ones(1, dtype=torch.float64)])


@final
@dataclass(frozen=True, repr=False)
class DDPM(_VariancePreserving):
    """Ancestral sampling (Ho et al. 2020). `large_variance` adds beta instead of the posterior variance.

    With `learned_range` the denoiser returns twice the channels (Nichol, Dhariwal 2021). The second half interpolates
    each entry's log variance: -1 is the posterior variance, 1 is beta, and values outside that range extrapolate.
    """

    large_variance: bool = False
    learned_range: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.large_variance and self.learned_range:
            raise InputError("give large_variance or learned_range, not both")

    def plan(self) -> Plan:
        time, here, after = self._levels()
        noisy = after < 1  # no noise on the way to the data itself
        plan = ddpm_steps(time, here, after, noisy, large_variance=self.large_variance)
        return with_learned_range(plan, here, after, noisy) if self.learned_range else plan


@final
@dataclass(frozen=True, repr=False)
class DDIM(_VariancePreserving):
    """The sampler of Song et al. 2021. `eta` = 1 adds as much noise as DDPM; `eta` = 0 adds none, so steps cannot be
    sampled ahead.
    """

    eta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "eta", number("eta", self.eta, least=0))

    def plan(self) -> Plan:
        return ddim_steps(*self._levels(), self.eta)


def ddpm_steps(time: Tensor, here: Tensor, after: Tensor, noisy: Tensor, *, large_variance: bool) -> Plan:
    """DDPM steps between any levels: abar before and after each one, and which of them add noise, all (N,)."""
    alpha = here / after
    beta = 1 - alpha
    a = alpha.sqrt() * (1 - after) / (1 - here)
    b = after.sqrt() * beta / (1 - here)
    variance = beta if large_variance else beta * (1 - after) / (1 - here)
    return _planned(a, b, torch.where(noisy, variance, 0.0).sqrt(), time, here, after)


def with_learned_range(plan: Plan, here: Tensor, after: Tensor, noisy: Tensor) -> Plan:
    """DDPM steps whose log variance is learned, between that of the posterior and log beta."""
    beta = 1 - here / after
    small = (beta * (1 - after) / (1 - here)).clamp(min=1e-20)  # its logarithm is used where the next state is the data
    spread = LearnedRange(torch.where(noisy, small, 1.0).log(), torch.where(noisy, beta, 1.0).log())
    return replace(plan, s=torch.where(noisy, spread.below(_HEADROOM), 0.0), spread=spread)


def ddim_steps(time: Tensor, here: Tensor, after: Tensor, eta: float) -> Plan:
    """DDIM steps between any levels: abar before and after each one (N,)."""
    s = eta * ((1 - after) / (1 - here)).sqrt() * (1 - here / after).sqrt()
    kept = 1 - after - s**2  # the variance a step keeps
    if bool((kept < -1e-12).any()):
        raise InputError(f"eta={eta} asks for more noise than a step may have; use a smaller one")
    a = kept.clamp(min=0).sqrt() / (1 - here).sqrt()
    return _planned(a, after.sqrt() - a * here.sqrt(), s, time, here, after)


def _planned(a: Tensor, b: Tensor, s: Tensor, time: Tensor, here: Tensor, after: Tensor) -> Plan:
    levels = torch.cat([here, after[-1:]])
    return Plan(a, b, s, levels.sqrt(), (1 - levels).sqrt(), time, start=1.0)
