"""Churn: noise is added first, and a step of the ODE follows (Karras et al. 2022, algorithm 2, first order)."""

from __future__ import annotations

import math
from typing import final

import torch

from drawahead.schedules.base import Plan, Schedule, levels
from drawahead.validate import number
from drawahead.values import dataclass


@final
@dataclass(frozen=True, repr=False)
class Churn(Schedule):
    """x is raised from noise level c to (1 + gamma) c, the network is asked there, and x goes on to the next level.

    Structure predictors of the AlphaFold 3 kind sample so. `sigmas` are the levels, which fall and may end in 0;
    `gamma` is by how much they are raised, as long as the *next* one is above `above`; `noise` multiplies what is
    added, and `step` how far the ODE's step goes. Steps without churn are deterministic: exact samplers take them one
    at a time.

    The states of this chain are the inputs of the network, *after* noise was added: a step ends with its noise, as all
    Gaussian steps do. The last state is the sample.
    """

    sigmas: tuple[float, ...]
    gamma: float = 0.8
    above: float = 1.0
    noise: float = 1.003
    step: float = 1.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigmas", levels("sigmas", self.sigmas))
        for name in ("gamma", "above", "noise", "step"):
            object.__setattr__(self, name, number(name, getattr(self, name), least=0))

    @staticmethod
    def levels(
        steps: int, data: float = 16.0, most: float = 160.0, least: float = 4e-4, rho: float = 7.0
    ) -> list[float]:
        """The levels that AlphaFold 3 has: steps + 1 of them, from `most` to `least` times the size of the data."""
        share = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
        levels: list[float] = (
            data * (most ** (1 / rho) + share * (least ** (1 / rho) - most ** (1 / rho))) ** rho
        ).tolist()
        return levels

    def plan(self) -> Plan:
        level = torch.tensor(self.sigmas, dtype=torch.float64)
        here, after = level[:-1], level[1:]
        raised = here * (1 + self.gamma * (after > self.above).double())
        added = self.noise * (raised**2 - here**2).clamp(min=0).sqrt()  # before each step
        a = 1 + self.step * (after - raised) / raised
        s = torch.cat([added[1:], torch.zeros_like(added[:1])])
        levels = torch.cat([raised, level[-1:]])
        start = math.hypot(float(here[0]), float(added[0]))
        return Plan(a, 1 - a, s, torch.ones_like(levels), levels, raised, start=start)
