"""The pool with workers that do as they are told: die, hang, dawdle or fail at a given call."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import AnswerError, InputError
from drawahead.executors.backend import Died, Raised
from drawahead.executors.pool import Pool
from drawahead.executors.shards import cut, joined, parted
from drawahead.executors.wire import Packed, Worker
from drawahead.rounds.threads import Query
from tests.executors.troubled import small

pytestmark = pytest.mark.usefixtures("clock")

Fate = Callable[[int, int], object]
"""(worker's number, its call; 0 is the building) -> seconds it takes, or an exception it ends with, or both."""


class Task:
    def __init__(self, work: Callable[[], Any], fate: object) -> None:
        seconds, self.fate = fate if isinstance(fate, tuple) else (fate, fate)
        self.work = work
        self.end = time.monotonic() + (seconds if isinstance(seconds, float) else 0.0)


class Scripted:
    """A backend in this process. Workers are numbered as they are started; tasks end when their time has come."""

    def __init__(self, make: Callable[[], object], fate: Fate) -> None:
        self.make, self.fate = make, fate
        self.workers: list[Worker] = []
        self.calls: list[int] = []
        self.stopped: list[int] = []

    def start(self) -> int:
        self.workers.append(Worker())
        self.calls.append(0)
        return len(self.workers) - 1

    def build(self, worker: int) -> Task:
        return Task(lambda: self.workers[worker].build(self.make), self._fate(worker))

    def evaluate(self, worker: int, shard: Packed) -> Task:
        assert worker not in self.stopped, "the dead are not asked"
        return Task(lambda: self.workers[worker].evaluate(shard), self._fate(worker))

    def _fate(self, worker: int) -> object:
        self.calls[worker] += 1
        return self.fate(worker, self.calls[worker] - 1)

    def wait(self, tasks: Sequence[Task], seconds: float) -> list[Task]:
        assert tasks or seconds < 5
        until = min([time.monotonic() + seconds, *(task.end for task in tasks)])
        time.sleep(max(0.0, until - time.monotonic()))
        return [task for task in tasks if task.end <= time.monotonic()]

    def result(self, task: Task) -> object:
        if isinstance(task.fate, Died):
            raise task.fate
        try:
            if isinstance(task.fate, Exception):
                raise task.fate
            return task.work()
        except Exception as error:
            raise Raised from error

    def heard(self, worker: int) -> float:
        return 0.0

    def stop(self, worker: int) -> None:
        self.stopped.append(worker)

    def resources(self) -> str:
        return "each needs a chair"


class Pooled:
    """An executor on a scripted backend."""

    def __init__(self, fate: Fate, workers: int = 4, shards: int | None = None, **options: Any) -> None:
        self.backend = Scripted(small, fate)
        settings = {"retries": 3, "hedge": None, "timeout": None, "start_timeout": 5.0, **options}
        self.pool = Pool(self.backend, workers, **settings)
        assert self.pool.built is not None
        self.chain, self.shards = self.pool.built, shards or workers

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        query = joined(queries, [self.chain.model])
        parts = self.pool.run([Packed.of(query.take(*ends)) for ends in cut(len(query), self.shards, 1, None)])
        return parted(torch.cat([torch.from_numpy(part) for part in parts]), queries)

    def sample(self) -> Tensor:
        return da.sample(self.chain, 20, sampler=da.Coupled(4), seed=0, executor=self).samples


@pytest.fixture(scope="module")
def alone() -> Tensor:
    return da.sample(small(), 20, sampler=da.Coupled(4), seed=0).samples


def fine(worker: int, call: int) -> float:
    return 0.0


def at(moments: dict[tuple[int, int], object]) -> Fate:
    return lambda worker, call: moments.get((worker, call), 0.0)


@pytest.fixture
def quiet() -> Iterator[None]:
    with pytest.warns(RuntimeWarning, match="died and were replaced") as told:
        yield
    assert len(told) == 1


def test_a_pool_gives_the_samples_of_one(alone: Tensor) -> None:
    for workers, shards in ((1, 1), (3, 3), (3, 10), (16, 16)):
        pooled = Pooled(fine, workers, shards)
        assert torch.equal(pooled.sample(), alone)
        assert len(pooled.backend.workers) == workers and not pooled.pool.notes


@pytest.mark.usefixtures("quiet")
def test_the_dead_are_replaced_and_no_sample_changes(alone: Tensor) -> None:
    """Worker 4 takes the place of worker 1, and dies while it builds; 5 takes its place."""
    pooled = Pooled(at({(1, 3): Died("oh"), (4, 0): Died("again"), (2, 5): Died("too")}))
    assert torch.equal(pooled.sample(), alone)
    assert pooled.pool.replaced == 3 and sorted(pooled.backend.stopped) == [1, 2, 4]
    assert "worker 2: too" in pooled.pool.notes[0] and pooled.pool.ready == 4


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", range(5))
def test_deaths_and_delays_at_random(seed: int, alone: Tensor) -> None:
    dice = random.Random(seed)

    def fate(worker: int, call: int) -> object:
        if call and dice.random() < 0.2:
            return Died("by dice")
        return dice.choice([0.0, 0.0, 0.01])

    pooled = Pooled(fate, shards=7, retries=9, hedge=1.5)
    assert torch.equal(pooled.sample(), alone)
    assert pooled.pool.replaced == len(pooled.backend.workers) - 4 == len(pooled.backend.stopped) > 0


def test_an_error_of_the_oracle_is_told_at_once(alone: Tensor) -> None:
    pooled = Pooled(at({(2, 2): ValueError("bad input")}))
    with pytest.raises(da.SamplingError, match="worker 2 failed: ValueError: bad input") as raised:
        pooled.sample()
    cause = raised.value.__cause__
    assert isinstance(cause, AnswerError) and isinstance(cause.__cause__, ValueError)
    assert len(pooled.backend.workers) == 4 and not pooled.backend.stopped
    assert torch.equal(pooled.sample(), alone), "the pool goes on"


@pytest.mark.usefixtures("quiet")
def test_a_shard_that_kills_everyone_is_given_up(alone: Tensor) -> None:
    doomed = [0]

    def fate(worker: int, call: int) -> object:
        doomed[0] += call > 0
        return Died("segfault") if call and doomed[0] <= 5 else 0.0

    pooled = Pooled(fate, workers=2, shards=1, retries=2)
    with pytest.raises(da.SamplingError, match="3 workers died over the same shard of a round: segfault"):
        pooled.sample()
    assert len(pooled.backend.workers) == 2 + 3
    assert torch.equal(pooled.sample(), alone), "two more die, which is allowed"
    assert len(pooled.backend.workers) == 2 + 5


@pytest.mark.usefixtures("quiet")
def test_a_worker_that_cannot_come_back_is_given_up() -> None:
    """Its replacements die before they are ready; the others are still there for the next call."""
    gone = [True]

    def fate(worker: int, call: int) -> object:
        if worker == 1 and call == 1:
            return Died("pulled")
        return Died("no room") if worker >= 4 and gone[0] else 0.01 if call else 0.0

    pooled = Pooled(fate)
    with pytest.raises(da.SamplingError, match="worker 1 died again and again without an answer: no room"):
        pooled.sample()
    assert len(pooled.backend.workers) == 8
    gone[0] = False
    pooled.sample()
    assert pooled.pool.ready == 4


def test_a_slow_worker_is_overtaken(alone: Tensor) -> None:
    slow = at({(1, 1): 600.0})
    pooled = Pooled(slow, hedge=3.0)
    began = time.monotonic()
    assert torch.equal(pooled.sample(), alone)
    assert time.monotonic() - began < 600, "the slow one was waited for"
    assert pooled.pool.resent >= 1 and not pooled.pool.replaced


@pytest.mark.usefixtures("quiet")
def test_a_hung_worker_is_replaced(alone: Tensor) -> None:
    pooled = Pooled(at({(1, 1): 1e9}), timeout=0.3)
    assert torch.equal(pooled.sample(), alone)
    assert pooled.pool.replaced == 1 and "no answer in" in pooled.pool.notes[0] and pooled.backend.stopped == [1]


@pytest.mark.usefixtures("quiet")
def test_a_straggler_and_its_second_both_die(alone: Tensor) -> None:
    moments = {(1, 1): (0.3, Died("first")), (0, 2): (0.1, Died("second")), (2, 0): 0.5}
    pooled = Pooled(at(moments), workers=2, hedge=2.0)
    assert torch.equal(pooled.sample(), alone)
    assert pooled.pool.resent >= 1 and pooled.pool.replaced == 2


def test_what_cannot_be_built_is_told_at_once() -> None:
    with pytest.raises(InputError, match="could not be built in worker 1: OSError: no such weights"):
        Pooled(at({(1, 0): OSError("no such weights")}))
    with pytest.raises(InputError, match=r"0 of 2 workers were ready .*a chair.*start_timeout"):
        Pooled(lambda worker, call: 1e9, workers=2, start_timeout=0.2)


@pytest.mark.usefixtures("quiet")
def test_without_any_worker_there_is_no_going_on() -> None:
    pooled = Pooled(lambda worker, call: Died("gone") if call else 1e9 if worker else 0.0, workers=1, start_timeout=0.2)
    with pytest.raises(da.SamplingError, match="0 of 1 workers were ready"):
        pooled.sample()


def test_a_closed_pool_says_so() -> None:
    pooled = Pooled(fine)
    pooled.pool.close()
    assert sorted(pooled.backend.stopped) == [0, 1, 2, 3]
    with pytest.raises(da.SamplingError, match="closed"):
        pooled.sample()
