"""A chain with all that outlives a call: captured rounds, compiled code, workers, and which sampler was chosen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol, Self, final

import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError, Interrupted, SamplingError
from drawahead.executors.local import Local
from drawahead.oracles.condition import Condition
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.randomness import seed_from
from drawahead.report import Report
from drawahead.rounds.held import Held
from drawahead.rounds.packed import PackedRun
from drawahead.rounds.run import Call, Run
from drawahead.rounds.starting import came, capture_all, settled, start
from drawahead.rounds.threads import Executor
from drawahead.samplers.auto import Auto
from drawahead.samplers.base import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.window import WindowSampler
from drawahead.show.progress import Standing, bar, watching
from drawahead.validate import short, whole

Target = Chain | TokenOracle | DenoisingTarget | Callable[..., Any]


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
        from drawahead.show.notebook import of_result  # pages look at everything: they come last

        return of_result(self)


class Stop(Protocol):
    """A request to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


@final
class Runner:
    """Draws from one chain, call after call, and owns whatever makes later calls faster.

    target: what `sample` takes.
    sampler: how to draw; by default one is chosen for each number of samples drawn together, once.
    executor: what answers rounds; `close` closes it, too.
    compile: put the model through `torch.compile`: quicker once it is compiled, equal up to rounding.
    graphs, max_batch_size: as in `sample`.

    Calls from several threads wait for each other. Two runners share nothing. Weights may change in place between
    calls; other changes of the model are noticed before captured rounds are used again (see docs/design.md, "What a
    runner holds"), and `recapture()` is for those who know better.
    """

    def __init__(
        self,
        target: Target,
        sampler: Sampler | str | None = None,
        executor: Executor | None = None,
        *,
        compile: bool = False,  # noqa: A002
        graphs: bool | None = None,
        max_batch_size: int | None = None,
    ) -> None:
        chain = as_chain(target)
        self.chain = chain.compiled() if compile else chain
        """What it draws from."""
        self.report: Report | None = None
        """What the last call cost; None before the first one, and after one that failed."""
        self._held, self._closed = Held(), False
        self._how = How(as_sampler(sampler), executor, graphs, max_batch_size)

    def sample(
        self,
        num_samples: int = 1,
        *,
        first: int = 0,
        seed: int | None = None,
        generator: torch.Generator | None = None,
        condition: Condition = None,
        chain: Chain | None = None,
        how: How | None = None,
        max_live: int = 1024,
        on_round: Callable[[Report], None] | None = None,
        stop: Stop | None = None,
        hurry: Stop | None = None,
        progress: bool | None = None,
    ) -> Result:
        """Draw samples, as `drawahead.sample` does.

        condition: another condition than the chain's; with tensors of the same shapes nothing is captured again.
        chain: this runner's chain with other values for its samples (start, known entries, evidence), as its `replace`
            returns it.
        how: drawn and answered otherwise than the runner's own calls are.
        """
        if self._closed:
            raise InputError("this runner is closed: make another one")
        chain = self.chain if chain is None else chain
        if condition is not None:
            chain = chain.replace(condition=condition)
        self.report = None
        result = draw(
            chain,
            self._held,
            how or self._how,
            num_samples,
            first=first,
            seed=seed,
            generator=generator,
            max_live=max_live,
            watch=Watch(on_round, stop, hurry, progress),
        )
        self.report = result.report
        return result

    def warm_up(self, num_samples: int = 1, *, chain: Chain | None = None) -> None:
        """Capture all rounds that calls for so many samples may need; nothing where they are not captured.

        chain: as in `sample`.
        """
        how, call = self._how, call_for(self.chain if chain is None else chain, self._how, num_samples)
        with self._held.lock, torch.no_grad():
            call, captured = settled(call, how.answers, how.graphs, split=how.splits, held=self._held)
            if captured:
                capture_all(call.chain, call.sampler, num_samples, self._held)

    def recapture(self) -> None:
        """Drop captured rounds, so that the next call captures the model as it is then."""
        with self._held.lock:
            self._held.clear()

    def close(self) -> None:
        """Give back all that is held: captured rounds and their memory, and the executor's workers."""
        self._closed = True
        self.recapture()
        closing_too = getattr(self._how.executor, "close", None)
        if callable(closing_too):
            closing_too()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Runner of {self.chain!r}{', closed' if self._closed else ''}>"


@final
@dataclass(frozen=True)
class How:
    """How rounds are drawn and answered."""

    sampler: Sampler | None = None
    executor: Executor | None = None
    graphs: bool | None = None
    max_batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.executor is not None and not callable(getattr(self.executor, "answer", None)):
            raise InputError(f"executor must be one such as Local(), not {short(self.executor)}")
        if self.graphs is not None and not isinstance(self.graphs, bool):
            raise InputError(f"graphs must be True, False or None, not {short(self.graphs)}")
        if self.executor is not None and self.max_batch_size is not None:
            raise InputError("give max_batch_size to the executor, not beside it")
        if self.graphs and self.splits:
            raise InputError("captured rounds are not split: give graphs=True without executor and max_batch_size")

    @property
    def splits(self) -> bool:
        """Whether rounds must fit a batch size."""
        return self.executor is not None or self.max_batch_size is not None

    @property
    def answers(self) -> Executor:
        """What answers packed rounds."""
        return self.executor or Local(self.max_batch_size)


