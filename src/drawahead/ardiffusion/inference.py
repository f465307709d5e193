"""Inference: all parts, one after another, as one chain of Gaussian steps.

The model sees the whole state: finished parts in the places before, noise being cleaned in the next. So a window of any
sampler may reach beyond the end of a part, where drafts see a guess of the part that is not yet finished, and the
distribution is that of drawing part after part. A step without noise, such as DDPM's last, is never speculated on:
windows end there. One part takes the steps of a schedule, or those of ULD inside segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from drawahead import rtk
from drawahead.ardiffusion.parts import Conditionals
from drawahead.chains.stacked import StackedChain
from drawahead.errors import InputError
from drawahead.sample import Result
from drawahead.sample import sample as draw
from drawahead.samplers.base import Sampler
from drawahead.schedules import OUExponential, Plan, Schedule
from drawahead.schedules.stacked import StackedPlan
from drawahead.validate import number
from drawahead.values import dataclass

Oracle = Callable[[Tensor, Tensor], Tensor]
"""(lanes (m, c, d), step (m,)) -> answers (m, d)."""
_Z, _V, _X, _PARTS = range(4)  # the lanes of ULD: z, v, x', and the parts that are finished


@final
@dataclass(frozen=True)
class RTK:
    """Reverse transition kernels drawn by underdamped Langevin dynamics: `kernel` steps inside each of `segments`.

    `spread` is as in `rtk.chain`: about the standard deviation of a part given those before. It changes the number of
    rounds, not the distribution. Segments must end above time 0.
    """

    kernel: rtk.ULD | rtk.PerSegment
    segments: rtk.Segments
    spread: float = 1.0

    def __post_init__(self) -> None:
        number("spread", self.spread, least=0)
        if not self.segments.times[-1] > 0:
            raise InputError("segments must end above time 0, for models are trained with some noise: set last=...")


DEFAULT = OUExponential.even(64, first=5.0, last=1e-3)
"""64 steps per part, down to noise of standard deviation 0.045, and every one of them with noise."""


def chain(
    conditionals: Conditionals,
    inner: Schedule | RTK = DEFAULT,
    *,
    record: Sequence[int] = (),
    dtype: torch.dtype | None = None,
) -> StackedChain:
    """The chain that draws part after part, each by the steps of `inner`.

    Samples are (num_samples, K, d): what `parts.join` makes data of. `record` and `dtype` are as in `StackedChain`.
    """
    device, usual = torch.device("cpu"), torch.float64
    if isinstance(conditionals, nn.Module):
        device, usual = next(conditionals.parameters()).device, torch.float32
    if isinstance(inner, RTK):
        plan, oracle = langevin(inner, conditionals, device)
    else:
        plan, oracle = scheduled(inner, conditionals, device)
    dtype = dtype or usual
    return StackedChain(oracle, plan, (conditionals.parts.size,), record=record, dtype=dtype, device=device)


def sample(
    conditionals: Conditionals,
    num_samples: int = 1,
    *,
    inner: Schedule | RTK = DEFAULT,
    sampler: Sampler | str | None = None,
    seed: int | None = None,
    max_live: int = 1024,
) -> Result:
    """Draw data (num_samples, *parts.shape): `drawahead.sample` on the chain, its parts joined."""
    result = draw(chain(conditionals, inner), num_samples, sampler=sampler, seed=seed, max_live=max_live)
    return replace(result, samples=conditionals.parts.join(result.samples))


def scheduled(schedule: Schedule, conditionals: Conditionals, device: torch.device) -> tuple[StackedPlan, Oracle]:
    """A lane for each part, all of them noise at first: step j R + r moves lane j by step r of the schedule."""
    plan, number = schedule.plan().to(device), conditionals.parts.number
    count = len(plan.a)
    noise = torch.where(plan.signal == 0, 1.0, plan.noise)  # a process that starts at 0 tells nothing, as noise does

    def oracle(lanes: Tensor, k: Tensor) -> Tensor:
        part, step = k // count, k % count
        if plan.final != 1:  # a finished part is its last state times this
            finished = torch.arange(number, device=k.device) < part[:, None]
            lanes = torch.where(finished[..., None], plan.final * lanes, lanes)
        return schedule.adjust(conditionals.mean(lanes, part, plan.signal[step], noise[step]))

    return _stacked(schedule.plan(), number), oracle


def _stacked(plan: Plan, number: int) -> StackedPlan:
    """The steps of a plan for each of so many lanes, one lane after another."""
    count, deterministic, signal = len(plan.a), plan.s == 0, plan.signal[:-1]
    scale = torch.where(deterministic, 1.0, plan.s)
    lane = torch.arange(number).repeat_interleave(count)
    step = torch.arange(number * count)
    own = torch.eye(number, dtype=torch.float64)[lane]  # (N, K)
    a = torch.eye(number, dtype=torch.float64).repeat(len(step), 1, 1)
    a[step, lane, lane] = plan.a.repeat(number)
    # The mean of the data never falls as the state rises, nor outruns it.
    highest = torch.where(signal > 0, 1 / torch.where(signal > 0, signal, 1.0), 0.0)
    return StackedPlan(
        a,
        (plan.b / scale).repeat(number)[:, None],
        (own * scale.repeat(number)[:, None])[..., None],
        start=torch.full((number,), plan.start),
        final=plan.final * torch.eye(number),
        deterministic=deterministic.repeat(number),
        reads=own,
        slopes=(torch.zeros(len(step)), highest.repeat(number)),
    )


def langevin(inner: RTK, conditionals: Conditionals, device: torch.device) -> tuple[StackedPlan, Oracle]:
    """The lanes z, v and x' draw part after part; a finished part is put away in a lane of its own."""
    parts = conditionals.parts
    number = parts.number
    # Of one part; the score stands for the answer that `plan` is made without.
    plan = rtk.chain(lambda x, t: x, inner.kernel, inner.segments, shape=(parts.size,), spread=inner.spread).plan
    steps = plan.steps // len(inner.segments)
    times = torch.tensor(inner.segments.times[1:], dtype=torch.float64, device=device).repeat_interleave(steps)
    signal, variance = torch.exp(-times), -torch.expm1(-2 * times)
    # rtk.chain asks for m with score = (signal m - z) / wide; by Tweedie score = (signal mean - z) / variance.
    wide = variance + signal**2 * inner.spread**2

    def oracle(lanes: Tensor, k: Tensor) -> Tensor:
        part, step = k // plan.steps, k % plan.steps
        z = lanes[:, _Z]
        state = torch.cat([lanes[:, _PARTS:], torch.zeros_like(lanes[:, :1])], dim=1)  # (m, K, d)
        state[torch.arange(len(k), device=k.device), part] = z
        mean = conditionals.mean(state, part, signal[step], variance[step].sqrt())
        ratio = (wide / variance)[step, None]
        return ratio * mean + ((1 - ratio) / signal[step, None]) * z

    # The mean rises with z, at most as fast as if z told the data outright: between these slopes lies the answer's.
    slopes = ((1 - wide / variance) / signal).cpu(), (1 / signal).cpu()
    return _put_away(plan, number, slopes), oracle


