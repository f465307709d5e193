"""Steps on a ladder of noise levels, x = Y + sigma g: ancestral Euler, and churn."""

from __future__ import annotations

import math
from typing import final

import torch

from drawahead.errors import InputError
from drawahead.schedules.base import Plan, Schedule, falls
from drawahead.validate import number, numbers
from drawahead.values import dataclass


def levels(name: str, value: object) -> tuple[float, ...]:
    """`value` as noise levels: at least two numbers that fall, none below 0."""
    given = numbers(name, value)
    if len(given) < 2 or not falls(given) or given[-1] < 0:
        raise InputError(f"{name} must be at least two numbers that fall strictly, none below 0")
    return given


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


@final
@dataclass(frozen=True, repr=False)
class Churn(Schedule):
    """x is raised from noise level c to (1 + gamma) c, the network is asked there, and a step of the ODE leads to the
    next level (Karras et al. 2022, algorithm 2, first order).

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