@final
@dataclass(frozen=True)
class Watch:
    """Who looks between rounds."""

    on_round: Callable[[Report], None] | None = None
    stop: Stop | None = None
    hurry: Stop | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.on_round is not None and not callable(self.on_round):
            raise InputError(f"on_round must be callable, not {short(self.on_round)}")
        if self.progress is not None and not isinstance(self.progress, bool):
            raise InputError(f"progress must be True, False or None, not {short(self.progress)}")
        for name, event in (("stop", self.stop), ("hurry", self.hurry)):
            if event is not None and not callable(getattr(event, "is_set", None)):
                raise InputError(f"{name} must have is_set(), as a threading.Event has, not be {short(event)}")

    @property
    def looks(self) -> bool:
        """Whether somebody may stop a run between rounds, or change how it goes on."""
        return self.on_round is not None or self.stop is not None or self.hurry is not None

    @property
    def stops(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    @property
    def hurries(self) -> bool:
        return self.hurry is not None and self.hurry.is_set()


def call_for(
    chain: Chain,
    how: How,
    num_samples: int,
    *,
    first: int = 0,
    max_live: int = 1024,
    seed: int | None = None,
    generator: torch.Generator | None = None,
) -> Call:
    """A call for samples, checked."""
    num_samples, max_live = whole("num_samples", num_samples, 1), whole("max_live", max_live, 1)
    if whole("first", first, 0) + num_samples > 2**63:
        raise InputError(f"first must leave the numbers of samples below 2^63, not be {short(first)}")
    if not chain.foresees and how.sampler is not None and how.sampler.foresight:
        raise InputError(
            f"{how.sampler!r} drafts later steps from the answer about one, which a left-to-right model cannot give: "
            "use Coupled() or Sequential()"
        )
    chain.check(first + num_samples)
    seed = seed_from(seed, generator)
    return Call(chain, how.sampler or Auto(), seed, num_samples, min(max_live, num_samples), first)


def draw(
    chain: Chain,
    held: Held,
    how: How,
    num_samples: int,
    *,
    first: int,
    seed: int | None,
    generator: torch.Generator | None,
    max_live: int,
    watch: Watch,
) -> Result:
    """Draw samples, with what is held from earlier calls."""
    sampler = how.sampler
    if watch.hurry is not None and (not isinstance(sampler, WindowSampler) or isinstance(sampler, Sequential)):
        raise InputError(f"hurry needs a sampler that drafts windows, such as Coupled(), not {short(sampler)}")
    call = call_for(chain, how, num_samples, first=first, max_live=max_live, seed=seed, generator=generator)
    run: Run | None = None
    try:
        with held.lock, torch.no_grad(), ExitStack() as opened:
            line = opened.enter_context(bar()) if watch.progress else None
            if not watch.stops:
                run = start(call, how.answers, how.graphs, split=how.splits, held=held)
                _drive(run, replace(watch, on_round=watching(watch.on_round, line, Standing(call.num_samples))))
                run.call = replace(run.call, choice=came(run))
    except KeyboardInterrupt as error:
        result = _result(run or PackedRun(call, how.answers))
        words = f"interrupted with {len(result.samples)} of {call.num_samples} samples finished"
        raise Interrupted(words, result) from error
    finally:
        if run is not None:
            run.close()
    return _result(run or PackedRun(call, how.answers))


def _drive(run: Run, watch: Watch) -> None:
    run.watched = watch.looks
    try:
        with closing(run.rounds()) as rounds:
            for report in rounds:
                if watch.on_round is not None:
                    watch.on_round(report())
                if watch.stops:
                    return
                if watch.hurries:
                    run.hurry()
    except Exception as error:
        raise SamplingError(
            f"sampling stopped in round {run.round_count} with {run.done} of {run.call.num_samples} samples finished "
            f"(they are in .result): {error}",
            _result(run),
        ) from error


def _result(run: Run) -> Result:
    numbers = run.numbers()
    run.done = len(numbers)  # Ctrl-C may have come before this was counted
    complete = run.done == run.call.num_samples
    samples = run.values if complete else run.values[numbers - run.call.first]
    return Result(samples, numbers, run.report(), complete)


def as_chain(target: Target) -> Chain:
    """The chain itself, or the natural one for an oracle or a denoising target."""
    if isinstance(target, Chain):
        return target
    if isinstance(target, DenoisingTarget):
        return GaussianChain(target)
    if not isinstance(target, TokenOracle) and callable(getattr(target, "chain", None)):
        raise InputError(f"target is a {type(target).__name__}: give what its .chain(...) returns, such as a prompt's")
    return TokenChain(target)
