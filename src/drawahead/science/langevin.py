"""Unadjusted Langevin dynamics as a chain: x' = x + h gradient(x) + sqrt(2 h) xi."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from drawahead.oracles.denoisers import Denoiser
from drawahead.schedules import Plan, Schedule
from drawahead.validate import number, whole
from drawahead.values import dataclass


@final
@dataclass(frozen=True, repr=False)
class Langevin(Schedule):
    """`steps` steps of size `step` down an energy, from a normal state of standard deviation `start`.

    `scale` is about the narrowest standard deviation of the target: drafts use it, and the distribution does not depend
    on it.
    """

    steps: int
    step: float
    start: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        whole("steps", self.steps, 1)
        for name in ("step", "scale"):
            number(name, getattr(self, name), above=0)
        number("start", self.start, least=0)

    def plan(self) -> Plan:
        # With m = x + scale^2 gradient, which is between 0 and x where the target is no narrower than `scale`.
        ones = torch.ones(self.steps, dtype=torch.float64)
        share, levels = ones * self.step / self.scale**2, torch.ones(self.steps + 1, dtype=torch.float64)
        noise = ones * math.sqrt(2 * self.step)
        return Plan(1 - share, share, noise, levels, levels, torch.arange(self.steps), start=self.start)

    def denoiser(self, gradient: Callable[..., Tensor]) -> Denoiser:
        """The denoiser for `gradient(x, **condition)`, the gradient of a log density."""
        square = self.scale**2

        def answer(x: Tensor, k: Tensor, **condition: Tensor) -> Tensor:
            return x.double() + square * gradient(x, **condition).double()

        return answer
