"""Ancestral Euler steps on a ladder of noise levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from drawahead.errors import InputError
from drawahead.schedules.base import Plan, Schedule, falls
from drawahead.validate import numbers


@final
@dataclass(frozen=True, repr=False)
class EulerAncestral(Schedule):
    """Ancestral Euler steps on x = Y + sigma g (Karras et al. 2022 notation). `sigmas` fall, and may end in 0."""

    sigmas: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigmas", numbers("sigmas", self.sigmas))
        if len(self.sigmas) < 2 or not falls(self.sigmas) or self.sigmas[-1] < 0:
            raise InputError("sigmas must be at least two numbers that fall strictly, none below 0")

    def plan(self) -> Plan:
        sigma = torch.tensor(self.sigmas, dtype=torch.float64)
        here, after = sigma[:-1], sigma[1:]
        up = (after**2 * (here**2 - after**2)).sqrt() / here
        down = (after**2 - up**2).clamp(min=0).sqrt()
        return Plan(down / here, 1 - down / here, up, torch.ones_like(sigma), sigma, here, start=float(sigma[0]))
