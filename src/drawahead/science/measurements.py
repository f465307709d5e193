"""Posterior sampling: a denoiser that also follows a measurement (Chung et al. 2023, DPS)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.errors import InputError
from drawahead.schedules import Given, Schedule
from drawahead.science.rows import Tables
from drawahead.validate import number

Measure = Callable[[Tensor], Tensor]
"""Predicted data (m, *shape) -> the measurements they would give (m, ...)."""


def posterior(
    chain: GaussianChain, measure: Measure, measured: Tensor, *, strength: float = 1.0, norm: bool = True
) -> GaussianChain:
    """The chain guided by a measurement: every step also descends the gradient, with respect to its state, of
    |measured - measure(prediction)|, `strength` times.

    Samples are exact samples of the DPS chain; that chain itself is an approximation of the posterior. A query is a
    forward and a backward pass.

    measure: differentiable, and row by row: a mask, a blur, any linear or other measurement.
    measured: (rows, ...) as `measure` returns it, one row for each sample or a single one for all.
    norm: the gradient of the norm, as DPS has it; otherwise that of half its square, a Gaussian likelihood's for
        `strength` = (step's variance) / (noise variance), and whatever else you put into it.
    """
    strength = number("strength", strength, above=0)
    if chain.moves.plan.spread is not None:
        raise InputError("steps whose variance is learned have no room for a measurement: use a fixed variance")
    if "measured" in chain.condition:
        raise InputError("condition['measured'] is there already: combine both measurements into one")
    plan = chain.schedule.plan()
    dead = (plan.b == 0).nonzero()
    if len(dead):
        raise InputError(f"step {int(dead[0])} does not use its prediction: nothing can pull it")
    with torch.no_grad():
        answer = measure(torch.zeros(2, *chain.shape, device=chain.device, dtype=torch.float64))
    if answer.shape[1:] != measured.shape[1:] or len(answer) != 2:
        raise InputError(
            f"measure returns {tuple(answer.shape[1:])} for a prediction, but measured has {tuple(measured.shape[1:])}"
        )
    pulled = _Pulled(chain.denoiser, chain.schedule, measure, strength, norm)
    condition = {**chain.condition, "measured": measured.to(chain.device)}
    return chain.replace(denoiser=pulled, schedule=Given(plan), condition=condition)


@final
class _Pulled:
    passes = 2

    def __init__(self, denoiser: Any, schedule: Schedule, measure: Measure, strength: float, norm: bool) -> None:
        self.denoiser, self.schedule, self.measure = denoiser, schedule, measure
        self.strength, self.norm, self.tables = strength, norm, Tables(schedule.plan().b)

    def __call__(self, x: Tensor, k: Tensor, measured: Tensor, **given: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            data = self.schedule.adjust(self.denoiser(x, k, **given).flatten(1)).view_as(x).double()
            off = (measured.double() - self.measure(data)).flatten(1)
            loss = off.norm(dim=1) if self.norm else off.square().sum(1) / 2
            (slope,) = torch.autograd.grad(loss.sum(), x)
        (b,) = self.tables[x.device]
        return data.detach() - self.strength * slope.double() / b[k].view(-1, *(1,) * (x.dim() - 1))
