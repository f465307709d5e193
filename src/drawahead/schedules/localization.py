"""Stochastic localization: the paper's process."""

from __future__ import annotations

import math
from typing import final

import torch

from drawahead.errors import InputError
from drawahead.schedules.base import Plan, Schedule
from drawahead.validate import number, whole
from drawahead.values import dataclass


@final
@dataclass(frozen=True, repr=False)
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
        object.__setattr__(self, "steps", whole("steps", self.steps, 1))
        for name in ("radius", "delta"):
            object.__setattr__(self, name, number(name, getattr(self, name), above=0))
        if not 1e-100 < self.radius < 1e100 or not 1e-100 < self.delta < 1e100:
            raise InputError(f"radius {self.radius} or delta {self.delta} is too large or too small to work with")

    @staticmethod
    def for_error(eps: float, dimension: int, radius: float = 1.0, delta: float = 0.01) -> StochasticLocalization:
        """Enough steps for total variation at most `eps` from mu * N(0, delta I), if Cov(mu) <= R^2.

        TV^2 <= KL / 2 <= kappa n (1 + Lambda) / 4 with Lambda = log(1 + R^2 / delta), by Girsanov, the martingale
        identity for E[Y | X_t], and tr Cov(Y | X_t) <= n / (t + R^-2).
        """
        if not 0 < number("eps", eps) <= 1:
            raise InputError(f"eps must be in (0, 1], not {eps}")
        growth = StochasticLocalization(1, radius, delta).growth
        kappa = 4 * eps**2 / (whole("dimension", dimension, 1) * (1 + growth))
        if not math.log1p(kappa) > 0:
            raise InputError(f"eps={eps} asks for more steps than can be counted; use a larger one")
        return StochasticLocalization(math.ceil(growth / math.log1p(kappa)), radius, delta)

    @property
    def growth(self) -> float:
        """Lambda = log(1 + R^2 / delta): what log(t + R^-2) gains along the grid."""
        return math.log1p(self.radius**2 / self.delta)

    def plan(self) -> Plan:
        step = self.growth / self.steps
        t = torch.expm1(torch.arange(self.steps + 1, dtype=torch.float64) * step) / self.radius**2
        gap = t.diff()
        ones = torch.ones_like(gap)
        return Plan(ones, gap, gap.sqrt(), t, t.sqrt(), t[:-1], start=0.0, final=1 / float(t[-1]))
