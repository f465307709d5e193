"""One step of a loop as the operations that lead from its state to the networks and to the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from drawahead.diffusers.loops.recording import Recorded
from drawahead.errors import InputError


@final
@dataclass(frozen=True)
class Ref:
    """A value that depends on the state, by its number; the state itself is number 0."""

    number: int


@final
@dataclass(frozen=True, eq=False)
class TapeNode:
    """An operation of torch, or a call of a network (`op` is the network)."""

    op: Any
    leaves: list[Any]  # a Ref, or whatever does not depend on the state
    spec: Any
    results: list[int | None]  # the numbers of its results; None is no tensor

    @property
    def calls(self) -> bool:
        return isinstance(self.op, nn.Module)

    @property
    def refs(self) -> list[int]:
        return [leaf.number for leaf in self.leaves if isinstance(leaf, Ref)]

    def like(self, other: TapeNode) -> bool:
        """Whether it does the same to values of the same numbers; networks may be others, or told other things."""
        same = (self.calls and other.calls) or (
            self.op is other.op
            and self.spec == other.spec
            and list(map(_kind, self.leaves)) == [*map(_kind, other.leaves)]
        )
        return same and self.results == other.results and self.refs == other.refs


def _kind(leaf: Any) -> object:
    return (leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else type(leaf)


@final
class Tape:
    """What is done with `root` on the way to `targets`, in order. `values` are the tensors that were, by number."""

    def __init__(self, entries: Sequence[Recorded], root: Tensor, targets: Sequence[Tensor]) -> None:
        self.values: list[Tensor] = [root]
        numbers, nodes = {id(root): 0}, list[tuple[TapeNode, bool]]()
        for entry in entries:
            if not any(id(leaf) in numbers for leaf in entry.leaves):
                continue
            leaves = [Ref(numbers[id(leaf)]) if id(leaf) in numbers else leaf for leaf in entry.leaves]
            results = list[int | None]()
            for value in entry.results:
                results.append(len(self.values) if isinstance(value, Tensor) else None)
                if isinstance(value, Tensor):
                    numbers[id(value)] = len(self.values)
                    self.values.append(value)
            nodes.append((TapeNode(entry.op, leaves, entry.spec, results), bool(entry.writes)))
        self.targets = [numbers.get(id(target)) for target in targets]
        self.nodes = self._needed(nodes)

    def _needed(self, nodes: list[tuple[TapeNode, bool]]) -> list[TapeNode]:
        """Without what leads nowhere, and numbered anew."""
        needed = {target for target in self.targets if target is not None}
        left = list[TapeNode]()
        for node, writes in reversed(nodes):
            if writes or needed & set(node.results):
                needed |= set(node.refs)
                left.append(node)
        left.reverse()
        order = [0, *(number for node in left for number in node.results if number is not None)]
        new = {old: number for number, old in enumerate(order)}
        self.values = [self.values[old] for old in order]
        self.targets = [None if target is None else new[target] for target in self.targets]
        return [
            TapeNode(
                node.op,
                [Ref(new[leaf.number]) if isinstance(leaf, Ref) else leaf for leaf in node.leaves],
                node.spec,
                [None if number is None else new[number] for number in node.results],
            )
            for node in left
        ]

    def like(self, other: Tape) -> bool:
        return (
            len(self.nodes) == len(other.nodes)
            and self.targets == other.targets
            and self.values[0].shape == other.values[0].shape
            and all(one.like(two) for one, two in zip(self.nodes, other.nodes, strict=True))
        )

    def mentions(self, values: Sequence[Tensor]) -> bool:
        """Whether one of these tensors is used beside the root."""
        listed = set(map(id, values))
        return any(id(leaf) in listed for node in self.nodes for leaf in node.leaves)

    @property
    def missing(self) -> bool:
        """Whether a target does not depend on the root."""
        return None in self.targets


@final
@dataclass(frozen=True, eq=False)
class Split:
    """A step in two: what is done to the state that the step before led to (`before`; None: nothing), and what every
    step does, the first one too."""

    before: Tape | None
    body: Tape


def split(entries: Sequence[Recorded], state: Tensor, targets: Sequence[Tensor], cut: int) -> Split:
    """A later step, with the body beginning at value number `cut`."""
    whole = Tape(entries, state, targets)
    if not cut:
        return Split(None, whole)
    root = whole.values[cut]
    body = Tape(entries, root, targets)
    return Split(Tape(entries, state, [root]), body)


def common(kind: str, first: Sequence[Recorded], ends: Sequence[Tensor], later: Tape, entries: Sequence[Recorded],
           targets: Sequence[Tensor]) -> tuple[int, Tape]:  # fmt: skip
    """Where the body of a loop begins in a later step, and the body of the first step, whose state is not yet known: it
    is what the scheduler was given (`ends[0]`), or what that was made from."""
    roots = _origins(first, ends[0])
    bodies = [body for body in (Tape(first, root, ends) for root in roots) if not body.missing]
    for cut in range(len(later.values)):
        body = later if not cut else Tape(entries, later.values[cut], targets)
        if body.missing or (cut and body.mentions(later.values)):
            continue
        for own in bodies:
            if own.like(body):
                return cut, own
    raise InputError(
        f"the first step of {kind}'s loop is not like the second, so what its steps have in common cannot be read"
    )


def _origins(entries: Sequence[Recorded], value: Tensor) -> list[Tensor]:
    """A tensor, and those that it was made from, latest first."""
    found, seen = [value], {id(value)}
    for entry in reversed(entries):
        if any(id(result) in seen for result in entry.results):
            new = [leaf for leaf in entry.leaves if isinstance(leaf, Tensor) and id(leaf) not in seen]
            found += new
            seen |= set(map(id, new))
    return found[:40]
