"""The round engine alone, with toy threads that ask for the double of a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pytest
import torch
from torch import Tensor

from drawahead.executors import Local
from drawahead.laws import Categorical
from drawahead.rounds.threads import Engine, Fork, Query, Row, Thread, Together


@dataclass(eq=False)
class Doubler:
    """An oracle that remembers every batch it was given, and fails on 13."""

    batches: list[list[int]] = field(default_factory=list)

    def __call__(self, numbers: list[int]) -> Tensor:
        self.batches.append(numbers)
        if 13 in numbers:
            raise RuntimeError("no 13 here")
        return torch.tensor([2 * number for number in numbers])


@dataclass(eq=False)
class Ask(Query):
    oracle: Doubler
    numbers: list[int]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def conditionings(self) -> int:
        return len(self.numbers)

    @property
    def cells(self) -> int:
        return len(self.numbers)

    @property
    def item_bytes(self) -> int:
        return 8

    @classmethod
    def merge(cls, queries: Sequence[Self]) -> Self:
        return cls(queries[0].oracle, [number for query in queries for number in query.numbers])

    def evaluate(self, start: int, stop: int) -> Tensor:
        return self.oracle(self.numbers[start:stop])

    def answer(self, cells: Tensor) -> list[int]:
        return [int(cell) for cell in cells]


@pytest.fixture
def double() -> Doubler:
    return Doubler()


def drive(thread: Thread, executor: Any = None) -> tuple[Any, Engine]:
    """The result of a thread, and the engine that ran it."""
    engine, results = Engine(executor or Local()), []

    def watched() -> Thread:
        results.append((yield Fork([thread]))[0])

    engine.spawn(watched())
    while not engine.idle:
        engine.round()
    return results[0], engine


def doubling(oracle: Doubler, number: int, rounds: int) -> Thread:
    """Doubles a number, one round after another."""
    for _ in range(rounds):
        (number,) = yield Ask(oracle, [number])
    return number


def test_one_thread_one_round_a_query(double: Doubler) -> None:
    result, engine = drive(doubling(double, 1, rounds=5))
    assert result == 32
    assert (engine.rounds, engine.widths, engine.passes) == (5, [1] * 5, 5)
    assert double.batches == [[1], [2], [4], [8], [16]]


def test_threads_share_rounds_in_the_order_they_were_spawned(double: Doubler) -> None:
    engine = Engine(Local())
    for number, rounds in ((1, 2), (3, 1), (5, 3)):
        engine.spawn(doubling(double, number, rounds))
    while not engine.idle:
        engine.round()
    assert double.batches == [[1, 3, 5], [2, 10], [20]]
    assert engine.widths == [3, 2, 1]


def test_a_thread_that_asks_nothing_costs_nothing(double: Doubler) -> None:
    result, engine = drive(doubling(double, 7, rounds=0))
    assert result == 7 and engine.rounds == 0 and not double.batches


def test_forks_join_in_order(double: Doubler) -> None:
    """Children of different lengths: results come by index, the parent goes on in the round its last child ends."""

    def parent() -> Thread:
        results = yield Fork([doubling(double, number, rounds) for number, rounds in ((1, 3), (2, 1), (3, 0), (4, 2))])
        (last,) = yield Ask(double, [100])
        return [*results, last]

    result, engine = drive(parent())
    assert result == [8, 4, 3, 16, 200]
    assert double.batches == [[1, 2, 4], [2, 8], [4], [100]]
    assert engine.rounds == 4


def test_a_fork_costs_a_round_only_where_children_ask(double: Doubler) -> None:
    def parent() -> Thread:
        first = yield Fork([doubling(double, number, rounds=0) for number in range(4)])
        second = yield Fork([])
        third = yield Fork([], until=bool)
        return first, second, third

    result, engine = drive(parent())
    assert result == ([0, 1, 2, 3], [], None)
    assert engine.rounds == 0


def test_nested_forks_share_rounds(double: Doubler) -> None:
    def tree(depth: int) -> Thread:
        if depth == 0:
            return (yield from doubling(double, 1, rounds=1))
        return sum((yield Fork([tree(depth - 1), tree(depth - 1)])))

    result, engine = drive(tree(6))
    assert result == 128
    assert engine.rounds == 1 and engine.widths == [64]


def test_forks_nested_deeper_than_python_recurses(double: Doubler) -> None:
    def nested(depth: int) -> Thread:
        if depth == 0:
            return (yield from doubling(double, 1, rounds=2))
        (below,) = yield Fork([nested(depth - 1)])
        return below + 1

    result, engine = drive(nested(2000))
    assert result == 2004 and engine.rounds == 2


def test_deep_forks_can_be_abandoned(double: Doubler) -> None:
    def nested(depth: int) -> Thread:
        if depth == 0:
            return (yield from doubling(double, 1, rounds=10))
        return (yield Fork([nested(depth - 1)]))

    engine = Engine(Local())
    engine.spawn(nested(2000))
    engine.round()
    engine.close()
    assert engine.idle


def test_a_wide_fork(double: Doubler) -> None:
    def parent() -> Thread:
        return sum((yield Fork([doubling(double, 1, rounds=1) for _ in range(5000)])))

    result, engine = drive(parent())
    assert result == 10_000 and engine.widths == [5000]


@pytest.mark.parametrize(
    ("lengths", "accepted", "winner", "rounds"),
    [
        ((3, 1, 2), {0, 1, 2}, 0, 3),  # a higher one accepts first: the lowest still wins
        ((3, 1, 2), {1, 2}, 1, 3),  # the lowest must end before 1 can win
        ((1, 3, 9), {1}, 1, 3),  # above the winner nobody is waited for
        ((1, 9, 9), {0}, 0, 1),
        ((2, 1, 3), {2}, 2, 3),
        ((2, 1, 3), set(), None, 3),
        ((0, 5, 5), {0}, 0, 0),
        ((5, 0, 2), {1}, 1, 5),
    ],
)
def test_until_picks_the_lowest_index(
    double: Doubler, lengths: tuple[int, ...], accepted: set[int], winner: int | None, rounds: int
) -> None:
    def child(index: int, length: int) -> Thread:
        yield from doubling(double, index, length)
        return index, index in accepted

    def parent() -> Thread:
        return (yield Fork([child(i, n) for i, n in enumerate(lengths)], until=lambda result: result[1]))

    result, engine = drive(parent())
    assert result == (None if winner is None else (winner, (winner, True)))
    assert engine.rounds == rounds


def test_cancelled_threads_are_closed_and_ask_nothing_more(double: Doubler) -> None:
    closed: list[int] = []

    def child(index: int, length: int) -> Thread:
        try:
            yield from doubling(double, 10 + index, length)
        except GeneratorExit:
            closed.append(index)
            raise
        return index

    def grandparent() -> Thread:
        inner = Fork([child(20, 5), child(21, 6)])

        def nest() -> Thread:
            return (yield inner)

        return (yield Fork([child(0, 2), child(1, 1), child(2, 9), nest()], until=lambda result: result == 1))

    result, engine = drive(grandparent())
    assert result == (1, 1)
    assert sorted(closed) == [2, 20, 21]
    assert double.batches[0] == [10, 11, 12, 30, 31]
    assert double.batches[1:] == [[20]]  # only child 0 below the winner goes on
    assert engine.rounds == 2


def test_a_cancelled_child_that_never_began_is_closed(double: Doubler) -> None:
    began: list[int] = []

    def child(index: int) -> Thread:
        began.append(index)
        yield from doubling(double, index, 0)
        return index

    def parent() -> Thread:
        return (yield Fork([child(0), child(1), child(2)], until=lambda result: result == 0))

    result, _ = drive(parent())
    assert result == (0, 0) and began == [0]


def test_a_fork_inside_a_cancelled_fork(double: Doubler) -> None:
    """Winners decided in the very round in which a higher sibling would have forked again."""

    def forker() -> Thread:
        yield Ask(double, [1])
        yield Fork([doubling(double, 2, 1), doubling(double, 3, 1)])
        return False

    def winner() -> Thread:
        yield Ask(double, [0])
        return True

    def parent() -> Thread:
        return (yield Fork([winner(), forker()], until=bool))

    result, engine = drive(parent())
    assert result == (0, True)
    assert engine.rounds == 1 and double.batches == [[0, 1]]


def test_the_batch_order_is_deterministic() -> None:
    def child(oracle: Doubler, index: int) -> Thread:
        value = yield from doubling(oracle, index, 1 + index % 3)
        parts = yield Fork([doubling(oracle, 10 * index + i, 1 + i) for i in range(3)])
        return value, parts

    def batches() -> list[list[int]]:
        oracle = Doubler()

        def parent() -> Thread:
            return (yield Fork([child(oracle, i) for i in range(7)], until=lambda result: result[0] == 16))

        drive(parent())
        return oracle.batches

    assert batches() == batches()


def test_max_batch_size_splits_a_round(double: Doubler) -> None:
    def parent() -> Thread:
        return (yield Fork([doubling(double, number, 2) for number in range(7)]))

    result, engine = drive(parent(), Local(max_batch_size=3))
    assert result == [0, 4, 8, 12, 16, 20, 24]
    assert engine.rounds == 2 and [len(batch) for batch in double.batches] == [3, 3, 1] * 2


def test_queries_of_different_oracles_share_a_round(double: Doubler) -> None:
    other = Doubler()
    engine = Engine(Local())
    for oracle, number in ((double, 1), (other, 2), (double, 3), (other, 4)):
        engine.spawn(doubling(oracle, number, 2))
    while not engine.idle:
        engine.round()
    assert engine.rounds == 2
    assert double.batches == [[1, 3], [2, 6]] and other.batches == [[2, 4], [4, 8]]


def test_work_on_rows_that_are_alike_is_done_together(double: Doubler) -> None:
    """Rows of two tables and plain numbers, in the order of the threads; each is sent its own part of the result."""
    calls: list[tuple[list[float], list[int], int]] = []
    laws = [Categorical(torch.full((3, 1, 2), float(i)) + torch.arange(3)[:, None, None]) for i in (0, 10)]

    def work(law: Categorical, number: Tensor, size: int) -> tuple[Any, ...]:
        calls.append((law.log_probs[:, 0, 0].tolist(), number.tolist(), size))
        return Categorical(law.log_probs + 1), number.tolist(), None

    def child(table: int, row: int, number: int, size: int) -> Thread:
        law, *plain = yield Together(work, (Row(laws[table], row), number), (size,))
        return float(law.table.log_probs[law.number, 0, 0]), plain

    wanted = [(0, 2, 5, 1), (1, 0, 6, 1), (0, 1, 7, 2), (0, 0, 8, 1)]

    def parent() -> Thread:
        return (yield Fork([child(*each) for each in wanted]))

    result, engine = drive(parent())
    assert calls == [([2.0, 10.0, 0.0], [5, 6, 8], 1), ([1.0], [7], 2)] and engine.rounds == 0
    assert result == [(3.0, [5, None]), (11.0, [6, None]), (2.0, [7, None]), (1.0, [8, None])]


def test_work_that_asks_begins_last_and_for_nobody_who_is_cancelled(double: Doubler) -> None:
    def asking(number: Tensor) -> Thread:
        doubled = yield Ask(double, number.tolist())
        return doubled

    def plain(number: Tensor) -> list[bool]:
        return [True] * len(number)

    def parent() -> Thread:
        def asks(number: int) -> Thread:
            return (yield Together(asking, (number,)))

        def wins() -> Thread:
            return (yield Together(plain, (0,)))

        both = [Fork([asks(i), wins(), asks(10 + i)], until=lambda result: result is True) for i in (1, 2)]
        return (yield Fork([wrapped(fork) for fork in both]))

    def wrapped(fork: Fork) -> Thread:
        return (yield fork)

    result, engine = drive(parent())
    assert result == [(1, True), (1, True)]
    assert double.batches == [[1, 2]] and engine.rounds == 1


def test_work_that_fails_leaves_everything_closable(double: Doubler) -> None:
    closed: list[int] = []

    def failing(number: Tensor) -> Tensor:
        raise KeyError("a bug in a sampler")

    def child(number: int) -> Thread:
        try:
            (answer,) = yield Ask(double, [number])
            yield Together(failing, (answer,))
        finally:
            closed.append(number)

    engine = Engine(Local())
    for number in (1, 2):
        engine.spawn(child(number))
    with pytest.raises(KeyError, match="a bug"):
        engine.round()
    engine.close()
    assert engine.idle and sorted(closed) == [1, 2]


def closing(double: Doubler, number: int, rounds: int, closed: list[int]) -> Thread:
    try:
        return (yield from doubling(double, number, rounds))
    finally:
        closed.append(number)


def test_a_failing_executor_leaves_everything_closable(double: Doubler) -> None:
    closed: list[int] = []
    engine = Engine(Local())
    for number, rounds in ((1, 5), (13, 5), (2, 5)):
        engine.spawn(closing(double, number, rounds, closed))
    with pytest.raises(RuntimeError, match="no 13"):
        engine.round()
    assert not engine.idle and not closed
    engine.close()
    assert engine.idle and sorted(closed) == [1, 2, 13]
    engine.close()


def test_a_failing_thread_leaves_everything_closable(double: Doubler) -> None:
    closed: list[int] = []

    def failing() -> Thread:
        yield Ask(double, [5])
        raise KeyError("a bug in a sampler")

    engine = Engine(Local())
    threads: list[Callable[[], Thread]] = [
        lambda: closing(double, 1, 5, closed),
        failing,
        lambda: closing(double, 2, 5, closed),
    ]
    for thread in threads:
        engine.spawn(thread())
    with pytest.raises(KeyError, match="a bug") as caught:  # its traceback keeps the frames alive
        engine.round()
    engine.close()
    assert engine.idle and sorted(closed) == [1, 2] and caught.value


def test_closing_an_idle_engine() -> None:
    engine = Engine(Local())
    engine.close()
    assert engine.idle and engine.rounds == 0
