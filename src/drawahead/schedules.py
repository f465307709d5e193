"""Schedules: the coefficients of a Gaussian chain, x' = A x + B m + S noise, step by step, as frozen values.

Every schedule here turns noise into data by a sequence of states x_k = signal_k Y + noise_k g (in law, for the ideal
continuous process), Y the data and g standard normal. m is the prediction of Y at x_k.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError


@dataclass(frozen=True, eq=False)
class Plan:
    """A schedule worked out: float64 tensors over the N steps."""

    a: Tensor  # (N,)
    b: Tensor  # (N,)
    s: Tensor  # (N,); zero where the step is deterministic
    signal: Tensor  # (N + 1,)
    noise: Tensor  # (N + 1,)
    time: Tensor  # (N,) what a network is told at each step
    start: float
    """The standard deviation of the first state."""
    final: float = 1.0
    """What the last state is multiplied with."""

    def to(self, device: torch.device) -> Plan:
        """The same plan with its tensors on another device."""
        a, b, s, signal, noise, time = (
            tensor.to(device) for tensor in (self.a, self.b, self.s, self.signal, self.noise, self.time)
        )
        return Plan(a, b, s, signal, noise, time, self.start, self.final)

    @property
    def tilt(self) -> Tensor:
        """Seen from x_k, the data has the law mu(y) exp(<y, tilt x_k> - snr |y|^2 / 2), normalised (N,)."""
        noise = self.noise[:-1]
        return torch.where(noise > 0, self.signal[:-1] / noise**2, 1.0)

    @property
    def snr(self) -> Tensor:
        noise = self.noise[:-1]
        return torch.where(noise > 0, (self.signal[:-1] / noise) ** 2, 0.0)


class Schedule(abc.ABC):
    """What a Gaussian chain is made of, apart from its denoiser."""

    @abc.abstractmethod
    def plan(self) -> Plan:
        """The coefficients of every step."""

    def adjust(self, prediction: Tensor) -> Tensor:
        """What is done to a prediction of Y (m, d) before it is used; part of the law."""
        return prediction


@final
@dataclass(frozen=True)
class StochasticLocalization(Schedule):
    """dX_t = E[Y | Y + g/sqrt(t) = X_t/t] dt + dB_t, from t = 0 to T = 1/delta.

    The output X_T / T has the law mu * N(0, delta I), up to discretisation.

    The grid is t_{i+1} + R^-2 = (1 + kappa) (t_i + R^-2): geometric beyond 1 / R^2, R the radius of the data.
    (arXiv 2511.07869; its own grid is not public, this one gives the same number of steps up to logarithms.)
    """

    steps: int
    radius: float = 1.0
    delta: float = 0.01

    def __post_init__(self) -> None:
        _positive(self, "steps", "radius", "delta")

    @staticmethod
    def for_error(eps: float, dimension: int, radius: float = 1.0, delta: float = 0.01) -> StochasticLocalization:
        """Enough steps for total variation at most `eps` from mu * N(0, delta I), if Cov(mu) <= R^2.

        TV^2 <= KL / 2 <= kappa n (1 + Lambda) / 4 with Lambda = log(1 + R^2 / delta), by Girsanov, the martingale
        identity for E[Y | X_t], and tr Cov(Y | X_t) <= n / (t + R^-2).
        """
        if not 0 < eps <= 1:
            raise InputError(f"eps must be in (0, 1], not {eps}")
        growth = math.log1p(radius**2 / delta)
        kappa = 4 * eps**2 / (dimension * (1 + growth))
        return StochasticLocalization(math.ceil(growth / math.log1p(kappa)), radius, delta)

    def plan(self) -> Plan:
        growth = math.log1p(self.radius**2 / self.delta)
        t = torch.expm1(torch.arange(self.steps + 1, dtype=torch.float64) * (growth / self.steps)) / self.radius**2
        gap = t.diff()
        ones = torch.ones_like(gap)
        return Plan(ones, gap, gap.sqrt(), t, t.sqrt(), t[:-1], start=0.0, final=1 / float(t[-1]))


def linear_betas(steps: int = 1000, first: float = 1e-4, last: float = 0.02) -> tuple[float, ...]:
    """Noise variances rising linearly (Ho et al. 2020)."""
    return tuple(torch.linspace(first, last, steps, dtype=torch.float64).tolist())


def scaled_linear_betas(steps: int = 1000, first: float = 0.00085, last: float = 0.012) -> tuple[float, ...]:
    """Noise standard deviations rising linearly (latent diffusion)."""
    return tuple((torch.linspace(first**0.5, last**0.5, steps, dtype=torch.float64) ** 2).tolist())


def cosine_betas(steps: int = 1000, largest: float = 0.999) -> tuple[float, ...]:
    """The signal follows a squared cosine (Nichol, Dhariwal 2021)."""

    def left(t: float) -> float:
        return math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2

    return tuple(min(1 - left((i + 1) / steps) / left(i / steps), largest) for i in range(steps))


@dataclass(frozen=True)
class Threshold:
    """Dynamic thresholding: clip each prediction at a quantile of its own absolute values, then rescale."""

    ratio: float = 0.995
    most: float = 1.0

    def __call__(self, prediction: Tensor) -> Tensor:
        size = prediction.abs().quantile(self.ratio, dim=-1, keepdim=True).clamp(min=1.0, max=self.most)
        return prediction.clamp(-size, size) / size


@dataclass(frozen=True)
class _VariancePreserving(Schedule):
    """Shared by DDPM and DDIM: betas, a choice of timesteps, and what is done to predictions.

    `timesteps` are the ones to visit, from noisy to clean (None: all). `clip` bounds every prediction, `threshold`
    does it dynamically; both are part of the law, and are applied to draft and target alike.
    """

    betas: tuple[float, ...] = linear_betas()
    timesteps: tuple[int, ...] | None = None
    clip: float | None = None
    threshold: Threshold | None = None

    def __post_init__(self) -> None:
        if not self.betas or not all(0 < beta < 1 for beta in self.betas):
            raise InputError("betas must be numbers between 0 and 1, at least one")
        steps = self.timesteps
        if steps is not None and (not steps or not _falls(steps) or steps[-1] < 0 or steps[0] >= len(self.betas)):
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

    def _planned(self, a: Tensor, b: Tensor, s: Tensor, time: Tensor, here: Tensor) -> Plan:
        levels = torch.cat([here, torch.ones(1, dtype=torch.float64)])
        return Plan(a, b, s, levels.sqrt(), (1 - levels).sqrt(), time, start=1.0)


@final
@dataclass(frozen=True)
class DDPM(_VariancePreserving):
    """Ancestral sampling (Ho et al. 2020). `large_variance` adds beta instead of the posterior variance."""

    large_variance: bool = False

    def plan(self) -> Plan:
        time, here, after = self._levels()
        alpha = here / after
        beta = 1 - alpha
        a = alpha.sqrt() * (1 - after) / (1 - here)
        b = after.sqrt() * beta / (1 - here)
        variance = beta if self.large_variance else beta * (1 - after) / (1 - here)
        variance = torch.where(after < 1, variance, 0.0)  # no noise on the way to the data itself
        return self._planned(a, b, variance.sqrt(), time, here)


@final
@dataclass(frozen=True)
class DDIM(_VariancePreserving):
    """Song et al. 2021. `eta` = 1 has DDPM's noise; `eta` = 0 none at all, and then nothing can be speculated."""

    eta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta < 0:
            raise InputError(f"eta must not be negative, not {self.eta}")

    def plan(self) -> Plan:
        time, here, after = self._levels()
        s = self.eta * ((1 - after) / (1 - here)).sqrt() * (1 - here / after).sqrt()
        if bool((s**2 > 1 - after).any()):
            raise InputError(f"eta={self.eta} asks for more noise than a step may have; use a smaller one")
        a = (1 - after - s**2).sqrt() / (1 - here).sqrt()
        b = after.sqrt() - a * here.sqrt()
        return self._planned(a, b, s, time, here)


