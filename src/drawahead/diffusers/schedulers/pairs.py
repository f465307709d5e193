"""Schedulers of second order: two calls of the network to a step, read by trying them as in `probing`.

The first call leads from x to x1 = p x + q output1, without noise; the second, at x1, to x' = u x + v output1 +
w output2 + S xi. Both calls are one query of a denoiser. Its answer m solves x' = A x + B m + S xi, with A and B of a
step of first order: then m is close to the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.diffusers.denoiser import Denoiser
from drawahead.diffusers.schedulers.probing import ENTRIES, LARGE, LEFT, Options, least_squares
from drawahead.diffusers.schedulers.recipe import Conversion, Recipe
from drawahead.diffusers.schedulers.supply import Supplied, again, in_float64, levels_of
from drawahead.errors import InputError
from drawahead.schedules import Plan

Equation = tuple[list[Tensor], Tensor]
"""What went in, and what came out."""


@final
@dataclass(frozen=True)
class _Step:
    """The one or two calls of a step: flat float64 numbers, and how states were scaled."""

    calls: list[Equation]
    scales: list[float]
    times: list[float]


def paired(ready: Any, options: Options, first: int) -> tuple[Recipe, Tensor]:
    """Steps from call number `first` on, and the tables of `PairedDenoiser`. The scheduler is left as it is."""
    make, kind, time = again(ready), type(ready).__name__, ready.timesteps[first::2]
    try:
        signal, noise = levels_of(in_float64(make()), time)
        trials, checks = (_run(in_float64(make()), first, options, size) for size in (1.0, LARGE))
    except InputError:
        raise
    except Exception as error:  # any: it is the scheduler's
        raise InputError(f"{kind} cannot be stepped through its timesteps: {error}") from error
    rows = []
    for k, (trial, check) in enumerate(zip(trials, checks, strict=True)):
        parts = [least_squares(*call) or [] for call in trial.calls]
        if not all(_explains(part, call) for part, call in zip(parts, check.calls, strict=True)):
            raise InputError(
                f"{kind} cannot be followed exactly: step {k} is not two calls of the network that are linear in the "
                "state, the outputs and, the second alone, noise"
            )
        p, q, *_ = parts[0] if len(parts) == 2 else (1.0, 0.0)  # a last step of one call asks nothing new in its second
        u, v, *rest = parts[-1]
        w, y, *s = rest if len(parts) == 2 else (0.0, 0.0, *rest)
        rows.append([trial.scales[0], p, q, trial.scales[-1], trial.times[-1], u + y * p, v + y * q, w, *(s or [0.0])])
    *tables, s = torch.tensor(rows, dtype=torch.float64).T
    a = (noise[1:] ** 2 - s**2).clamp(min=0).sqrt() / noise[:-1]
    b = signal[1:] - a * signal[:-1]
    b = torch.where(b.abs() > 1e-6, b, 1.0)  # levels steer drafts alone: any B is exact
    tables[5:] = (tables[5] - a) / b, tables[6] / b, tables[7] / b
    plan = Plan(a, b, s, signal, noise, time, float(getattr(ready, "init_noise_sigma", 1.0)))
    return Recipe(plan, Conversion(tables[0], 0 * s, 1 + 0 * s)), torch.stack(tables)


def _run(scheduler: Any, first: int, options: Options, size: float) -> list[_Step]:
    generator, noises, steps = torch.Generator().manual_seed(int(size)), list[Tensor](), list[_Step]()

    def drawn() -> Tensor:
        return size * torch.randn(ENTRIES, dtype=torch.float64, generator=generator)

    def supply(shape: tuple[int, ...]) -> Tensor:
        with torch._C.DisableTorchFunction():
            noises.append(drawn())
        return noises[-1]

    before: list[Tensor] = []  # what the first call of a step was given
    for k in range(first, len(scheduler.timesteps)):
        x, output, t = drawn(), drawn(), scheduler.timesteps[k]
        noises.clear()
        with Supplied(supply):
            shown = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
            after = scheduler.step(output.clone(), t, x.clone(), **options)[0]
        if not before:
            steps.append(_Step([], [], []))
        given = [*before, output, x] if before else [x, output]
        steps[-1].calls.append(([part.flatten() for part in (*given, *noises)], after.flatten()))
        steps[-1].scales.append(float((shown / x).mean()))
        steps[-1].times.append(float(t))
        if before == [] and noises and k + 1 < len(scheduler.timesteps):
            raise InputError(f"{type(scheduler).__name__} draws noise between the two calls of a step: {_REMEDY}")
        before = [] if before else [x, output]
    return steps


_REMEDY = (
    "for DPMSolverSDEScheduler's steps take da.adapters.from_k_diffusion with da.science.DPMPPSDE(sigmas), which draws "
    "both parts of its Brownian path"
)


def _explains(found: list[float], call: Equation) -> bool:
    columns, after = call
    if len(found) != len(columns):
        return False
    expected = torch.stack(columns, 1) @ torch.tensor(found, dtype=torch.float64)
    return bool((expected - after).norm() <= LEFT * after.norm())


@final
class PairedDenoiser:
    """Both calls of a step as one query. Tables (8, N): the scale of the state at the first call; p and q; scale and
    time of the second call; what the answer takes of the state and of both outputs."""

    def __init__(self, one: Denoiser, tables: Tensor) -> None:
        self.one, self.tables, self.passes = one, tables.to(one.time.device), 2 * one.passes

    def __call__(self, x: Tensor, k: Tensor, **given: Tensor) -> Any:
        wide = self.tables[:, k].view(8, -1, *(1,) * (x.dim() - 1))
        scale, p, q, second, _, u, v, w = wide.unbind()
        output = self.one.ask((x * scale).to(self.one.dtype), self.one.time[k], given)
        if not isinstance(output, Tensor) or output.shape != x.shape:
            return output  # the chain says what is wrong with it
        at, time = p * x + q * output, self.tables[4, k].to(self.one.time.dtype)
        return u * x + v * output + w * self.one.ask((at * second).to(self.one.dtype), time, given)
