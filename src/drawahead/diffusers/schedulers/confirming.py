"""Whether a scheduler does what its tables say: it is stepped, with states, outputs and noise of ours, and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from drawahead.diffusers.arguments import Told
from drawahead.diffusers.denoiser import Denoiser, Guidance
from drawahead.diffusers.schedulers.recipe import Recipe, state_after
from drawahead.diffusers.schedulers.supply import Supplied, in_float64, levels_of, scales_of

_ENTRIES = (1, 8, 8)
_SIZES = (1.0, 0.1, 37.0)  # of the numbers, in turn: limits hold some of them and not others
_LEFT = 1e-8  # of what goes in, that may be rounding


def follows(recipe: Recipe, make: Callable[[], Any], first: int, options: Mapping[str, Any], few: int | None) -> bool:
    """Whether schedulers as `make` makes them take, from number `first` on, the steps of a recipe. All of them are
    looked at, or only so many."""
    steps = _spread(len(recipe.plan.a), few)
    try:
        return _levels_agree(recipe, make, first, steps) and _steps_agree(recipe, make(), first, options, steps)
    except Exception:  # any: it is the scheduler's, and probing it will say what is wrong
        return False


def _spread(number: int, few: int | None) -> list[int]:
    if few is None or number <= few:
        return [*range(number)]
    return sorted({round(i * (number - 1) / (few - 1)) for i in range(few)})


def _levels_agree(recipe: Recipe, make: Callable[[], Any], first: int, steps: Sequence[int]) -> bool:
    """Whether states begin as large, hold as much noise, and are scaled for the network as it says."""
    plan = recipe.plan
    if float(getattr(make(), "init_noise_sigma", 1.0)) != plan.start:
        return False
    ready = in_float64(make())
    signal, noise = levels_of(ready, ready.timesteps[first:][steps])
    scale = scales_of(make(), [first + k for k in steps])
    pairs = [
        (signal[:-1], plan.signal[steps]),
        (noise[:-1], plan.noise[steps]),
        (scale, recipe.conversion.scale[steps]),
    ]
    return all(torch.allclose(found, said, rtol=_LEFT, atol=_LEFT) for found, said in pairs)


def _steps_agree(recipe: Recipe, scheduler: Any, first: int, options: Mapping[str, Any], steps: Sequence[int]) -> bool:
    scheduler, generator = in_float64(scheduler), torch.Generator().manual_seed(0)
    sizes = torch.tensor([_SIZES[i % len(_SIZES)] for i in range(len(steps))], dtype=torch.float64).view(-1, 1, 1, 1)

    def drawn() -> Tensor:
        return sizes * torch.randn(len(steps), *_ENTRIES, dtype=torch.float64, generator=generator)

    x, output, noise = drawn(), drawn(), drawn()
    if recipe.plan.spread is not None:  # variances, or places in a range of logarithms of them
        output = torch.cat([output, torch.rand(x.shape, dtype=torch.float64, generator=generator)], dim=1)
    after = []
    for i, k in enumerate(steps):
        asked: list[tuple[int, ...]] = []

        def supply(shape: tuple[int, ...], i: int = i, asked: list[tuple[int, ...]] = asked) -> Tensor:
            asked.append(shape)
            return noise[i : i + 1]

        if hasattr(scheduler, "_step_index"):
            scheduler._step_index = first + k
        with Supplied(supply):
            time = scheduler.timesteps[first + k]
            if hasattr(scheduler, "scale_model_input"):  # some want to be asked
                scheduler.scale_model_input(x[i : i + 1], time)
            answer = scheduler.step(output[i : i + 1].clone(), time, x[i : i + 1].clone(), **options)
        if asked not in ([], [(1, *_ENTRIES)]):  # two noises add up to another one
            return False
        after.append(answer[0])
    # By the very code that is drawn with.
    denoiser = Denoiser(lambda shown, time: output, recipe, Told({}), Guidance(), x.dtype, x.device)
    step = torch.tensor(steps)
    expected = state_after(recipe.plan, step, x, denoiser(x, step), noise)
    room = _LEFT * (expected.abs() + x.abs() + output.abs().sum(1, keepdim=True) + noise.abs())
    return bool(((torch.cat(after) - expected).abs() <= room).all())
