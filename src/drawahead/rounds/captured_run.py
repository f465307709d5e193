"""The run that drives captured rounds."""

from __future__ import annotations

import bisect
import itertools
import time
from collections.abc import Callable, Generator
from typing import NamedTuple, final

import torch

from drawahead.chains.base import Paths, Tally
from drawahead.report import Report
from drawahead.rounds.captured import CapturedBatch, Positions, Shape
from drawahead.rounds.held import Held
from drawahead.rounds.run import Call, Run
from drawahead.samplers.window import WindowSampler

_TABLES = 16  # of numbers for each step of a window that a round holds, at most
_SMALL = 2**24  # bytes of drafts of one sample that are kept whether they are needed or not
ASYNCHRONOUS = {"cuda"}  # devices that work while Python does
_LEAST = 4  # the narrowest window of the ladder, but for none at all


class _Flight(NamedTuple):
    """A round that the device works on."""

    before: Positions
    shape: Shape
    began: float
    fresh: bool
    """Whether it had to be captured first, or ran while something else was done."""


@final
class CapturedRun(Run):
    """A batch of rows, each of which is given the next sample when its own has ended."""

    def __init__(self, call: Call, held: Held) -> None:
        super().__init__(call)
        sampler = call.sampler
        assert isinstance(sampler, WindowSampler)
        self.sampler, self._held = sampler, held
        self._reads = call.chain.reads_rows
        self._widest = sampler.widest(call.chain.steps)
        self._ladder = _ladder(self._widest, halved=sampler.window is not None)
        self._kept_ahead = self._rung(self._widest) if call.chain.row_bytes * self._widest < _SMALL else 0
        self._batch: CapturedBatch | None = None
        self._number: list[int] = []  # of the sample in each row; -1 where there is none any more
        self._began: list[int] = []
        self._positions = Positions([], [], [], [])
        self._times: dict[int, list[float]] = {}  # by window; those of rounds that were captured before
        self._next = call.first
        self._flight: _Flight | None = None

    def prepare(self) -> None:
        """Capture the first rounds, so that a model which cannot be captured is known before anything is drawn."""
        self._fill()
        if self._batch is None:
            return
        first = self._shape(self._batch)
        self._batch.warm(self.call.chain, first)
        if first.columns:
            wished, most = max(self._positions.wish), max(self._positions.length) - 2
            whole = self._reads and self.sampler.drafts_from_last and wished >= most
            window = self._rung(max(0, min(wished, most)))
            self._batch.warm(self.call.chain, Shape(window, first.columns, 0 if whole else first.beyond))

    def prepare_all(self) -> None:
        """Capture a round of every width, so that no later call has to."""
        self.prepare()
        if self._batch is None:
            return
        first = self._shape(self._batch)
        for window in reversed(self._ladder):  # the widest first: room for more drafts would undo the others
            self._batch.warm(self.call.chain, Shape(window, max(window, first.columns), first.beyond))

    def _rounds(self) -> Generator[Callable[[], Report]]:
        try:
            self._fill()
            while self._batch is not None and any(number >= 0 for number in self._number):
                self._round(self._batch)
                self._fill()
                yield self.report
        finally:
            self._release()

    def seconds_of(self, window: int) -> float | None:
        """How long a round with this window took; None if there was none."""
        times = sorted(self._times.get(self._rung(window), ()))
        return times[len(times) // 2] if times else None

    def wait(self) -> None:
        """Until the device has done the rounds that were asked of it."""
        if self._batch is not None:
            self._batch.wait()

    def close(self) -> None:
        self._release()

    def _release(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            if self._flight is not None:
                batch.wait()
            self._held.give_back(self.call.chain, self.sampler, batch, self.oracle_seconds)

    @property
    def _size(self) -> int:
        """How many samples to draw together."""
        call = self.call
        one, wanted = call.chain.row_bytes * (self._widest + 1) * _TABLES, min(call.max_live, call.num_samples)
        return wanted if wanted == 1 else min(wanted, max(1, _memory(call.chain.device) // one))

    def _fill(self) -> None:
        """Give waiting samples to the rows that have none."""
        free = [row for row, number in enumerate(self._number) if number < 0]
        fresh = self._waiting(len(free) if self._batch is not None else self._size)
        if fresh is None:
            return
        if self.sampler.keeps_guesses:
            fresh.remember(self._widest)
        if self._batch is None:
            self._begin(fresh)
        else:
            self._seat(self._batch, fresh, free[: len(fresh)])

    def _begin(self, fresh: Paths) -> None:
        """Find a batch for the first samples. The guard looks at the model while their first round runs."""
        chain, held, rows = self.call.chain, self._held, list(range(len(fresh)))
        batch = held.pop(self.sampler, fresh)
        if batch is not None and held.is_due(batch):  # asked where the samples of the last call have come to
            batch = batch if held.holds(chain) and held.agrees(chain, batch) else None
        elif batch is not None and chain.device.type in ASYNCHRONOUS and held.in_place:
            self._seat(batch, fresh, rows)
            if batch.has(self._shape(batch)):
                self._flight = self._launch(batch)._replace(fresh=True)  # it will not be timed
        if not held.holds(chain):
            if self._flight is not None and batch is not None:
                batch.wait()
            batch, self._flight = None, None
        batch = batch or CapturedBatch(self.sampler, fresh)
        if self._flight is None:
            self._seat(batch, fresh, rows)
        self._batch = batch

    def _seat(self, batch: CapturedBatch, fresh: Paths, rows: list[int]) -> None:
        """Give these rows their samples."""
        if len(self._number) < batch.rows:
            self._number, self._began = ([-1] * batch.rows for _ in range(2))
            self._positions = Positions(*([0] * batch.rows for _ in range(4)))
        batch.load(fresh, rows)
        wish, standing = self.sampler.first_width(fresh).tolist(), self._positions
        for row, *own in zip(rows, fresh.sample.tolist(), fresh.length.tolist(), wish, strict=True):
            self._number[row], standing.length[row], standing.wish[row] = own
            self._began[row] = self.round_count
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
        live = [row for row, number in enumerate(self._number) if number >= 0]
        taken = self._take(batch, live) if self.tally.hurried else 0
        before, shape, began, fresh = self._flight or self._launch(batch)
        self._flight = None
        drafted = sum(before.width[row] for row in live)
        # Without drafts every row makes one step: there is nothing to read back before one ends.
        blind = not shape.window and not shape.columns and not self.call.chain.ends_early
        if blind and all(before.position[row] + 1 < before.length[row] for row in live):
            position = [p + (number >= 0) for p, number in zip(before.position, self._number, strict=True)]
            after = Positions(position, before.width, before.wish, before.length)
        else:
            after = batch.read_positions()
        spent = time.perf_counter() - began
        self.oracle_seconds += spent
        if not fresh and not blind and len(live) == batch.rows:
            self._times.setdefault(shape.window, []).append(spent)
            batch.seconds[shape.window] = spent
        committed = sum(after.position[row] - before.position[row] for row in live)
        self._positions = after
        self._count(batch.rows, shape, committed, drafted, len(live))
        self.committed[-1] += taken
        self.tally.committed += taken
        done = [row for row in live if after.position[row] >= after.length[row]]
        if not done and not blind and not self.watched:  # the device need not wait for what is left to do here
            self._flight = self._launch(batch)
        self._retire(batch, done)
        for row in live:
            if self._number[row] >= 0:
                self.trace(self._number[row], after.position[row])

    def _launch(self, batch: CapturedBatch) -> _Flight:
        shape, began = self._shape(batch), time.perf_counter()
        fresh = not batch.has(shape)
        return _Flight(self._positions, batch.round(self.call.chain, shape), began, fresh)

    def _take(self, batch: CapturedBatch, live: list[int]) -> int:
        """Commit what is drafted, unverified. -> how many steps that were."""
        taken = sum(self._positions.width[row] for row in live)
        if taken:
            batch.take_drafts(self.call.chain)
            self._positions = batch.read_positions()
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
        for row in rows:
            self._number[row] = -1

    def _shape(self, batch: CapturedBatch) -> Shape:
        """The next round's: as wide as any row needs, and as wide ahead as any may need after it."""
        live = [row for row, number in enumerate(self._number) if number >= 0]
        standing = self._positions
        width, wish = (tuple(part[row] for row in live) for part in (standing.width, standing.wish))
        left = [standing.length[row] - standing.position[row] - 1 for row in live]  # steps behind the next one
        wished = self.sampler.widest_next(wish, width)
        ahead = [max(0, min(most, behind - 1)) for most, behind in zip(wished, left, strict=True)]
        window = self._rung(max(width))
        if not self.sampler.pipelined and window:
            ahead = [0 if some else most for some, most in zip(width, ahead, strict=True)]
        columns = self._rung(max(ahead))
        if self._reads:
            columns = max(columns, window if self.sampler.drafts_from_last else 0)
        else:  # drafts cost a prediction nothing: as many as may ever be needed, so that shapes are few
            columns = max(columns, window, batch.columns, self._kept_ahead)
        # Only tokens have rows to read for what lies beyond; a prediction drafts any number of steps.
        unread = any(behind > here for behind, here in zip(left, width, strict=True))
        past = not self._reads or not self.sampler.drafts_from_last or unread
        return Shape(window, columns, columns if past else 0)

    def _rung(self, width: int) -> int:
        """The narrowest width of the ladder that is not below this one, or the widest."""
        if not width:
            return 0
        place = bisect.bisect_left(self._ladder, width)
        return self._ladder[place] if place < len(self._ladder) else max(self._widest, 1)

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


def _ladder(top: int, *, halved: bool) -> list[int]:
    """The widths that rounds have: the widest, its half, quarter and eighth; or powers of two below the widest."""
    if halved:
        return sorted({-(-top // part) for part in (1, 2, 4, 8)} - {0})
    powers = itertools.takewhile(lambda power: power < top, (_LEAST << i for i in itertools.count()))
    return [*powers, *([top] if top else [])]


def _memory(device: torch.device) -> int:
    """How many bytes the tables of a batch may take."""
    return torch.cuda.mem_get_info(device)[0] // 4 if device.type == "cuda" else 2**31