@final
@dataclass(frozen=True)
class EulerAncestral(Schedule):
    """Ancestral Euler steps on x = Y + sigma g (Karras et al. 2022 notation). `sigmas` fall, and may end in 0."""

    sigmas: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sigmas) < 2 or not _falls(self.sigmas) or self.sigmas[-1] < 0:
            raise InputError("sigmas must be at least two numbers that fall strictly, none below 0")

    def plan(self) -> Plan:
        sigma = torch.tensor(self.sigmas, dtype=torch.float64)
        here, after = sigma[:-1], sigma[1:]
        up = (after**2 * (here**2 - after**2)).sqrt() / here
        down = (after**2 - up**2).clamp(min=0).sqrt()
        return Plan(down / here, 1 - down / here, up, torch.ones_like(sigma), sigma, here, start=float(sigma[0]))


@final
@dataclass(frozen=True)
class OUExponential(Schedule):
    """The reverse of dX = -X dt + sqrt(2) dB by the exponential integrator: the score is frozen on each step.

    `times` fall from the noisy end to the clean one, which must stay above 0.
    """

    times: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.times) < 2 or not _falls(self.times) or self.times[-1] <= 0:
            raise InputError("times must be at least two numbers that fall strictly, all above 0")

    @staticmethod
    def even(steps: int, first: float = 5.0, last: float = 0.01) -> OUExponential:
        """Steps of equal length in log(exp(2 t) - 1), half the log of the noise-to-signal ratio: fine near the data."""
        low, high = (math.log(math.expm1(2 * t)) for t in (last, first))
        grid = torch.linspace(high, low, steps + 1, dtype=torch.float64)
        return OUExponential(tuple((torch.log1p(grid.exp()) / 2).tolist()))

    def plan(self) -> Plan:
        t = torch.tensor(self.times, dtype=torch.float64)
        length, spread = -t.diff(), -torch.expm1(-2 * t[:-1])  # spread: the variance at the step's start
        push = 2 * torch.expm1(length) / spread
        signal = torch.exp(-t)
        noise = (-torch.expm1(-2 * t)).sqrt()
        return Plan(
            length.exp() - push, push * signal[:-1], torch.expm1(2 * length).sqrt(), signal, noise, t[:-1], start=1.0
        )


def _falls(numbers: Sequence[float]) -> bool:
    return all(later < earlier for earlier, later in itertools.pairwise(numbers))


def _positive(value: object, *names: str) -> None:
    for name in names:
        if not getattr(value, name) > 0:
            raise InputError(f"{name} must be positive, not {getattr(value, name)}")


def spaced(steps: int, of: int) -> tuple[int, ...]:
    """`steps` timesteps spread evenly over `of`, from noisy to clean, for `timesteps=`."""
    if not 1 <= steps <= of:
        raise InputError(f"steps must be between 1 and {of}, not {steps}")
    grid: Sequence[float] = torch.linspace(of - 1, 0, steps, dtype=torch.float64).tolist()
    return tuple(round(t) for t in grid)
