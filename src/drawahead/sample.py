"""The one verb: draw samples."""

from __future__ import annotations

from collections.abc import Callable

import torch

from drawahead.report import Report
from drawahead.rounds.run import Result, Stop
from drawahead.rounds.threads import Executor
from drawahead.runner import Target, as_chain, own_runner
from drawahead.samplers.base import Sampler

__all__ = ["Result", "Stop", "as_chain", "sample", "tune"]


def sample(
    target: Target,
    num_samples: int = 1,
    *,
    first: int = 0,
    sampler: Sampler | str | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    max_batch_size: int | None = None,
    max_live: int = 1024,
    executor: Executor | None = None,
    graphs: bool | None = None,
    on_round: Callable[[Report], None] | None = None,
    stop: Stop | None = None,
    hurry: Stop | None = None,
    progress: bool | None = None,
) -> Result:
    """Draw `num_samples` samples with the law of `target`.

    Captured rounds and the choice of a sampler, which make later calls faster, are held as long as the target exists:
    keep the chain, or a `Runner`, between calls.

    target: a chain; or an oracle, drawn in a uniformly random order for each sample; or a denoising target.
    first: the number of the first sample; with a named sampler, sample i of a seed does not depend on the others.
    sampler: a sampler or its name, such as "coupled"; `Auto()` by default, which measures and chooses. All exact
        samplers give the same distribution.
    seed, generator: the source of randomness; with a named sampler, sample i of a seed does not depend on num_samples.
    max_batch_size: the largest batch for the model. Large rounds are split; their number does not change.
    max_live: the most samples under way at a time; waiting ones start as others finish.
    graphs: whether to capture rounds, in a few fixed shapes that a GPU replays as CUDA graphs. None: on a GPU, if the
        sampler draws in windows and the model can be captured.
    on_round: called after every round with the report so far.
    stop: checked after every round; once it is set, finished samples are returned, and `complete` is False. Those that
        finish early are not typical: they are not samples of the distribution.
    hurry: checked after every round; once it is set, drafts are accepted unverified, so that all samples end within a
        few rounds. Then `report.exact` is False. Needs a sampler that drafts windows, such as `Coupled()`.
    progress: whether a line on stderr shows how far it is. Only a terminal or a notebook gets one.

    If the oracle fails, `SamplingError.result` holds the samples finished before; after Ctrl-C it is
    `Interrupted.result` (an `Interrupted` is a KeyboardInterrupt).
    """
    return own_runner(target, sampler, executor, graphs, max_batch_size).sample(
        num_samples,
        first=first,
        seed=seed,
        generator=generator,
        max_live=max_live,
        on_round=on_round,
        stop=stop,
        hurry=hurry,
        progress=progress,
    )


def tune(
    target: Target,
    num_samples: int = 1,
    *,
    seed: int | None = None,
    max_batch_size: int | None = None,
    max_live: int = 1024,
    executor: Executor | None = None,
    graphs: bool | None = None,
) -> Sampler:
    """The sampler that `sample` would choose for so many samples, to be named in later calls.

    It is chosen from timings and from pilot samples on noise of their own, never from samples. With a named sampler
    every sample is a function of the seed and its number alone. The arguments are those of `sample`.
    """
    runner = own_runner(target, None, executor, graphs, max_batch_size)
    return runner.settle(num_samples, seed=seed, max_live=max_live).sampler
