"""What a loop uses beside its state, over all its steps: constants of its operations, and arguments of its networks."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from drawahead.diffusers.loops.comparing import equal
from drawahead.diffusers.loops.tape import TapeNode
from drawahead.errors import InputError

_FEW = 4


@final
@dataclass(frozen=True, eq=False)
class ByStep:
    """A value for each step: row index[k] of a table, which has one for each of its different values."""

    table: Tensor
    index: Tensor  # (N,)

    def __call__(self, k: Tensor) -> Tensor:
        return self.table[self.index[k]]


@final
class Seen:
    """The values of one argument, heard step by step; equal ones are kept once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.index: list[int] = []
        self._last: tuple[Any, int] = (self, 0)

    def add(self, value: Any) -> None:
        same = self._last[0] is value and self._last[1] == _version(value)
        self._last = value, _version(value)
        if not same or not self.index:
            near = [*range(len(self.values))[-1:], *range(min(_FEW, len(self.values)))]
            known = next((i for i in near if equal(self.values[i], value)), None)
            if known is None:
                known = len(self.values)
                self.values.append(value.clone() if isinstance(value, Tensor) else value)
            self.index.append(known)
        else:
            self.index.append(self.index[-1])

    def repeat(self) -> None:
        """The first step has what the second has: there it is not used."""
        self.index.insert(0, self.index[0])

    @property
    def few(self) -> bool:
        """Whether it has a few values that come again and again, rather than one for each step."""
        return 1 < len(self.values) <= _FEW and len(self.values) < len(self.index)

    def constant(self, device: torch.device) -> Any:
        """The value, or one by step; None if they cannot be in one table."""
        if len(self.values) == 1:
            return self.values[0]
        if all(isinstance(value, Tensor) for value in self.values):
            if len({(value.shape, value.dtype) for value in self.values}) == 1:
                return ByStep(torch.stack(self.values).to(device), torch.tensor(self.index, device=device))
        elif all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values):
            whole = all(isinstance(value, int) for value in self.values)
            table = torch.tensor(self.values, dtype=torch.int64 if whole else torch.float64, device=device)
            return ByStep(table, torch.tensor(self.index, device=device))
        return None


def _version(value: Any) -> int:
    return value._version if isinstance(value, Tensor) and not value.is_inference() else -1


_MOST = 4


@final
@dataclass(frozen=True, eq=False)
class Arguments:
    """What a network is told at some of the steps."""

    network: Any
    leaves: list[Any]  # a Ref, a ByStep, or the same at all of these steps
    spec: Any
    names: list[str]


@final
@dataclass(frozen=True, eq=False)
class Asking:
    """A call of a network. At step k it has arguments number which[k]."""

    variants: list[Arguments]
    which: Tensor  # (N,)
    results: list[int | None]


@final
class ModelCall:
    """What a network is told, heard step by step."""

    def __init__(self, node: TapeNode) -> None:
        self.node = node
        self._forms: list[tuple[TapeNode, list[Seen]]] = []
        self._steps: list[tuple[int, int]] = []  # the form of a step, and which of its steps it is

    def add(self, node: TapeNode) -> None:
        form = next((i for i, (own, _) in enumerate(self._forms) if _same_form(own, node)), len(self._forms))
        if form == len(self._forms):
            self._forms.append((node, [Seen() for _ in node.leaves]))
        seen = self._forms[form][1]
        for one, leaf in zip(seen, node.leaves, strict=True):
            one.add(leaf)
        self._steps.append((form, len(seen[0].index) - 1))

    def asking(self, kind: str, device: torch.device) -> Asking:
        keys = [(form, *(one.index[i] for one in self._forms[form][1] if one.few)) for form, i in self._steps]
        different = sorted(set(keys))
        if len(different) > _MOST:
            raise InputError(
                f"{kind} tells its {type(self.node.op).__name__} other things at many of its steps, so they cannot be "
                f"asked together: {self._changing()}"
            )
        variants = [self._variant(kind, key, device) for key in different]
        which = torch.tensor([different.index(key) for key in keys], device=device)
        return Asking(variants, which, self.node.results)

    def _changing(self) -> str:
        changing = {n for node, seen in self._forms for n, one in zip(names_of(node), seen, strict=True) if one.few}
        return ", ".join(sorted(changing)) or "how many there are"

    def _variant(self, kind: str, key: tuple[int, ...], device: torch.device) -> Arguments:
        node, seen = self._forms[key[0]]
        picked, leaves = iter(key[1:]), list[Any]()
        for name, one in zip(names_of(node), seen, strict=True):
            value = one.values[next(picked)] if one.few else self._constant(one, device)
            if value is None and len(one.values) > 1 and not one.few:
                raise InputError(f"{kind} changes {name} of its {type(node.op).__name__} from step to step")
            leaves.append(value)
        return Arguments(node.op, leaves, node.spec, names_of(node))

    def _constant(self, seen: Seen, device: torch.device) -> Any:
        made = seen.constant(device)
        if isinstance(made, ByStep) and len(self._forms) > 1:  # its steps are counted within its form
            index = torch.zeros(len(self._steps), dtype=torch.int64, device=device)
            form = next(i for i, (_, all_seen) in enumerate(self._forms) if seen in all_seen)
            for k, (own, i) in enumerate(self._steps):
                index[k] = seen.index[i] if own == form else 0
            return ByStep(made.table, index)
        return made


def _same_form(one: TapeNode, other: TapeNode) -> bool:
    return one.op is other.op and bool(one.spec == other.spec)


def names_of(node: TapeNode) -> list[str]:
    """The name of the argument that each leaf is in."""
    try:
        known = [*inspect.signature(type(node.op).forward).parameters][1:]
    except (TypeError, ValueError):
        known = []
    arguments, named = pytree.tree_unflatten([*range(len(node.leaves))], node.spec)
    found = [""] * len(node.leaves)
    for place, argument in enumerate(arguments):
        for leaf in pytree.tree_leaves(argument):
            found[leaf] = known[place] if place < len(known) else f"argument {place}"
    for name, argument in named.items():
        for leaf in pytree.tree_leaves(argument):
            found[leaf] = name
    return found
