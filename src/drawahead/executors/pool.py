"""Workers that may die, hang or be slow, and shards that are answered all the same.

Every shard is answered by whichever worker comes to it, and its answer is a function of the shard: so who answered,
how often a shard was sent and who died on the way change no number.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from drawahead.errors import AnswerError, InputError
from drawahead.executors.backend import Backend, Died, Raised
from drawahead.executors.chunks import Notes

_POLL = 1.0  # seconds after which what is late is looked at again
_JITTER = 0.05  # seconds that any worker may be late
_PATIENCE = 15.0  # seconds of waiting for workers before the user is told


_REMEMBERED = 1000  # shards whose times say what is usual


@dataclass(eq=False)
class _Shard:
    number: int
    contents: Any
    answer: Any = None
    over: bool = False
    """Answered, or of a round that was given up."""
    lost: int = 0
    """How many workers died over it."""


@dataclass(eq=False)
class _Round:
    rest: Iterator[_Shard] = field(default_factory=lambda: iter(()))
    """Shards that no worker has had yet."""
    waiting: deque[_Shard] = field(default_factory=deque)
    """Shards whose workers died."""
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """Seconds that the latest answered ones took."""
    under_way: set[_Shard] = field(default_factory=set)
    """Begun and not answered, whether a worker has them or not."""
    answered: list[_Shard] = field(default_factory=list)
    """Answered, and not yet given to who asked."""
    all_begun: bool = False

    def next(self) -> _Shard | None:
        shard = self.waiting.popleft() if self.waiting else next(self.rest, None)
        if shard is None:
            self.all_begun = True
        else:
            self.under_way.add(shard)
        return shard

    def taken(self) -> list[tuple[int, Any]]:
        """What was answered since this was asked last."""
        answered, self.answered = self.answered, []
        return [(shard.number, shard.answer) for shard in answered]


@dataclass(eq=False)
class _Slot:
    """A place in the pool, and the worker that has it."""

    number: int
    worker: Any = None
    task: Any = None
    shard: _Shard | None = None
    since: float = 0.0
    """When its task began."""
    ready: bool = False
    """Whether the worker has its replica."""
    replacement: bool = False
    """Whether there was another worker in this place before."""
    deaths: int = 0
    """In a row, without an answer in between."""

    @property
    def idle(self) -> bool:
        return self.ready and self.task is None


@final
class Pool:
    """Keeps so many workers alive and has them answer shards. `Ray` says what the settings mean."""

    def __init__(
        self,
        backend: Backend,
        workers: int,
        *,
        retries: int,
        hedge: float | None,
        timeout: float | None,
        start_timeout: float,
        least: int | None = None,
    ) -> None:
        """Begins when `least` workers are ready; if that is not told, when all are."""
        self._backend = backend
        self._retries, self._hedge, self._timeout, self._start_timeout = retries, hedge, timeout, start_timeout
        self._slots = [_Slot(number) for number in range(workers)]
        self._notes = Notes()
        self.replaced = 0
        self.resent = 0
        self.built: Any = None
        """What the first worker said about the model it has built."""
        try:
            self._begin(workers if least is None else least)
        except BaseException:
            self.close()
            raise

    @property
    def notes(self) -> tuple[str, ...]:
        return self._notes.texts

    @property
    def size(self) -> int:
        """How many workers there should be."""
        return len(self._slots)

    @property
    def ready(self) -> int:
        """How many workers have their replica."""
        return sum(slot.ready for slot in self._slots)

    def close(self) -> None:
        """End all workers."""
        for slot in self._slots:
            if slot.worker is not None:
                self._backend.stop(slot.worker)
        self._slots = []

    def run(self, contents: Sequence[Any]) -> list[Any]:
        """The evaluations of these shards, in order."""
        answers: list[Any] = [None] * len(contents)
        for group in self.stream(contents):
            for number, answer in group:
                answers[number] = answer
        return answers

    def stream(self, contents: Iterable[Any]) -> Iterator[list[tuple[int, Any]]]:
        """The evaluations of these shards as they come, each with its number: a list every second at least, which may
        be empty. Contents are taken as workers become free."""
        if not self._slots:
            raise InputError("the executor is closed: make a new one")
        current = _Round(_Shard(number, packed) for number, packed in enumerate(contents))
        for slot in self._slots:
            if not slot.ready and slot.task is None:  # given up in a round before
                self._launch(slot)
        try:
            while True:
                self._hand_out(current)
                if current.all_begun and not current.under_way:
                    break
                for slot in self._ended(self._delay(current)):
                    self._settle(slot, current)
                self._stop_hung(current)
                yield current.taken()
        finally:
            for shard in current.under_way:
                shard.over = True

    def _begin(self, least: int) -> None:
        began = time.monotonic()
        for slot in self._slots:
            self._launch(slot)
        while self.ready < least:
            waited = time.monotonic() - began
            if waited > self._start_timeout:
                raise InputError(f"{self._missing(waited)}: ask for fewer workers, or raise start_timeout")
            if waited > _PATIENCE:
                self._notes.tell("start", f"{self._missing(waited)}; still waiting")
            for slot in self._ended(min(_POLL, self._start_timeout)):
                self._settle(slot, _Round())

    def _missing(self, waited: float) -> str:
        workers = f"{self.ready} of {len(self._slots)} workers were ready after {waited:.0f} seconds"
        return f"{workers} ({self._backend.resources()})"

    def _launch(self, slot: _Slot) -> None:
        slot.ready, slot.shard, slot.since = False, None, time.monotonic()
        slot.worker = self._backend.start()
        slot.task = self._backend.build(slot.worker)

    def _hand_out(self, current: _Round) -> None:
        for slot in self._slots:
            if not slot.idle:
                continue
            shard = current.next() or self._late(current)
            if shard is None:
                return
            slot.shard, slot.since = shard, time.monotonic()
            slot.task = self._backend.evaluate(slot.worker, shard.contents)

    def _late(self, current: _Round) -> _Shard | None:
        """The shard that is most overdue, if it is with one worker only."""
        due = [slot for slot in self._alone() if self._spare(slot, current) <= 0]
        if not due:
            return None
        self.resent += 1
        return min(due, key=lambda slot: slot.since).shard

    def _alone(self) -> list[_Slot]:
        """Busy slots whose shard is still wanted and with no one else."""
        busy = [slot for slot in self._slots if slot.shard is not None and not slot.shard.over]
        holders = Counter(slot.shard for slot in busy)
        return [slot for slot in busy if holders[slot.shard] == 1]

    def _spare(self, slot: _Slot, current: _Round) -> float:
        """Seconds until a slot's shard is overdue."""
        if self._hedge is None or not current.times:
            return float("inf")
        return slot.since + max(self._hedge * statistics.median(current.times), _JITTER) - time.monotonic()

    def _delay(self, current: _Round) -> float:
        """Seconds to wait at most: until something is overdue that an idle worker could take."""
        if not any(slot.idle for slot in self._slots):
            return _POLL
        return max(0.0, min([_POLL, *(self._spare(slot, current) for slot in self._alone())]))

    def _ended(self, seconds: float) -> list[_Slot]:
        busy = {slot.task: slot for slot in self._slots if slot.task is not None}
        return [busy[task] for task in self._backend.wait(list(busy), seconds)]

    def _settle(self, slot: _Slot, current: _Round) -> None:
        """Take what a slot's task ended with."""
        task, slot.task, shard, slot.shard = slot.task, None, slot.shard, None
        try:
            value = self._backend.result(task)
        except Raised as error:
            self._raised(slot, shard, error.__cause__ or error)
        except Died as error:
            self._died(slot, shard, str(error), current)
        else:
            if shard is None:
                slot.ready, self.built = True, self.built or value
                return
            slot.deaths = 0
            if not shard.over:
                (shard.answer, note), shard.over = value, True
                current.under_way.discard(shard)
                current.answered.append(shard)
                current.times.append(time.monotonic() - slot.since)
                self._notes.tell("memory", note and f"worker {slot.number}: {note}")

    def _raised(self, slot: _Slot, shard: _Shard | None, cause: BaseException) -> None:
        words = f"{type(cause).__name__}: {cause}"
        if shard is None and not slot.replacement:
            raise InputError(f"the model could not be built in worker {slot.number}: {words}") from cause
        if shard is None:  # it could be built before: perhaps what is left of the dead worker is still in the way
            self._replace(slot, f"the model could not be built again: {words}")
        elif not shard.over:
            raise AnswerError(f"the oracle in worker {slot.number} failed: {words}") from cause

    def _died(self, slot: _Slot, shard: _Shard | None, reason: str, current: _Round) -> None:
        if shard is not None and not shard.over and not any(other.shard is shard for other in self._slots):
            shard.lost += 1
            current.waiting.appendleft(shard)
        self._replace(slot, reason)
        if shard is not None and shard.lost > self._retries:
            raise AnswerError(f"{shard.lost} workers died over the same shard of a round: {reason}")

    def _replace(self, slot: _Slot, reason: str) -> None:
        slot.deaths += 1
        slot.ready = False
        self._backend.stop(slot.worker)
        if slot.deaths > self._retries + 1:
            slot.deaths = 0
            raise AnswerError(f"worker {slot.number} died again and again without an answer: {reason}")
        slot.replacement = True
        self.replaced += 1
        self._notes.tell("died", f"{self.replaced} workers died and were replaced; worker {slot.number}: {reason}")
        self._launch(slot)

    def _stop_hung(self, current: _Round) -> None:
        now = time.monotonic()
        for slot in self._slots:
            if slot.ready and slot.task is not None and self._timeout is not None:
                silent = now - max(slot.since, self._backend.heard(slot.worker))
                if silent > self._timeout:
                    shard, slot.shard, slot.task = slot.shard, None, None
                    self._died(slot, shard, f"no answer in {silent:.0f} seconds", current)
        # A cluster may be short of a machine for long while the others go on: only without any is there no going on.
        waited = now - max(slot.since for slot in self._slots)
        if not self.ready and waited > self._start_timeout:
            raise AnswerError(self._missing(waited))
