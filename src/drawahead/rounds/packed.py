"""The run that drives packed rounds: threads of the sampler, whose questions are gathered without their padding."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import final

from torch import Tensor

from drawahead.chains.base import Paths
from drawahead.errors import AnswerError
from drawahead.executors.local import Local
from drawahead.report import Report
from drawahead.rounds.run import TRACED, Call, Run
from drawahead.rounds.threads import Engine, Query


@final
class PackedRun(Run):
    """Threads of the sampler, driven round by round."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.executor = call.executor or Local(call.max_batch_size)
        self.engine = Engine(self)
        self.widths = self.engine.widths
        self.started = call.first
        self.live: list[tuple[int, Paths]] = []  # with the round they began before

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        """What the executor answers; keeps the time."""
        began = time.perf_counter()
        try:
            return self.executor.answer(queries)
        finally:
            self.oracle_seconds += time.perf_counter() - began

    def _rounds(self) -> Generator[Callable[[], Report]]:
        while self.done < self.call.num_samples:
            before_admission = self.done
            self._admit()
            if self.engine.idle:
                if self.done == before_admission:
                    raise AnswerError("the sampler ended without finishing its samples")
                continue
            before, tally = replace(self.tally), self.tally
            try:
                self.engine.round()
            finally:  # a round that is cut short has a width, too
                engine = self.engine
                self.round_count, self.passes = engine.rounds, engine.passes
                self.count(
                    tally.committed - before.committed, tally.drafted - before.drafted, tally.accepted - before.accepted
                )
            self._collect()
            for _, paths in self.live:
                for row in (paths.sample < self.call.first + TRACED).nonzero()[:, 0].tolist():
                    self.trace(int(paths.sample[row]), int(paths.position[row]))
            yield self.report

    def close(self) -> None:
        self.engine.close()

    def _admit(self) -> None:
        call = self.call
        room = call.max_live - (self.started - call.first - self.done)
        numbers = range(self.started, min(self.started + room, call.first + call.num_samples))
        if not numbers:
            return
        self.started = numbers.stop
        self.begin(numbers)
        for paths, thread in call.sampler.threads(call.chain, call.seed, numbers, self.tally):
            self.live.append((self.engine.rounds, paths))
            self.engine.spawn(thread)
        self._collect()

    def _collect(self) -> None:
        for began, paths in self.live:
            for numbers, lengths, values in paths.finished:
                self.finish(numbers, lengths, values, self.engine.rounds - began)
            paths.finished = []
        self.live = [(began, paths) for began, paths in self.live if len(paths)]
