"""What a scheduler does to data and states, beside stepping: how noisy they are, and how the network sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from drawahead.diffusers.schedulers.supply import in_float64
from drawahead.errors import InputError


def levels_of(scheduler: Any, time: Tensor) -> tuple[Tensor, Tensor]:
    """Signal and noise, (N + 1,), of the scheduler's own forward process; all signal, where it has none."""
    for name in (
        "_begin_index",
        "_step_index",
    ):  # where these are set, they decide how noisy a state is, and not the time
        if hasattr(scheduler, name):
            setattr(scheduler, name, None)
    ends = torch.tensor([1.0, 0.0], dtype=torch.float64)
    rows = []
    for t in time:
        one, none = torch.ones(1, 1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, 1, 1, dtype=torch.float64)
        rows.append([_noised(scheduler, x, g, t[None]) for x, g in ((one, none), (none, one))])
    table = torch.cat([torch.tensor(rows, dtype=torch.float64), ends[None]])
    return table[:, 0].contiguous(), table[:, 1].contiguous()


def _noised(scheduler: Any, data: Tensor, noise: Tensor, time: Tensor) -> float:
    if hasattr(scheduler, "add_noise"):
        return float(scheduler.add_noise(data, noise, time))
    if hasattr(scheduler, "scale_noise"):
        return float(scheduler.scale_noise(data, time, noise))
    return float(data)


def scales_of(scheduler: Any, steps: Sequence[int]) -> Tensor:
    """What a state is multiplied with at these steps before the network sees it (len(steps),)."""
    if not hasattr(scheduler, "scale_model_input"):
        return torch.ones(len(steps), dtype=torch.float64)
    scheduler, scales = in_float64(scheduler), []
    x = torch.linspace(-2.0, 3.0, 4, dtype=torch.float64).view(1, 1, 2, 2)
    for k in steps:
        if hasattr(scheduler, "_step_index"):
            scheduler._step_index = k
        shown = scheduler.scale_model_input(x.clone(), scheduler.timesteps[k])
        scales.append(float(shown.flatten()[0]) / -2.0)
        if not torch.allclose(shown, scales[-1] * x, rtol=1e-9):
            kind = type(scheduler).__name__
            raise InputError(f"scale_model_input of {kind} does not multiply the state by a number")
    return torch.tensor(scales, dtype=torch.float64)
