"""What is taken from a scheduler of diffusers: a plan, and how a network's output becomes a prediction of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.schedules import LearnedRange, Plan

Limit = Callable[[Tensor], Tensor]
"""What is done to predictions of the data (m, d): clipping or thresholding."""


@dataclass(frozen=True)
class Clip:
    """Predictions held between -most and most."""

    most: float

    def __call__(self, prediction: Tensor) -> Tensor:
        return prediction.clamp(-self.most, self.most)


@dataclass(frozen=True, eq=False)
class Conversion:
    """The network is shown scale * x, and skip * x + out * its output is the prediction; each (N,)."""

    scale: Tensor
    skip: Tensor
    out: Tensor

    @staticmethod
    def of(prediction_type: str, signal: Tensor, noise: Tensor) -> Conversion:
        """Of networks whose inputs have unit scale, with x = signal * data + noise * epsilon."""
        size = (signal**2 + noise**2).sqrt()
        skip, out = {
            "epsilon": (1 / signal, -noise / signal),
            "sample": (torch.zeros_like(signal), torch.ones_like(signal)),
            "v_prediction": (signal / size**2, -noise / size),
            "flow_prediction": (torch.ones_like(signal), -noise),
        }[prediction_type]
        return Conversion(1 / size, skip, out)

    def table(self) -> Tensor:
        return torch.stack([self.scale, self.skip, self.out])


@dataclass(frozen=True, eq=False)
class Recipe:
    """A scheduler's steps."""

    plan: Plan
    conversion: Conversion
    limit: Limit | None = None
    gains: tuple[Tensor, Tensor] | None = None
    """Where a step uses the prediction both as it came and limited, it is given gains[0] * as it came + gains[1] *
    (limited - as it came), each (N,). None: it is given the limited one."""

    def between(self, first: int, last: int | None = None) -> Recipe:
        """Steps number `first` up to `last`, which is left out, without the others."""
        plan, spread, steps = self.plan, self.plan.spread, slice(first, last)
        levels = slice(first, None if last is None else last + 1)
        if isinstance(spread, LearnedRange):
            spread = LearnedRange(spread.low[steps], spread.high[steps])
        c = None if plan.c is None else torch.cat([torch.zeros_like(plan.c[:1]), plan.c[steps][1:]])
        tables = {name: getattr(plan, name)[steps] for name in ("a", "b", "s", "time")}
        tables |= {name: getattr(plan, name)[levels] for name in ("signal", "noise")}
        conversion = Conversion(*(part[steps] for part in vars(self.conversion).values()))
        gains = None if self.gains is None else (self.gains[0][steps], self.gains[1][steps])
        plan = replace(plan, c=c, spread=spread, **tables)
        return replace(self, plan=plan, conversion=conversion, gains=gains)


def state_after(plan: Plan, step: Tensor, x: Tensor, answer: Tensor, noise: Tensor) -> Tensor:
    """Where steps (m,) lead from states (m, *shape), by a denoiser's answers to them and this noise; for steps that do
    not look back. The noise is not split: an answered standard deviation is that of all of it."""
    a, b, s = (table[step].view(-1, *(1,) * (x.dim() - 1)) for table in (plan.a, plan.b, plan.s))
    data, rest = answer.tensor_split([x.shape[1]], dim=1)
    if plan.spread is not None:
        answered = plan.spread.scale(plan.spread.read(rest.flatten(1)), step).view_as(x)
        s = torch.where(s > 0, answered, 0.0)
    return a * x + b * data + s * noise


def check_signal(prediction_type: str, signal: Tensor) -> None:
    """Refuse to tell the data from noise where there is no data left."""
    if prediction_type == "epsilon" and not bool(signal.all()):
        raise InputError(
            "rescale_betas_zero_snr leaves no signal at the first timestep, where the data cannot be told from "
            "prediction_type='epsilon': use a model with 'v_prediction' or 'sample', or timestep_spacing='leading'"
        )
