"""Steps down a ladder of noise levels (Karras et al. 2022), as k-diffusion has them: states x = y + sigma eps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.schedules import Plan, Schedule
from drawahead.schedules.base import falls
from drawahead.validate import number, numbers
from drawahead.values import dataclass


def ancestral(here: Tensor, to: Tensor, eta: float) -> tuple[Tensor, Tensor]:
    """A step from one level to another as one down to a lower level, and noise that leads up again."""
    up = torch.minimum(to, eta * (to**2 * (here**2 - to**2).clamp(min=0)).sqrt() / here)
    return (to**2 - up**2).clamp(min=0).sqrt(), up


@dataclass(frozen=True, repr=False)
class Ladder(Schedule):
    """`sigmas` fall and may end in 0. `eta` is how much noise a step has, `s_noise` multiplies it."""

    sigmas: tuple[float, ...]
    eta: float = 1.0
    s_noise: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigmas", checked(self.sigmas))
        for name in ("eta", "s_noise"):
            object.__setattr__(self, name, number(name, getattr(self, name), above=0))

    def levels(self) -> tuple[Tensor, Tensor]:
        """Before and after each step (N,)."""
        sigma = torch.tensor(self.sigmas, dtype=torch.float64)
        return sigma[:-1], sigma[1:]

    def plan(self) -> Plan:
        here, after = self.levels()
        down, up = ancestral(here, after, self.eta)
        return planned(down / here, up * self.s_noise, here, after[-1:], self.sigmas[0])


def checked(sigmas: Sequence[float]) -> tuple[float, ...]:
    """Levels that fall."""
    levels = numbers("sigmas", sigmas)
    if len(levels) < 2 or not falls(levels) or levels[-1] < 0:
        bad = next((i for i in range(1, len(levels)) if levels[i] >= levels[i - 1]), None)
        where = "" if bad is None else f": sigmas[{bad}] = {levels[bad]:g} does not; sort them, the largest first"
        raise InputError(f"sigmas must be at least two numbers that fall strictly, none below 0{where}")
    return levels


def planned(a: Tensor, scale: Tensor, here: Tensor, last: Tensor, start: float) -> Plan:
    """Steps x' = a x + (1 - a) m + scale xi at these levels."""
    noise = torch.cat([here, last])
    return Plan(a, 1 - a, scale, torch.ones_like(noise), noise, here, start=start)


@final
@dataclass(frozen=True, repr=False)
class DPMPP2MSDE(Ladder):
    """`dpmpp_2m_sde`: a step also uses the prediction of the step before; `heun` is the other of its two solvers."""

    heun: bool = False

    def plan(self) -> Plan:
        here, after = self.levels()
        ends = after == 0
        h = torch.where(ends, 1.0, (here / torch.where(ends, 1.0, after)).log())
        total = h * (1 + self.eta)
        b = -torch.expm1(-total)
        lean = (b / -total + 1) if self.heun else b / 2
        before = torch.cat([torch.ones(1, dtype=torch.float64), h[:-1]])
        c = torch.where(ends | (torch.arange(len(h)) == 0), 0.0, -lean * h / before)
        a = torch.where(ends, 0.0, after / here * torch.exp(-self.eta * h))
        scale = self.s_noise * after * (-torch.expm1(-2 * self.eta * h)).sqrt()
        plan = planned(a, scale, here, after[-1:], self.sigmas[0])
        return replace(plan, b=torch.where(ends, 1.0, b) - c, c=c)


@final
class Tables(dict[torch.device, tuple[Tensor, ...]]):
    """Tables on every device that asks: they are carried over once, not with every call."""

    def __init__(self, *tables: Tensor) -> None:
        self.tables = tables

    def captured_parts(self) -> dict[str, object]:
        """What a captured round depends on: which devices have asked so far is no part of it."""
        return {"tables": self.tables}

    def __missing__(self, device: torch.device) -> tuple[Tensor, ...]:
        self[device] = tuple(table.to(device) for table in self.tables)
        return self[device]
