"""Inference: all parts, one after another, as one chain of Gaussian steps.

The state has a lane for each of the K parts, all of them noise at first. Step k = j R + r moves lane j alone, by step r
of the schedule, and the model is told the whole state: finished parts before j, noise being cleaned at j. So a window
of any sampler may reach beyond the end of a part, where drafts are told a guess of the part that is not yet finished,
and the law is that of drawing part after part. A step without noise, such as DDPM's last, is never speculated on:
windows end there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from drawahead.ardiffusion.conditionals import Conditionals
from drawahead.chains.stacked import StackedChain
from drawahead.chains.stacked_plan import StackedPlan
from drawahead.errors import InputError
from drawahead.sample import Result
from drawahead.sample import sample as draw
from drawahead.samplers.base import Sampler
from drawahead.schedules import OUExponential, Plan, Schedule

DEFAULT = OUExponential.even(64, first=5.0, last=1e-3)
"""64 steps a part, down to noise of standard deviation 0.045, and every one of them with noise."""


def chain(
    conditionals: Conditionals,
    schedule: Schedule = DEFAULT,
    *,
    record: Sequence[int] = (),
    dtype: torch.dtype | None = None,
) -> StackedChain:
    """The chain that draws part after part, each by the steps of `schedule`. Samples are (num_samples, K, d): what
    `parts.join` makes data of. `record` and `dtype` are as in `StackedChain`."""
    if not (hasattr(conditionals, "parts") and hasattr(conditionals, "mean")):
        raise InputError(f"give an ARModel or other Conditionals, not {type(conditionals).__name__}")
    parts, plan = conditionals.parts, schedule.plan()
    device = _device(conditionals)
    oracle = _oracle(conditionals, schedule, plan.to(device))
    if dtype is None:
        dtype = torch.float32 if isinstance(conditionals, nn.Module) else torch.float64
    return StackedChain(oracle, stacked(plan, parts.number), (parts.size,), record=record, dtype=dtype, device=device)


def sample(
    conditionals: Conditionals,
    num_samples: int = 1,
    *,
    schedule: Schedule = DEFAULT,
    sampler: Sampler | None = None,
    seed: int | None = None,
) -> Result:
    """Draw data (num_samples, *parts.shape): `drawahead.sample` on the chain, its parts joined."""
    result = draw(chain(conditionals, schedule), num_samples, sampler=sampler, seed=seed)
    return replace(result, samples=conditionals.parts.join(result.samples))


def stacked(plan: Plan, number: int) -> StackedPlan:
    """The steps of a plan for each of so many lanes, one lane after another."""
    count = len(plan.a)
    fixed = plan.s == 0
    scale = torch.where(fixed, 1.0, plan.s)
    lane = torch.arange(number).repeat_interleave(count)
    step = torch.arange(number * count)
    a = torch.eye(number, dtype=torch.float64).repeat(len(step), 1, 1)
    a[step, lane, lane] = plan.a.repeat(number)
    s = torch.zeros(len(step), number, 1, dtype=torch.float64)
    s[step, lane, 0] = scale.repeat(number)
    return StackedPlan(
        a,
        (plan.b / scale).repeat(number)[:, None],
        s,
        start=torch.full((number,), plan.start),
        final=plan.final * torch.eye(number),
        fixed=fixed.repeat(number),
    )


def _oracle(conditionals: Conditionals, schedule: Schedule, plan: Plan) -> Callable[[Tensor, Tensor], Tensor]:
    count = len(plan.a)
    noise = torch.where(plan.signal == 0, 1.0, plan.noise)  # where a process starts at 0, nothing is known, as in noise

    def oracle(lanes: Tensor, k: Tensor) -> Tensor:
        part, step = k // count, k % count
        if plan.final != 1:  # what a finished part is, not the state that became it
            finished = torch.arange(lanes.shape[1], device=k.device) < part[:, None]
            lanes = torch.where(finished[..., None], plan.final * lanes, lanes)
        return schedule.adjust(conditionals.mean(lanes, part, plan.signal[step], noise[step]))

    return oracle


def _device(conditionals: Conditionals) -> torch.device:
    return next(conditionals.parameters()).device if isinstance(conditionals, nn.Module) else torch.device("cpu")
