"""Workers that may die, hang or be slow, and shards that are answered all the same.

Every shard is answered by whichever worker comes to it, and its answer is a function of the shard: so who answered,
how often a shard was sent and who died on the way change no number.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from drawahead.chains.base import Chain
from drawahead.errors import AnswerError, InputError
from drawahead.executors.backend import Backend, Died, Raised
from drawahead.executors.chunks import Notes
from drawahead.executors.wire import Packed

_POLL = 1.0  # seconds after which what is late is looked at again
_JITTER = 0.05  # seconds that any worker may be late
_PATIENCE = 15.0  # seconds of waiting for workers before the user is told


@dataclass(eq=False)
class _Shard:
    contents: Packed
    answer: Any = None
    over: bool = False
    """Answered, or of a round that was given up."""
    lost: int = 0
    """How many workers died over it."""


@dataclass(eq=False)
class _Round:
    waiting: deque[_Shard] = field(default_factory=deque)
    """Shards that no worker has."""
    times: list[float] = field(default_factory=list)
    """Seconds that the answered ones took."""


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
    ) -> None:
        self._backend = backend
        self._retries, self._hedge, self._timeout, self._start_timeout = retries, hedge, timeout, start_timeout
        self._slots = [_Slot(number) for number in range(workers)]
        self._notes = Notes()
        self.replaced = 0
        self.resent = 0
        self.chain: Chain | None = None
        """What the first worker made, without its model."""
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def notes(self) -> tuple[str, ...]:
        return self._notes.texts

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

    def run(self, contents: Sequence[Packed]) -> list[Any]:
        """The evaluations of these shards, in order."""
        if not self._slots:
            raise InputError("the executor is closed: make a new one")
        shards = [_Shard(packed) for packed in contents]
        current = _Round(deque(shards))
        for slot in self._slots:
            if not slot.ready and slot.task is None:  # given up in a round before
                self._launch(slot)
        try:
            while not all(shard.over for shard in shards):
                self._hand_out(current)
                for slot in self._ended(self._delay(current)):
                    self._settle(slot, current)
                self._stop_hung(current)
        finally:
            for shard in shards:
                shard.over = True
        return [shard.answer for shard in shards]

    def _begin(self) -> None:
        began = time.monotonic()
        for slot in self._slots:
            self._launch(slot)
        while self.ready < len(self._slots):
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
            shard = current.waiting.popleft() if current.waiting else self._late(current)
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
        return [slot for slot in busy if sum(other.shard is slot.shard for other in busy) == 1]

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
                slot.ready, self.chain = True, self.chain or value
                return
            slot.deaths = 0
            if not shard.over:
                (shard.answer, note), shard.over = value, True
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
            if slot.ready and slot.task is not None and self._timeout is not None and now > slot.since + self._timeout:
                shard, slot.shard, slot.task = slot.shard, None, None
                self._died(slot, shard, f"no answer in {now - slot.since:.0f} seconds", current)
        # A cluster may be short of a machine for long while the others go on: only without any is there no going on.
        waited = now - max(slot.since for slot in self._slots)
        if not self.ready and waited > self._start_timeout:
            raise AnswerError(self._missing(waited))
