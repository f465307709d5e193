"""The one verb: draw samples."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.tokens import TokenChain
from drawahead.engine.packed import PackedRun
from drawahead.engine.run import Call, Run
from drawahead.engine.start import start_run
from drawahead.engine.threads import Executor
from drawahead.errors import InputError, Interrupted, SamplingError
from drawahead.executors.local import Local
from drawahead.models.denoisers import DenoisingTarget
from drawahead.models.oracles import TokenOracle
from drawahead.progress import Standing, bar, watching
from drawahead.randomness import seed_from
from drawahead.report import Report
from drawahead.samplers.auto import Auto
from drawahead.samplers.base import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.window import WindowSampler
from drawahead.validate import short, whole


@dataclass(frozen=True, eq=False)
class Result:
    """Samples, and apart from them what they cost."""

    samples: Tensor
    """The finished samples (num_samples, ...), in the order of their numbers."""
    numbers: Tensor
    """Their numbers: first ... first+num_samples-1, with gaps only if the run was stopped early."""
    report: Report
    complete: bool = True
    """Whether these are all the samples that were asked for."""

    def __repr__(self) -> str:
        count, shape = len(self.samples), tuple(self.samples.shape[1:])
        dtype, early = str(self.samples.dtype).removeprefix("torch."), "" if self.complete else ", stopped early"
        return f"<Result: {count} sample{'s' * (count != 1)} of shape {shape}, {dtype}{early}; {self.report!r}>"

    def _repr_html_(self) -> str:
        from drawahead.pages.notebook import of_result  # pages look at everything: they come last

        return of_result(self)


class Stop(Protocol):
    """A request to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


def sample(
    target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any],
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

    target: a chain; or an oracle, drawn in a uniformly random order for each sample; or a denoising target.
    first: the number of the first one; sample i of a seed is the same whichever others are drawn.
    sampler: how, as an object or by its name, such as "coupled"; `Auto()` by default, which measures and chooses.
        Exact samplers all give the same law.
    seed, generator: where the randomness comes from; sample i of a seed is the same however many are asked for.
    max_batch_size: the most sequences the oracle is given at a time; rounds are split, not added.
    max_live: the most samples under way at a time; waiting ones start as others finish.
    graphs: whether rounds are captured: of a few fixed shapes each, so that a GPU replays each one as a CUDA graph.
        None: on a GPU, if the sampler draws in windows and the model can be captured.
    on_round: called after every round with the report so far.
    stop: looked at after every round; once it is set, what is finished is returned, and `complete` is False. Samples
        that finish early are not typical ones: do not take them for the law.
    hurry: looked at after every round; once it is set, drafts are taken as they are, so that all samples end within a
        few rounds. Then `report.exact` is False. Needs a sampler that drafts windows, such as `Coupled()`.
    progress: whether a line on stderr shows how far it is. Only a terminal or a notebook gets one.

    If the oracle fails, `SamplingError.result` holds the samples finished before; after Ctrl-C it is
    `Interrupted.result` (an `Interrupted` is a KeyboardInterrupt).
    """
    chain = as_chain(target)
    num_samples, max_live = whole("num_samples", num_samples, 1), whole("max_live", max_live, 1)
    first = whole("first", first, 0)
    if first + num_samples > 2**63:
        raise InputError(f"first must leave the numbers of samples below 2^63, not be {short(first)}")
    sampler = as_sampler(sampler)
    if executor is not None and not callable(getattr(executor, "answer", None)):
        raise InputError(f"executor must be one such as Local(), not {short(executor)}")
    if on_round is not None and not callable(on_round):
        raise InputError(f"on_round must be callable, not {short(on_round)}")
    for name, flag in (("graphs", graphs), ("progress", progress)):
        if flag is not None and not isinstance(flag, bool):
            raise InputError(f"{name} must be True, False or None, not {short(flag)}")
    if executor is not None and max_batch_size is not None:
        raise InputError("give max_batch_size to the executor, not beside it")
    for name, event in (("stop", stop), ("hurry", hurry)):
        if event is not None and not callable(getattr(event, "is_set", None)):
            raise InputError(f"{name} must have is_set(), as a threading.Event has, not be {short(event)}")
    if hurry is not None and (not isinstance(sampler, WindowSampler) or isinstance(sampler, Sequential)):
        raise InputError(f"hurry needs a sampler that drafts windows, such as Coupled(), not {short(sampler)}")
    chain.check(first + num_samples)
    if graphs and (executor is not None or max_batch_size is not None):
        raise InputError("captured rounds are not split: give graphs=True without executor and max_batch_size")
    seed = seed_from(seed, generator)
    call = Call(chain, sampler or Auto(), seed, num_samples, min(max_live, num_samples), first)
    where = executor or Local(max_batch_size)
    run: Run = PackedRun(call, where)  # nothing is drawn yet
    try:
        with torch.no_grad(), ExitStack() as opened:
            watch = watching(on_round, opened.enter_context(bar()) if progress else None, Standing(num_samples))
            if not _is_set(stop):
                run = start_run(call, where, graphs, split=bool(executor or max_batch_size))
                _drive(run, watch, stop, hurry)
                if run.call.learn is not None:
                    run.call.learn(run)
    except KeyboardInterrupt as error:
        result = _result(run)
        raise Interrupted(
            f"interrupted with {len(result.samples)} of {num_samples} samples finished", result
        ) from error
    finally:
        run.close()
    return _result(run)


def _drive(run: Run, on_round: Callable[[Report], None] | None, stop: Stop | None, hurry: Stop | None) -> None:
    run.watched = on_round is not None or stop is not None or hurry is not None
    try:
        with closing(run.rounds()) as rounds:
            for report in rounds:
                if on_round is not None:
                    on_round(report())
                if _is_set(stop):
                    return
                if _is_set(hurry):
                    run.hurry()
    except Exception as error:
        raise SamplingError(
            f"sampling stopped in round {run.round_count} with {run.done} of {run.call.num_samples} samples finished "
            f"(they are in .result): {error}",
            _result(run),
        ) from error


def _is_set(stop: Stop | None) -> bool:
    return stop is not None and stop.is_set()


def _result(run: Run) -> Result:
    numbers = run.numbers()
    run.done = len(numbers)  # Ctrl-C may have come before this was counted
    complete = run.done == run.call.num_samples
    samples = run.values if complete else run.values[numbers - run.call.first]
    return Result(samples, numbers, run.report(), complete)


def as_chain(target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any]) -> Chain:
    """The chain itself, or the natural one for an oracle or a denoising target."""
    if isinstance(target, Chain):
        return target
    if isinstance(target, DenoisingTarget):
        return GaussianChain(target)
    if not isinstance(target, TokenOracle) and callable(getattr(target, "chain", None)):
        raise InputError(f"target is a {type(target).__name__}: give what its .chain(...) returns, such as a prompt's")
    return TokenChain(target)
