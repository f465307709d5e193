"""The Ornstein-Uhlenbeck process, reversed by the exponential integrator."""

from __future__ import annotations

import math
from typing import final

import torch

from drawahead.errors import InputError
from drawahead.schedules.base import Plan, Schedule, falls
from drawahead.validate import number, numbers, whole
from drawahead.values import dataclass

_LATEST = 300.0


@final
@dataclass(frozen=True, repr=False)
class OUExponential(Schedule):
    """The reverse of dX = -X dt + sqrt(2) dB by the exponential integrator: the score is frozen on each step.

    `times` fall from the noisy end to the clean one, which must stay above 0.
    """

    times: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", numbers("times", self.times))
        if len(self.times) < 2 or not falls(self.times) or self.times[-1] <= 0:
            raise InputError("times must be at least two numbers that fall strictly, all above 0")

    @staticmethod
    def even(steps: int, first: float = 5.0, last: float = 0.01) -> OUExponential:
        """Steps of equal length in log(exp(2 t) - 1), half the log of the noise-to-signal ratio: fine near the data."""
        first, last = number("first", first, above=0), number("last", last, above=0)
        if not last < first <= _LATEST:
            raise InputError(f"first must be above last, and at most {_LATEST} where nothing is left, not {first}")
        low, high = (math.log(math.expm1(2 * t)) for t in (last, first))
        grid = torch.linspace(high, low, whole("steps", steps, 1) + 1, dtype=torch.float64)
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
