"""The step that all steps of a loop have in common, for states of any steps and images at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from drawahead.diffusers.loops.calls import Asking, ByStep, ModelCall, Seen
from drawahead.diffusers.loops.tape import Ref, Split, Tape, TapeNode
from drawahead.errors import InputError

aten = torch.ops.aten
_INSTEAD = {aten.view.default: aten.reshape.default, aten._unsafe_view.default: aten.reshape.default}
"""A batch of values need not lie in memory as one of them did."""

Ask = Callable[[int, dict[int, Tensor]], Sequence[Tensor]]


def numbered(numbers: Sequence[int | None], results: Sequence[Any]) -> dict[int, Tensor]:
    return {number: value for number, value in zip(numbers, results, strict=True) if number is not None}


@final
@dataclass(frozen=True, eq=False)
class Operation:
    """One operation, on a batch."""

    op: Any
    leaves: list[Any]
    spec: Any
    results: list[int | None]

    def __call__(self, values: dict[int, Tensor], k: Tensor) -> None:
        leaves = [self._given(leaf, values, k) for leaf in self.leaves]
        places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Ref | ByStep)]

        def once(*batched: Tensor) -> tuple[Any, ...]:
            for place, value in zip(places, batched, strict=True):
                leaves[place] = value
            arguments, named = pytree.tree_unflatten(leaves, self.spec)
            return tuple(pytree.tree_leaves(self.op(*arguments, **named)))

        results = torch.vmap(once)(*(leaves[place] for place in places))
        values.update(numbered(self.results, results))

    @staticmethod
    def _given(leaf: Any, values: dict[int, Tensor], k: Tensor) -> Any:
        if isinstance(leaf, Ref):
            return values[leaf.number]
        return leaf(k) if isinstance(leaf, ByStep) else leaf


@final
@dataclass(frozen=True, eq=False)
class TapeRun:
    """Operations and calls, as they follow each other, with their constants."""

    parts: list[Operation | Asking]
    targets: list[int]

    def __call__(self, state: Tensor, k: Tensor, ask: Ask) -> list[Tensor]:
        """The targets of states (m, rows, ...) at steps (m,)."""
        values = {0: state}
        calls = 0
        for part in self.parts:
            if isinstance(part, Operation):
                part(values, k)
                continue
            results = ask(calls, values)
            calls += 1
            values.update(numbered(part.results, results))
        return [values[target] for target in self.targets]

    @property
    def calls(self) -> list[Asking]:
        return [part for part in self.parts if isinstance(part, Asking)]


@final
class Hearing:
    """TapeSteps of the same form, heard one after another."""

    def __init__(self, kind: str, tape: Tape) -> None:
        self.kind, self.tape = kind, tape
        self._parts: list[list[Seen] | ModelCall] = [
            ModelCall(node) if node.calls else [Seen() for _ in node.leaves] for node in tape.nodes
        ]

    def add(self, tape: Tape) -> None:
        if not self.tape.like(tape):
            raise InputError(f"the loop of {self.kind} does other things in a later step than in the first ones")
        for part, node in zip(self._parts, tape.nodes, strict=True):
            if isinstance(part, ModelCall):
                part.add(node)
            else:
                for seen, leaf in zip(part, node.leaves, strict=True):
                    seen.add(leaf)

    def repeat(self) -> None:
        for part in self._parts:
            if isinstance(part, ModelCall):
                raise InputError(f"the loop of {self.kind} asks a network about what its scheduler has led to")
            for seen in part:
                seen.repeat()

    def run(self, device: torch.device) -> TapeRun:
        parts = list[Operation | Asking]()
        for part, node in zip(self._parts, self.tape.nodes, strict=True):
            if isinstance(part, ModelCall):
                parts.append(part.asking(self.kind, device))
            else:
                parts.append(self._operation(node, part, device))
        targets = [target for target in self.tape.targets if target is not None]
        return TapeRun(parts, targets)

    def _operation(self, node: TapeNode, seen: list[Seen], device: torch.device) -> Operation:
        leaves = [one.constant(device) for one in seen]
        for leaf, one in zip(leaves, seen, strict=True):
            if leaf is None and len(one.values) > 1:
                raise InputError(
                    f"the loop of {self.kind} changes an argument of {node.op} from step to step: "
                    + ", ".join(str((v.shape, v.dtype)) if isinstance(v, torch.Tensor) else repr(v) for v in one.values)
                )
        if node.op is aten.clone.default:  # whatever the memory format
            return Operation(node.op, leaves[:1], pytree.tree_flatten(((0,), {}))[1], node.results)
        return Operation(_INSTEAD.get(node.op, node.op), leaves, node.spec, node.results)


@final
class TapeSteps:
    """All steps of a loop, heard one after another."""

    def __init__(self, kind: str, first: Tape, second: Split | None) -> None:
        self.body = Hearing(kind, first)
        self.body.add(first)
        self.before = None if second is None or second.before is None else Hearing(kind, second.before)
        if second is not None:
            self.add(second)
            if self.before is not None:
                self.before.repeat()

    def add(self, step: Split) -> None:
        self.body.add(step.body)
        if self.before is not None and step.before is not None:
            self.before.add(step.before)
