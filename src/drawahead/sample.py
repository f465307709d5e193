"""The one verb: draw samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drawahead.chains.base import Chain, Paths, Tally
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.tokens import TokenChain
from drawahead.denoisers import DenoisingTarget
from drawahead.errors import InputError, SamplingError, whole
from drawahead.executors.local import Local
from drawahead.oracles import TokenOracle
from drawahead.randomness import seed_from
from drawahead.report import Report
from drawahead.rounds import Engine, Executor, Query
from drawahead.samplers.base import Sampler
from drawahead.samplers.block import Block

_TRACED = 16  # samples whose progress the report keeps


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
    on_round: Callable[[Report], None] | None = None,
) -> Result:
    """Draw `num_samples` samples with the law of `target`.

    target: a chain; or an oracle, drawn in a uniformly random order for each sample; or a denoising target.
    sampler: how; `Block()` by default. Exact samplers all give the same law.
    seed, generator: where the randomness comes from; sample i of a seed is the same however many are asked for.
    max_batch_size: the most sequences the oracle is given at a time; rounds are split, not added.
    max_live: the most samples under way at a time; waiting ones start as others finish.
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
    run = _Run(
        chain, sampler or Block(), seed_from(seed, generator), num_samples, executor or Local(max_batch_size), max_live
    )
    try:
        with torch.no_grad():
            for report in run.rounds():
                if on_round is not None:
                    on_round(report())
    except Exception as error:
        raise SamplingError(
            f"sampling stopped in round {run.engine.rounds} with {run.done} of {num_samples} samples finished "
            f"(they are in .result): {error}",
            run.result(),
        ) from error
    finally:
        run.engine.close()
    return run.result()


def as_chain(target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any]) -> Chain:
    """The chain itself, or the natural one for an oracle or a denoising target."""
    if isinstance(target, Chain):
        return target
    return GaussianChain(target) if isinstance(target, DenoisingTarget) else TokenChain(target)


class _Timed:
    """An executor that keeps the time spent in another."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.seconds = 0.0

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        began = time.perf_counter()
        try:
            return self.executor.answer(queries)
        finally:
            self.seconds += time.perf_counter() - began


class _Run:
    """The state of one call: which samples wait, are under way, are done."""

    def __init__(
        self, chain: Chain, sampler: Sampler, seed: int, num_samples: int, executor: Executor, max_live: int
    ) -> None:
        self.chain, self.sampler, self.seed, self.num_samples, self.max_live = (
            chain,
            sampler,
            seed,
            num_samples,
            max_live,
        )
        self.executor = _Timed(executor)
        self.engine = Engine(self.executor)
        self.tally = Tally()
        self.values = chain.empty(num_samples)
        self.sample_rounds = torch.full((num_samples,), -1)
        self.committed: list[int] = []
        self.progress: dict[int, list[int]] = {}
        self.started = 0
        self.done = 0
        self.live: list[tuple[int, Paths]] = []  # with the round they began before
        self.began = time.perf_counter()

    def rounds(self) -> Any:
        """Yields, after every round, a function that makes the report so far."""
        while self.done < self.num_samples:
            self._admit()
            if self.engine.idle:
                continue
            before = self.tally.committed
            self.engine.round()
            self.committed.append(self.tally.committed - before)
            self._collect()
            self._trace()
            yield self.report

    def _admit(self) -> None:
        room = self.max_live - (self.started - self.done)
        numbers = range(self.started, min(self.started + room, self.num_samples))
        if not numbers:
            return
        self.started = numbers.stop
        for paths, thread in self.sampler.threads(self.chain, self.seed, numbers, self.tally):
            self.live.append((self.engine.rounds, paths))
            self.progress.update({number: [0] for number in numbers if number < _TRACED})
            self.engine.spawn(thread)
        self._collect()

    def _collect(self) -> None:
        for began, paths in self.live:
            for numbers, lengths, values in paths.finished:
                self.values[numbers] = values
                self.sample_rounds[numbers] = self.engine.rounds - began
                self.done += len(numbers)
                for number, length in zip(numbers.tolist(), lengths.tolist(), strict=True):
                    if number < _TRACED and length:
                        self.progress[number].append(length)
            paths.finished = []
        self.live = [(began, paths) for began, paths in self.live if len(paths)]

    def _trace(self) -> None:
        """Note how far the first few samples have come in this round."""
        for _, paths in self.live:
            for row in (paths.sample < _TRACED).nonzero()[:, 0].tolist():
                self.progress[int(paths.sample[row])].append(int(paths.position[row]))

    def report(self) -> Report:
        finished = self.sample_rounds >= 0
        return Report(
            sampler=repr(self.sampler),
            exact=self.sampler.guarantee.exact,
            seed=self.seed,
            num_samples=self.done,
            steps=self.chain.steps,
            rounds=self.engine.rounds,
            queries=sum(self.engine.widths),
            passes=self.engine.passes,
            rereads=self.engine.rereads,
            widths=tuple(self.engine.widths),
            committed=tuple(self.committed),
            drafted=self.tally.drafted,
            accepted=self.tally.accepted,
            candidates=self.tally.candidates,
            sample_rounds=tuple(self.sample_rounds[finished].tolist()),
            progress={number: tuple(steps) for number, steps in sorted(self.progress.items())},
            seconds=time.perf_counter() - self.began,
            oracle_seconds=self.executor.seconds,
        )

    def result(self) -> Result:
        finished = (self.sample_rounds >= 0).nonzero()[:, 0]
        return Result(self.values[finished], finished, self.report())