def _put_away(plan: StackedPlan, number: int, slopes: tuple[Tensor, Tensor]) -> StackedPlan:
    """The plan of one part for each of so many; between two of them z is kept and the next x' is fresh noise."""
    lanes, steps = _PARTS + number - 1, plan.steps
    assert plan.refresh is not None and plan.reads is not None

    def wide(tables: Tensor, *, square: bool) -> Tensor:
        """Tables of three lanes in as many as there are now; those that are new stay as they are."""
        room = tables.new_zeros(len(tables), lanes, lanes if square else tables.shape[-1])
        room[:, :_PARTS, : tables.shape[-1]] = tables
        if square:
            room[:, range(_PARTS, lanes), range(_PARTS, lanes)] = 1.0
        return room

    keep, add = (table[:-1] for table in plan.refresh)  # nothing happens after the last step of one part
    keeps = wide(keep, square=True).repeat(number, 1, 1)
    adds = torch.nn.functional.pad(wide(add, square=False), (0, 1)).repeat(number, 1, 1)
    for j in range(1, number):
        here = j * steps
        adds[here, :_PARTS, -1] = keep[0, :, _Z]  # one part finds its first x' in z; this one finds fresh noise there
        keeps[here, :_PARTS] = 0.0
        keeps[here, _PARTS + j - 1] = 0.0
        keeps[here, _PARTS + j - 1, _Z] = 1.0
    last = torch.eye(lanes, dtype=torch.float64)
    return StackedPlan(
        wide(plan.a, square=True).repeat(number, 1, 1),
        plan.b.repeat(number, 1),
        wide(plan.s, square=False).repeat(number, 1, 1),
        start=torch.nn.functional.pad(plan.start, (0, number - 1)),
        final=torch.cat([last[_PARTS:], last[_Z : _Z + 1]]),
        refresh=(torch.cat([keeps, last[None]]), torch.cat([adds, torch.zeros_like(adds[:1])])),
        reads=torch.nn.functional.pad(plan.reads, (0, number - 1)).repeat(number, 1),
        slopes=(slopes[0].repeat(number), slopes[1].repeat(number)),
    )
