"""Schedulers of second order: two calls of the network to a step, read by trying them as in `probing`.

The first call leads from x to x1 = p x + q output1, without noise; the second, at x1, to x' = u x + v output1 +
w output2 + S xi. Both calls are one query of a denoiser. Its answer m solves x' = A x + B m + S xi, with A and B of a
step of first order: then m is close to the data.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from drawahead.diffusers.denoiser import Denoiser
from drawahead.diffusers.schedulers.recipe import Conversion, Recipe
from drawahead.diffusers.schedulers.supply import LARGE, Options, least_squares, levels_of, tried
from drawahead.errors import InputError
from drawahead.schedules import Plan


def paired(ready: Any, options: Options, first: int) -> tuple[Recipe, Tensor]:
    """Steps from call number `first` on, and the tables of `PairedDenoiser`. The scheduler is left as it is."""
    kind, time = type(ready).__name__, ready.timesteps[first:]
    try:
        signal, noise = levels_of(ready, time[::2])
        trials = tried(ready, first, options, LARGE)
    except InputError:
        raise
    except Exception as error:  # any: it is the scheduler's
        raise InputError(f"{kind} cannot be stepped through its timesteps: {error}") from error
    second = (torch.arange(len(time)) % 2 == 1).view(-1, 1, 1, 1, 1)
    of_first = [torch.where(second, part.roll(1, 0), 0.0) for part in (trials.x, trials.output)]
    table, fits = least_squares([trials.x, trials.output, *of_first, *trials.noises], trials.after)
    if not bool(fits.all()):
        raise InputError(
            f"{kind} cannot be followed exactly: step {int((~fits).nonzero()[0]) // 2} is not two calls of the network "
            "that are linear in the state, the outputs and, the second alone, noise"
        )
    calls = torch.stack([*table[:4], table[4:].norm(dim=0), trials.scale, time.double()])
    if bool(calls[4, :-1:2].any()):
        raise InputError(
            f"{kind} draws noise between the two calls of a step: for DPMSolverSDEScheduler's steps take "
            "da.adapters.from_k_diffusion with da.science.DPMPPSDE(sigmas), which draws both parts of its Brownian path"
        )
    if calls.shape[1] % 2:  # a last step of one call asks nothing new in its second
        p, q, _, _, *rest = calls[:, -1].tolist()
        alone = torch.tensor([[1.0, 0, 0, 0, *rest], [0, 0, p, q, *rest]], dtype=torch.float64)
        calls = torch.cat([calls[:, :-1], alone.T], dim=1)
    (p, q, *_, scale, _), (y, w, u, v, s, again, late) = calls[:, ::2], calls[:, 1::2]
    a = (noise[1:] ** 2 - s**2).clamp(min=0).sqrt() / noise[:-1]
    b = signal[1:] - a * signal[:-1]
    b = torch.where(b.abs() > 1e-6, b, 1.0)  # levels steer drafts alone: any B is exact
    answer = [(u + y * p - a) / b, (v + y * q) / b, w / b]
    plan = Plan(a, b, s, signal, noise, time[::2], float(getattr(ready, "init_noise_sigma", 1.0)))
    conversion = Conversion(scale, torch.zeros_like(s), torch.ones_like(s))
    return Recipe(plan, conversion), torch.stack([scale, p, q, again, late, *answer])


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
