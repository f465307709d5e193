"""Forward processes dx = f(t) x dt + g(t) dw on [0, 1] (Song et al. 2021), with states signal(t) y + noise(t) eps."""

from __future__ import annotations

import abc
import math
from typing import Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import number, whole
from drawahead.values import dataclass

Pair = tuple[Tensor, Tensor]


class SDE(abc.ABC):
    """A forward process, in so many `steps`. Times (N,) are float32, as the loops have them; all else is float64."""

    steps: int
    start: float
    """The standard deviation of the first state."""

    @abc.abstractmethod
    def marginal(self, t: Tensor) -> Pair:
        """Signal and noise at these times."""

    @abc.abstractmethod
    def rates(self, t: Tensor) -> Pair:
        """f and g at these times."""

    def jumps(self, t: Tensor) -> Pair:
        """f and G of one step that starts at these times."""
        drift, diffusion = self.rates(t)
        return drift / self.steps, diffusion / math.sqrt(self.steps)

    def alphas(self, t: Tensor) -> Tensor:
        """The factor of a corrector's steps at these times."""
        return torch.ones_like(t, dtype=torch.float64)

    def index(self, t: Tensor) -> Tensor:
        """Times as indices of discrete levels; in float32, as the loops round."""
        return (t.float() * (self.steps - 1)).long()


@dataclass(frozen=True)
class _Betas(SDE):
    """Rates that rise linearly from `beta_min` to `beta_max`."""

    beta_min: float = 0.1
    beta_max: float = 20.0
    steps: int = 1000

    start = 1.0

    def __post_init__(self) -> None:
        whole("steps", self.steps, 2)
        if not 0 <= number("beta_min", self.beta_min) < number("beta_max", self.beta_max) < self.steps:
            raise InputError(
                f"beta_min={self.beta_min} and beta_max={self.beta_max} must rise, from 0 to below steps={self.steps}"
            )

    def rates(self, t: Tensor) -> Pair:
        beta = self.beta_min + t.double() * (self.beta_max - self.beta_min)
        return -beta / 2, beta.sqrt()

    def alphas(self, t: Tensor) -> Tensor:
        return 1 - self._discrete(t)

    def _total(self, t: Tensor) -> Tensor:
        """The integral of beta up to t."""
        t = t.double()
        return t**2 * (self.beta_max - self.beta_min) / 2 + t * self.beta_min

    def _discrete(self, t: Tensor) -> Tensor:
        least, most = self.beta_min / self.steps, self.beta_max / self.steps
        return torch.linspace(least, most, self.steps, dtype=torch.float64)[self.index(t)]


@final
@dataclass(frozen=True)
class VPSDE(_Betas):
    """The variance-preserving process."""

    def marginal(self, t: Tensor) -> Pair:
        total = self._total(t)
        return (-total / 2).exp(), (-torch.expm1(-total)).sqrt()

    def jumps(self, t: Tensor) -> Pair:
        beta = self._discrete(t)
        return (1 - beta).sqrt() - 1, beta.sqrt()


@final
@dataclass(frozen=True)
class SubVPSDE(_Betas):
    """The sub-VP process, whose variance stays below that of `VPSDE`."""

    def marginal(self, t: Tensor) -> Pair:
        total = self._total(t)
        return (-total / 2).exp(), -torch.expm1(-total)

    def rates(self, t: Tensor) -> Pair:
        drift, diffusion = super().rates(t)
        return drift, diffusion * (-torch.expm1(-2 * self._total(t))).sqrt()


@final
@dataclass(frozen=True)
class VESDE(SDE):
    """The variance-exploding process."""

    sigma_min: float = 0.01
    sigma_max: float = 50.0
    steps: int = 1000

    def __post_init__(self) -> None:
        whole("steps", self.steps, 2)
        if not 0 < number("sigma_min", self.sigma_min) < number("sigma_max", self.sigma_max):
            raise InputError(f"sigma_min={self.sigma_min} must be above 0 and below sigma_max={self.sigma_max}")

    @property
    def start(self) -> float:  # type: ignore[override]
        return self.sigma_max

    def marginal(self, t: Tensor) -> Pair:
        sigma = self.sigma_min * (self.sigma_max / self.sigma_min) ** t.double()
        return torch.ones_like(sigma), sigma

    def rates(self, t: Tensor) -> Pair:
        sigma = self.marginal(t)[1]
        return torch.zeros_like(sigma), sigma * math.sqrt(2 * math.log(self.sigma_max / self.sigma_min))

    def jumps(self, t: Tensor) -> Pair:
        ends = math.log(self.sigma_min), math.log(self.sigma_max)
        level, index = torch.linspace(*ends, self.steps, dtype=torch.float64).exp(), self.index(t)
        before = torch.where(index > 0, level[index - 1], 0.0)
        return torch.zeros_like(before), (level[index] ** 2 - before**2).sqrt()


@final
class Foreign(SDE):
    """An object with the methods of `score_sde` (`sde`, `discretize`, `marginal_prob`, `prior_logp`), which are called
    with states of ones and of twos."""

    def __init__(self, sde: Any) -> None:
        try:
            self.steps = whole("N", sde.N, 2)
            density = math.exp(float(sde.prior_logp(torch.zeros(1, 1, 1, 1))[0]))  # at 0, of the first state
            self.start = 1 / (density * math.sqrt(2 * math.pi))
        except (AttributeError, TypeError) as error:
            raise InputError(f"sde must be VPSDE(), SubVPSDE(), VESDE() or an object like theirs: {error}") from None
        self.sde = sde

    def marginal(self, t: Tensor) -> Pair:
        return self._read(self.sde.marginal_prob, t)

    def rates(self, t: Tensor) -> Pair:
        return self._read(self.sde.sde, t)

    def jumps(self, t: Tensor) -> Pair:
        return self._read(self.sde.discretize, t)

    def alphas(self, t: Tensor) -> Tensor:
        table = getattr(self.sde, "alphas", None)
        return super().alphas(t) if table is None else table.double()[self.index(t)]

    @staticmethod
    def _read(method: Any, t: Tensor) -> Pair:
        ones = torch.ones(len(t), 1, 1, 1)
        (factor, spread), (twice, same) = method(ones, t), method(2 * ones, t)
        if not bool(torch.isclose(2 * factor, twice).all() and torch.isclose(spread, same).all()):
            raise InputError("sde must be linear in x, with the same noise everywhere: this one is not")
        return factor.flatten().double(), spread.flatten().double()
