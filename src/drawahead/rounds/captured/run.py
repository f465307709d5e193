"""The run that drives captured rounds."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import NamedTuple, final

import torch

from drawahead.chains.base import Paths, Tally
from drawahead.errors import AnswerError
from drawahead.report import Report
from drawahead.rounds.captured.batch import CapturedBatch, kind_of
from drawahead.rounds.captured.held import Held, Trust
from drawahead.rounds.captured.shapes import Positions, Shape, Shapes
from drawahead.rounds.run import Call, ModelChanged, Run
from drawahead.samplers.window import WindowSampler


class Flight(NamedTuple):
    """A round that the device works on, or will when the one before it is done."""

    shape: Shape
    look: Callable[[], Positions] | None
    """Waits for where the rows stand after it; None where that is known before."""
    began: float
    timed: bool = True
    """Whether its time tells anything: not if it was captured first, or ran while something else was done."""


@final
class CapturedRun(Run):
    """A batch of rows, each of which is given the next sample when its own has ended."""

    def __init__(self, call: Call, held: Held) -> None:
        super().__init__(call)
        sampler = call.sampler
        assert isinstance(sampler, WindowSampler)
        self.sampler, self._held = sampler, held
        self._shapes = Shapes(sampler, call.chain)
        self._batch: CapturedBatch | None = None
        self._number: list[int] = []  # of the sample in each row; -1 where there is none any more
        self._began: list[int] = []
        self._positions = Positions([], [], [], [])
        self._times: dict[int, list[float]] = {}  # by window; those of rounds that were captured before
        self._next = call.first
        self._flights: deque[Flight] = deque()
        self._paces: list[int] = []  # how many steps each row made in its last round, of those that had drafts
        self._seen = 0.0  # when positions were last read back
        self._trust = Trust(held, call.chain)

    def prepare(self, *, every: bool = False) -> None:
        """Capture the first rounds, so that a model which cannot be captured is known before anything is drawn; or
        rounds of every width, so that no later call has to."""
        self._fill()
        if self._batch is None:
            return
        first = self._shape(self._batch, self._positions)
        self._warm(first)
        if first.columns:
            wished, most = max(self._positions.wish), max(self._positions.length) - 2
            whole = self._shapes.reads and self.sampler.drafts_from_last and wished >= most
            window = self._shapes.rung(max(0, min(wished, most)))
            self._warm(Shape(window, first.columns, 0 if whole else first.beyond))
        for window in reversed(self._shapes.ladder if every else ()):  # the widest first: more room undoes the others
            self._warm(Shape(window, max(window, first.columns), first.beyond))

    def _warm(self, shape: Shape) -> None:
        """Capture a round of this shape, unless that was done before."""
        if self._batch is not None and shape not in self._batch.graphs:
            self._look()
            self._batch.warm(self.call.chain, shape)

    def _rounds(self) -> Generator[Callable[[], Report]]:
        try:
            if self.call.graphs is None:
                self.prepare()
            self._fill()
            while self._batch is not None and self._live:
                try:
                    self._round(self._batch)
                except AnswerError:  # perhaps of a model that is gone
                    self._look()
                    raise
                if not self._live:
                    self._land()
                if not self._flights:
                    self._fill()
                yield self.report
        finally:
            self.close()

    def seconds_of(self, window: int) -> float | None:
        """How long a round with this window took; None if there was none."""
        times = sorted(self._times.get(self._shapes.rung(window), ()))
        return times[len(times) // 2] if times else None

    def wait(self) -> None:
        """Until the device has done the rounds that were asked of it."""
        if self._batch is not None:
            self._batch.wait()

    def close(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            if self._flights:
                batch.wait()
            if self._trust.look():
                self._held.give_back(self.call.chain, self.sampler, batch, self.oracle_seconds)

    @property
    def _live(self) -> list[int]:
        """The rows that have a sample."""
        return [row for row, number in enumerate(self._number) if number >= 0]

    @property
    def _starves(self) -> bool:
        """Whether samples wait and a row is free for one: it is seated between rounds, when none is under way."""
        return -1 in self._number and self._next < self.call.first + self.call.num_samples

    def _fill(self) -> None:
        """Give waiting samples to the rows that have none."""
        if self._batch is None and self._begin_as_before():
            return
        free = [row for row, number in enumerate(self._number) if number < 0]
        fresh = self._waiting(len(free) if self._batch is not None else self._shapes.rows(self.call))
        if fresh is None:
            return
        if self._batch is not None:
            if self._batch.paths.remembers:  # its other rows do, so these must
                fresh.remember(None)
        elif self.sampler.keeps_guesses:
            fresh.remember(self._shapes.widest)
        if self._batch is None:
            self._batch = self._trust.of(self._held.pop(self.sampler, fresh)) or CapturedBatch(self.sampler, fresh)
            self._seat(self._batch, fresh, [*range(len(fresh))])
            self._batch.learn(self.call.chain)
            self._begin_early(self._batch)
        else:
            self._seat(self._batch, fresh, free[: len(fresh)])

    def _begin_as_before(self) -> bool:
        """Begin in a batch that has learned how such samples do, if there is one."""
        chain, rows = self.call.chain, self._shapes.rows(self.call)
        held = self._held.pop_learned(self.sampler, rows, kind_of(chain))
        if held is None or (batch := self._trust.of(held)) is None:
            return False
        numbers = range(self._next, self._next + rows)
        self._batch, self._next = batch, numbers.stop
        self.begin(numbers)
        self._number, self._began, self._paces = [*numbers], [0] * rows, [0] * rows
        samples = torch.arange(numbers.start, numbers.stop)
        self._positions = batch.begin(chain, self.call.seed, samples)
        self._begin_early(batch)
        return True

    def _begin_early(self, batch: CapturedBatch) -> None:
        """Begin the first round, where the guard looks at the model meanwhile."""
        if self._trust.early and batch.has(self._shape(batch, self._positions)):
            self._flights.append(self._launch(batch, self._positions)._replace(timed=False))
        self._trust.begin()

    def _look(self, seconds: float = math.inf) -> None:
        """Look whether the model is the one whose rounds are replayed, for so many seconds at most."""
        if not self._trust.look(seconds):
            self.wait()
            self._batch = None
            raise ModelChanged

    def _seat(self, batch: CapturedBatch, fresh: Paths, rows: list[int]) -> None:
        """Give these rows their samples."""
        if len(self._number) < batch.rows:
            self._number, self._began, self._paces = ([first] * batch.rows for first in (-1, 0, 0))
            self._positions = Positions(*([0] * batch.rows for _ in range(4)))
        batch.load(fresh, rows)
        wish, standing = self.sampler.first_width(fresh).tolist(), self._positions
        for row, *own in zip(rows, fresh.sample.tolist(), fresh.length.tolist(), wish, strict=True):
            self._number[row], standing.length[row], standing.wish[row] = own
            self._began[row], self._paces[row] = self.round_count, 0
            standing.position[row], standing.width[row] = 0, 0

    def _waiting(self, wanted: int) -> Paths | None:
        """The next samples, as many as wanted or as there are; those with nothing to draw are done at once."""
        call, end = self.call, self.call.first + self.call.num_samples
        parts: list[Paths] = []
        while wanted > sum(map(len, parts)) and self._next < end:
            numbers = torch.arange(self._next, min(self._next + wanted - sum(map(len, parts)), end))
            self._next = int(numbers[-1]) + 1
            self.begin(numbers.tolist())
            fresh = call.chain.start(call.seed, numbers, Tally())
            for done, lengths, values in fresh.finished:
                self.finish(done, lengths, values, 0)
            if len(fresh):
                parts.append(fresh)
        if len(parts) < 2:
            return parts[0] if parts else None
        return call.chain.start(call.seed, torch.cat([part.sample for part in parts]), Tally())

    def _round(self, batch: CapturedBatch) -> None:
        live = self._live
        if self.watched or self.reported:
            self._look()
        taken = self._take(batch, live) if self.tally.hurried else 0
        before = self._positions
        shape, look, began, timed = self._flights.popleft() if self._flights else self._launch(batch, before)
        if look is not None and not self._flights:
            self._launch_ahead(batch, live)
        self._look(batch.seconds.get(shape.window, 0.0) / 2)
        drafted = sum(before.width[row] for row in live)
        after = self._shapes.stepped(before, live) if look is None else look()
        began, self._seen = max(began, self._seen), time.perf_counter()
        spent = self._seen - began
        self.oracle_seconds += spent
        if timed and look is not None and len(live) == batch.rows:
            self._times.setdefault(shape.window, []).append(spent)
            batch.seconds[shape.window] = spent
        steps = [there - here for here, there in zip(before.position, after.position, strict=True)]
        self._paces = [step if width else 0 for step, width in zip(steps, before.width, strict=True)]
        committed = sum(steps[row] for row in live)
        self._positions = after
        done = [row for row in live if after.position[row] >= after.length[row]]
        if done:
            self._look()
        self._count(batch.rows, shape, committed, drafted, len(live))
        self.committed[-1] += taken
        self.tally.committed += taken
        # The device need not wait for what is left to do here.
        if not done and look is not None and not self.watched and not self._flights and not self._starves:
            self._flights.append(self._launch(batch, after))
        self._retire(batch, done)
        for row in live:
            if self._number[row] >= 0:
                self.trace(self._number[row], after.position[row])

    def _launch(self, batch: CapturedBatch, standing: Positions) -> Flight:
        """Begin a round of rows that stand there."""
        shape, began = self._shape(batch, standing), time.perf_counter()
        timed, shape = batch.has(shape), batch.round(self.call.chain, shape)
        # Without drafts every row makes one step: there is nothing to read back before one ends.
        blind = not shape.window and not shape.columns and not self.call.chain.ends_early
        ends = any(standing.position[row] + 1 >= standing.length[row] for row in self._live)
        return Flight(shape, None if blind and not ends else batch.look(), began, timed)

    def _land(self) -> None:
        """Wait for rounds that were begun ahead, of rows that have all ended in the round before."""
        for flight in self._flights:
            self._count(len(self._number), flight.shape, 0, 0, 0)
        if self._flights:
            self.wait()
        self._flights.clear()

    def _launch_ahead(self, batch: CapturedBatch, live: list[int]) -> None:
        """Begin the round after the one under way, where no decision is needed. Samples do not depend on it."""
        if not self.watched and not self._starves and self._trust.asynchronous:
            standing = self._shapes.surely(self._positions, self._paces, live, batch.columns)
            if standing is not None and batch.has(self._shape(batch, standing)):
                self._flights.append(self._launch(batch, standing))

    def _shape(self, batch: CapturedBatch, standing: Positions) -> Shape:
        return self._shapes.of(standing, self._live, batch.columns)

    def _take(self, batch: CapturedBatch, live: list[int]) -> int:
        """Commit what is drafted, unverified. -> how many steps that were."""
        taken = sum(self._positions.width[row] for row in live)
        if taken:
            batch.take_drafts(self.call.chain)
            self._positions = batch.look()()
            self.tally.unverified += taken
        return taken

    def _retire(self, batch: CapturedBatch, rows: list[int]) -> None:
        if not rows:
            return
        values = batch.results(self.call.chain, rows)
        by_rounds: dict[int, list[int]] = {}
        for i, row in enumerate(rows):
            by_rounds.setdefault(self.round_count - self._began[row], []).append(i)
        for rounds, among in by_rounds.items():
            numbers = torch.tensor([self._number[rows[i]] for i in among])
            lengths = torch.tensor([self._positions.length[rows[i]] for i in among])
            part = values if len(among) == len(rows) else values.index_select(0, torch.tensor(among))
            self.finish(numbers, lengths, part, rounds)
            for i in among:
                self._number[rows[i]] = -1

    def _count(self, rows: int, shape: Shape, committed: int, drafted: int, live: int) -> None:
        """What was asked. Padding is among it, but where one pass answers a path it repeats a question."""
        one_pass = self.call.chain.answers_paths
        self.round_count += 1
        self.widths.append(rows + drafted if one_pass else rows * (shape.window + 1))
        self.passes += rows if one_pass else self.widths[-1] * self.call.chain.passes
        self.count(committed, drafted, committed - live)  # each row goes one step further than it keeps drafts
        self.tally.committed += committed
        self.tally.drafted += drafted
        self.tally.accepted += self.kept[-1]
