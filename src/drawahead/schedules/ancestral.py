"""Ancestral Euler steps on a ladder of noise levels."""

from __future__ import annotations

from typing import final

import torch

from drawahead.schedules.base import Plan, Schedule, levels
from drawahead.validate import number
from drawahead.values import dataclass


@final
@dataclass(frozen=True, repr=False)
class EulerAncestral(Schedule):
    """Ancestral Euler steps on x = Y + sigma g (Karras et al. 2022 notation). `sigmas` fall, and may end in 0.

    As in k-diffusion's `sample_euler_ancestral`, `eta` scales how much of the next level is fresh noise and `s_noise`
    multiplies it. With eta=0 this is the deterministic Euler method, and nothing can be drawn ahead.
    """

    sigmas: tuple[float, ...]
    eta: float = 1.0
    s_noise: float = 1.0

    def __post_init__(self) -> None:
        for name in ("eta", "s_noise"):
            object.__setattr__(self, name, number(name, getattr(self, name), least=0))
        object.__setattr__(self, "sigmas", levels("sigmas", self.sigmas))

    def plan(self) -> Plan:
        sigma = torch.tensor(self.sigmas, dtype=torch.float64)
        here, after = sigma[:-1], sigma[1:]
        up = torch.minimum(after, self.eta * (after**2 * (here**2 - after**2)).sqrt() / here)
        down = (after**2 - up**2).clamp(min=0).sqrt()
        a = down / here
        return Plan(a, 1 - a, self.s_noise * up, torch.ones_like(sigma), sigma, here, start=float(sigma[0]))
