"""The round engine: threads yield queries; every round answers all pending ones as one batch.

A *thread* is a generator. It yields a `Query` and is sent an answer, a `Fork` and is sent the results of its children,
or `Together` and is sent its part of work done for many threads. A round is one barrier: the queries of all live
threads are gathered, answered together, and every thread is resumed. All else costs no round.
"""

from __future__ import annotations

import abc
import gc
import inspect
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from drawahead.errors import InputError


class Query(abc.ABC):
    """What a thread asks in one round: plain data, together with the oracle it is for."""

    oracle: object
    """Queries for the same oracle object are merged into one batch."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """The number of sequences or states handed to the oracle: what `max_batch_size` limits."""

    @property
    @abc.abstractmethod
    def conditionings(self) -> int:
        """The number of conditionings asked about: what a report counts as queries."""

    @property
    def passes(self) -> int:
        """The number of sequences or states that the model works on to answer."""
        return len(self)

    @property
    @abc.abstractmethod
    def item_bytes(self) -> int:
        """About how much memory one item takes while it is being answered."""

    @classmethod
    @abc.abstractmethod
    def merge(cls, queries: Sequence[Self]) -> Self:
        """All the queries as one, items in order."""

    @abc.abstractmethod
    def evaluate(self, start: int, stop: int) -> Tensor:
        """Ask the oracle about items start ... stop-1; the first axis of the result runs over `cells`."""

    @property
    @abc.abstractmethod
    def cells(self) -> int:
        """The length of the first axis of the whole evaluation."""

    @abc.abstractmethod
    def answer(self, cells: Tensor) -> object:
        """What the thread is sent, from the evaluation of all items."""

    def answer_all(self) -> tuple[Any, Tensor]:
        """Ask about the whole table, padding included, as a captured round does: nothing is read back. -> the answer,
        and whether something it says about what is not padding is no law: one flag (1,) on the device."""
        raise InputError(f"a {type(self).__name__} cannot be captured: draw with graphs=False")

    def take(self, start: int, stop: int) -> Self:
        """Items start ... stop-1 as a query of their own, whose evaluation gives the same numbers."""
        raise InputError(f"a {type(self).__name__} cannot be cut into shards: draw with Local() as the executor")

    def is_for(self, oracle: object) -> bool:
        """Whether this oracle gives the answers: the query's own, or one that is asked the same."""
        return self.oracle is oracle

    def on(self, oracle: Any) -> Self:
        """The same question to another oracle, which gives the same answers, on that oracle's device."""
        raise InputError(f"a {type(self).__name__} is for one oracle alone: draw with Local() as the executor")


