"""The one verb: draw samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.tokens import TokenChain
from drawahead.choosing import started
from drawahead.denoisers import DenoisingTarget
from drawahead.errors import InputError, SamplingError, whole
from drawahead.executors.local import Local
from drawahead.oracles import TokenOracle
from drawahead.randomness import seed_from
from drawahead.report import Report
from drawahead.rounds import Executor
from drawahead.runs import Job, Run
from drawahead.samplers.auto import Auto
from drawahead.samplers.base import Sampler


@dataclass(frozen=True, eq=False)
class Result:
    """Samples, and apart from them what they cost."""

    samples: Tensor
    """The finished samples (num_samples, ...), in the order of their numbers."""
    numbers: Tensor
    """Their numbers: 0 ... num_samples-1, with gaps only if the run was stopped early."""
    report: Report


def sample(
    target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any],
    num_samples: int = 1,
    *,
    sampler: Sampler | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    max_batch_size: int | None = None,
    max_live: int = 1024,
    executor: Executor | None = None,
    graphs: bool | None = None,
    on_round: Callable[[Report], None] | None = None,
) -> Result:
    """Draw `num_samples` samples with the law of `target`.

    target: a chain; or an oracle, drawn in a uniformly random order for each sample; or a denoising target.
    sampler: how; `Auto()` by default, which measures and chooses. Exact samplers all give the same law.
    seed, generator: where the randomness comes from; sample i of a seed is the same however many are asked for.
    max_batch_size: the most sequences the oracle is given at a time; rounds are split, not added.
    max_live: the most samples under way at a time; waiting ones start as others finish.
    graphs: whether rounds have a fixed shape, so that a GPU replays each one as a captured graph. None: on a GPU, where
        the sampler allows it (`Sequential`; `Coupled` with a window, or on a model that answers a path in one pass).
    on_round: called after every round with the report so far.

    If the oracle fails, `SamplingError.result` holds the samples finished before.
    """
    chain = as_chain(target)
    num_samples, max_live = whole("num_samples", num_samples, 1), whole("max_live", max_live, 1)
    if sampler is not None and not isinstance(sampler, Sampler):
        raise InputError(f"sampler must be a sampler such as Block(), not {sampler!r}")
    if executor is not None and max_batch_size is not None:
        raise InputError("give max_batch_size to the executor, not beside it")
    chain.check(num_samples)
    if graphs and (executor is not None or max_batch_size is not None):
        raise InputError("rounds of fixed shape are not split: give graphs=True without executor and max_batch_size")
    seed = seed_from(seed, generator)
    job = Job(chain, sampler or Auto(), seed, num_samples, min(max_live, num_samples))
    with torch.no_grad():
        run = started(job, executor or Local(max_batch_size), graphs, split=bool(executor or max_batch_size))
    try:
        with torch.no_grad():
            for report in run.rounds():
                if on_round is not None:
                    on_round(report())
    except Exception as error:
        raise SamplingError(
            f"sampling stopped in round {run.round_count} with {run.done} of {num_samples} samples finished "
            f"(they are in .result): {error}",
            _result(run),
        ) from error
    finally:
        run.close()
    return _result(run)


def _result(run: Run) -> Result:
    finished = (run.sample_rounds >= 0).nonzero()[:, 0]
    return Result(run.values[finished], finished, run.report())


def as_chain(target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any]) -> Chain:
    """The chain itself, or the natural one for an oracle or a denoising target."""
    if isinstance(target, Chain):
        return target
    return GaussianChain(target) if isinstance(target, DenoisingTarget) else TokenChain(target)
