"""A pipeline drawn one by one beside its own loop, with the same noise."""

from __future__ import annotations

import copy
import functools
import inspect
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead.diffusers.schedulers.supply import Supplied, in_float64
from drawahead.randomness import Purpose, Stream
from studies.pipelines.catalogue import Case

STEPS = 4


def difference(case: Case) -> float:
    """How far the results are apart at most; an InputError says what stands against the pipeline."""
    pipe = case.pipeline()
    arguments = case.arguments | {"num_inference_steps": STEPS, "output_type": case.output}
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    drawn = da.adapters.DrawaheadPipeline.from_pipe(pipe)(**arguments, generator=generators[0], sampler=da.Sequential())
    twin = copy.copy(pipe)
    vars(twin)["scheduler"] = _fed(pipe.scheduler, drawn.report.seed, drawn.report.num_samples)
    own = twin(**arguments, generator=generators[1])
    ours, theirs = (torch.as_tensor(next(iter(result.values()))).double() for result in (drawn, own))
    return float((ours - theirs).abs().max())


def _fed(scheduler: Any, seed: int, images: int) -> Any:
    """A scheduler that steps with the noise of a seed of ours."""
    fed = in_float64(copy.deepcopy(scheduler))
    step, taken = fed.step, list[int]()

    @functools.wraps(step)
    def feeding(*given: Any, **named: Any) -> Any:
        sample: Tensor = inspect.signature(step).bind(*given, **named).arguments["sample"]
        stream = Stream.of_samples(seed, torch.arange(images))
        k = torch.full((images,), len(taken))
        copies = 2 if len(sample) == 2 * images else 1
        noise = stream.normal(Purpose.VALUE, k, size=sample.numel() // images // copies)
        taken.append(0)
        in_float64(fed)
        with Supplied(lambda shape: torch.cat([noise] * copies).view(sample.shape)):
            return step(*given, **named)

    fed.step = feeding
    return fed