Thread = Generator[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Fork:
    """Run child threads side by side. The parent is sent the list of their results.

    With `until`, the parent is sent the pair (index, result) of the *lowest* index whose result satisfies it, or
    None if none does. Children above an index that satisfied it are cancelled; those below it always run to their
    end, so which child wins does not depend on how long each one takes.
    """

    threads: Sequence[Thread]
    until: Callable[[Any], bool] | None = None


class Row(NamedTuple):
    """A row of a table: of a tensor, or of whatever says which `tensors` it is made of and can be `made_of` others."""

    table: Any
    number: int


class Together(NamedTuple):
    """Work on rows, done at once for all threads that wait for the same `work` on rows that are `alike`.

    It is called with a table for each of the `rows`, stacked from those of all threads (plain numbers as a tensor), and
    with what is alike. It returns a table, of which each thread is sent its `Row`, a list, of which it is sent its
    entry, or a tuple of those. Work that asks is a generator, and begins when nothing else is left before the round.
    """

    work: Callable[..., Any]
    rows: tuple[Row | int, ...]
    alike: tuple[Hashable, ...] = ()


class Executor(Protocol):
    """Answers the queries of one round. Order in, order out; how is its own affair."""

    def answer(self, queries: Sequence[Query]) -> list[Tensor]: ...


@dataclass(eq=False, slots=True)
class _Node:
    thread: Thread
    parent: _Node | None = None
    index: int = 0
    fork: Fork | None = None
    children: Sequence[_Node] = ()
    results: dict[int, Any] | None = None
    winner: int | None = None
    ended: int = 0  # how many children, from the first on, have all ended
    cancelled: bool = False


class Engine:
    """Drives threads round by round. `spawn` adds threads; `round` answers one round of whatever is pending."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.rounds = self.passes = 0
        self.widths: list[int] = []
        self._roots: set[_Node] = set()
        self._pending: list[tuple[_Node, Query]] = []
        self._waiting: dict[tuple[Any, ...], list[tuple[_Node, tuple[Row | int, ...]]]] = {}

    def spawn(self, thread: Thread) -> None:
        """Start a thread; it runs until its first query."""
        with no_garbage_collection():
            self._start(thread)
            self._work()

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting for an answer."""
        return not self._pending

    def round(self) -> None:
        """Answer every pending query as one batch, then resume each thread in the order in which it asked."""
        pending, self._pending = self._pending, []
        queries = [query for _, query in pending]
        self.rounds += 1
        self.widths.append(sum(query.conditionings for query in queries))
        self.passes += sum(query.passes for query in queries)
        try:
            answers = self.executor.answer(queries)
        except BaseException:
            self._pending = pending
            raise
        with no_garbage_collection():  # it would look through all threads again and again, and find nothing
            for (node, query), cells in zip(pending, answers, strict=True):
                if not node.cancelled:
                    self._run(node, query.answer(cells))
            self._work()
        self._pending = [(node, query) for node, query in self._pending if not node.cancelled]

    def close(self) -> None:
        """Abandon everything still running."""
        for node in self._roots:
            self._cancel(node)
        self._roots, self._pending, self._waiting = set(), [], {}

    def _start(self, thread: Thread) -> None:
        self._roots.add(root := _Node(thread))
        self._run(root, None)

    def _run(self, node: _Node, message: Any) -> None:
        stack = [(node, message)]  # explicit: a fork may be nested deeper than Python recurses
        while stack:
            node, message = stack.pop()
            if node.cancelled:
                continue
            try:
                item = node.thread.send(message)
            except StopIteration as stop:
                if node.parent is not None:
                    self._deliver(node.parent, node.index, stop.value, stack)
                else:
                    self._roots.discard(node)
                continue
            if isinstance(item, Together):
                self._waiting.setdefault((item.work, item.alike), []).append((node, item.rows))
            elif isinstance(item, Fork):
                node.fork, node.results, node.winner, node.ended = item, {}, None, 0
                node.children = [_Node(thread, node, index) for index, thread in enumerate(item.threads)]
                if node.children:
                    stack.extend((child, None) for child in reversed(node.children))
                else:
                    stack.append((node, [] if item.until is None else None))
            else:
                self._pending.append((node, item))

    def _work(self) -> None:
        """Do all work that threads wait for, what may ask last: until then others may cancel it, or join in."""
        while self._waiting:
            at_once = (key for key in self._waiting if not inspect.isgeneratorfunction(key[0]))
            work, alike = key = next(at_once, None) or next(iter(self._waiting))
            calls = [call for call in self._waiting.pop(key) if not call[0].cancelled]
            if calls:
                self._start(self._together(work, alike, *zip(*calls, strict=True)))

    def _together(self, work: Callable[..., Any], alike: Any, nodes: Sequence[_Node], rows: Any) -> Thread:
        result = work(*map(stacked, zip(*rows, strict=True)), *alike)
        if isinstance(result, Generator):
            result = yield from result
        for node, own in zip(nodes, _each(result, len(nodes)), strict=True):
            self._run(node, own)

    def _deliver(self, parent: _Node, index: int, result: Any, stack: list[tuple[_Node, Any]]) -> None:
        fork, results = parent.fork, parent.results
        assert fork is not None and results is not None
        results[index] = result
        if fork.until is not None and fork.until(result) and (parent.winner is None or index < parent.winner):
            parent.winner = index
            for child in parent.children[index + 1 :]:
                self._cancel(child)
        last = len(parent.children) if parent.winner is None else parent.winner + 1
        while parent.ended in results:
            parent.ended += 1
        if parent.ended < last:
            return
        parent.children, parent.results = (), None
        winner = None if parent.winner is None else (parent.winner, results[parent.winner])
        stack.append((parent, [results[i] for i in range(last)] if fork.until is None else winner))

    def _cancel(self, node: _Node) -> None:
        nodes = [node]
        while nodes:
            node = nodes.pop()
            node.cancelled = True
            nodes.extend(node.children)
            node.thread.close()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def stacked(rows: Sequence[Any]) -> Any:
    """These rows as one table, in order; plain numbers as a tensor."""
    if isinstance(rows[0], int):
        return torch.tensor(rows)
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(id(row.table), []).append(place)
    tables = [rows[own[0]].table for own in places.values()]
    numbers = [torch.tensor([rows[place].number for place in own]) for own in places.values()]
    order = torch.tensor([place for own in places.values() for place in own]).argsort()
    columns = [{"": table} if isinstance(table, Tensor) else table.tensors() for table in tables]
    whole = {}
    for name, column in columns[0].items():
        device = column.device
        parts = [each[name][own.to(device)] for each, own in zip(columns, numbers, strict=True)]
        whole[name] = torch.cat(parts)[order.to(device)] if len(parts) > 1 else parts[0]
    return whole[""] if isinstance(tables[0], Tensor) else tables[0].made_of(whole)


def _each(part: Any, count: int) -> Sequence[Any]:
    """What every thread is sent of a result."""
    if isinstance(part, tuple):
        return list(zip(*(_each(one, count) for one in part), strict=True))
    if part is None or isinstance(part, list):
        return part or [None] * count
    return [Row(part, number) for number in range(count)]
