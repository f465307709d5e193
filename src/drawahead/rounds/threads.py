"""The round engine: threads yield queries; every round answers all pending ones as one batch.

A *thread* is a generator. It yields a `Query` and is sent an answer, or yields a `Fork` and is sent the results of
its children. A round is one barrier: the queries of all live threads are gathered, answered together, and every
thread is resumed in the order in which it asked. Forking, joining and returning cost no round.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from torch import Tensor

from drawahead.errors import InputError


class Query(abc.ABC):
    """What a thread asks in one round: plain data, together with the oracle it is for."""

    oracle: object
    """Queries for the same oracle object are merged into one batch."""
    at_once: bool = False
    """True for more of an answer that was given before: it is read at once, and costs neither a round nor a query."""

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
        """Ask at once about the whole table, padding included: what a captured round does.

        -> the answer, and whether all that it says about what is not padding are laws: one flag (1,) on the device.
        Nothing is read back, and shapes depend on nothing but shapes.
        """
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


@dataclass(frozen=True)
class Fork:
    """Run child threads side by side. The parent is sent the list of their results.

    With `until`, the parent is sent the pair (index, result) of the *lowest* index whose result satisfies it, or
    None if none does. Children above an index that satisfied it are cancelled; those below it always run to their
    end, so which child wins does not depend on how long each one takes.
    """

    threads: Sequence[Thread]
    until: Callable[[Any], bool] | None = None


class Executor(Protocol):
    """Answers the queries of one round. Order in, order out; how is its own affair."""

    def answer(self, queries: Sequence[Query]) -> list[Tensor]: ...


@dataclass(eq=False)
class _Node:
    thread: Thread
    parent: _Node | None = None
    index: int = 0
    fork: Fork | None = None
    children: list[_Node] = field(default_factory=list)
    results: dict[int, Any] = field(default_factory=dict)
    winner: int | None = None
    ended: int = 0
    """How many children, from the first on, have all ended."""
    query: Query | None = None
    cancelled: bool = False


class Engine:
    """Drives threads round by round. `spawn` adds threads; `round` answers one round of whatever is pending."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.rounds = 0
        self.widths: list[int] = []
        self.passes = 0
        self.rereads = 0
        self._pending: list[_Node] = []

    def spawn(self, thread: Thread) -> None:
        """Start a thread; it runs until its first query."""
        self._run(_Node(thread), None)

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting for an answer."""
        return not self._pending

    def round(self) -> None:
        """Answer every pending query as one batch, then resume each thread in the order in which it asked."""
        nodes, self._pending = self._pending, []
        queries = [node.query for node in nodes if node.query is not None]
        self.rounds += 1
        self.widths.append(sum(query.conditionings for query in queries))
        self.passes += sum(query.passes for query in queries)
        try:
            answers = self.executor.answer(queries)
        except BaseException:
            self._pending = nodes
            raise
        for i, (node, query, cells) in enumerate(zip(nodes, queries, answers, strict=True)):
            node.query = None
            try:
                if not node.cancelled:
                    self._run(node, query.answer(cells))
            except BaseException:
                self._pending += nodes[i:]  # still to be closed
                raise
        self._pending = [node for node in self._pending if not node.cancelled]

    def close(self) -> None:
        """Abandon everything still running."""
        for node in self._pending:
            while node.parent is not None:
                node = node.parent
            self._cancel(node)
        self._pending = []

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
                continue
            if isinstance(item, Fork):
                node.fork, node.results, node.winner, node.ended = item, {}, None, 0
                node.children = [_Node(thread, node, index) for index, thread in enumerate(item.threads)]
                if node.children:
                    stack.extend((child, None) for child in reversed(node.children))
                else:
                    stack.append((node, [] if item.until is None else None))
            elif item.at_once:
                self.rereads += len(item)
                stack.append((node, item.answer(self.executor.answer([item])[0])))
            else:
                node.query = item
                self._pending.append(node)

    def _deliver(self, parent: _Node, index: int, result: Any, stack: list[tuple[_Node, Any]]) -> None:
        fork = parent.fork
        assert fork is not None
        parent.results[index] = result
        if fork.until is not None and fork.until(result) and (parent.winner is None or index < parent.winner):
            parent.winner = index
            for child in parent.children[index + 1 :]:
                self._cancel(child)
        last = len(parent.children) if parent.winner is None else parent.winner + 1
        while parent.ended in parent.results:
            parent.ended += 1
        if parent.ended < last:
            return
        parent.children = []
        if fork.until is None:
            stack.append((parent, [parent.results[i] for i in range(last)]))
        else:
            stack.append((parent, None if parent.winner is None else (parent.winner, parent.results[parent.winner])))

    def _cancel(self, node: _Node) -> None:
        nodes = [node]
        while nodes:
            node = nodes.pop()
            node.cancelled = True
            nodes.extend(node.children)
            node.thread.close()
