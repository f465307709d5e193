"""The books of a recursion: which segments of which samples are under way, and what was drawn and answered for them.

Everything that is alike is kept in one table, so that a round costs a few operations for all samples and all candidates
together. Control is numpy on the CPU; laws, values and paths are tensors where the model lives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drawahead.laws import Law

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NONE = -1
"""In place of a number that there is not."""
LAWS, VERIFY, FORKED, ENDED, DROPPED = range(5)
"""What a node waits for: laws to draft from, the answer about its guess, its candidates; the others, once it is judged;
or nothing any more."""
_LEAST = 1024  # rows that are not worth sweeping


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


def together(*keys: Ints) -> Iterator[Ints]:
    """Where all keys are equal: groups of indices."""
    if not len(keys[0]):
        return
    order = np.lexsort(keys)
    differs = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    yield from np.split(order, differs.nonzero()[0] + 1)


def cells(first: Ints, width: int) -> Ints:
    """The addresses first, first + 1, ... of `width` cells (rows, width)."""
    return np.asarray(first[:, None] + np.arange(width))


@final
@dataclass(eq=False)
class Nodes:
    """Draws in progress, a row each: of a whole sample (a root), or of one candidate for its parent's segment.

    A candidate draws the left half of that segment and then the right one; a root draws one stretch after another.
    What it is at now is its own segment.
    """

    row: Ints = field(default_factory=_none)  # of its sample, among the paths
    parent: Ints = field(default_factory=_none)
    index: Ints = field(default_factory=_none)  # among the candidates
    key: Ints = field(default_factory=_none)  # of its noise: this word, and the next
    key_low: Ints = field(default_factory=_none)
    context: Ints = field(default_factory=_none)  # where its path stands before the segment
    right: Ints = field(default_factory=_none)  # whether its left half is drawn
    left: Ints = field(default_factory=_none)  # where that is
    start: Ints = field(default_factory=_none)  # the segment: its first step
    size: Ints = field(default_factory=_none)
    beyond: Ints = field(default_factory=_none)  # for how many steps after it laws will be needed
    draft: Ints = field(default_factory=_none)  # where its laws are
    state: Ints = field(default_factory=_none)
    ended: Ints = field(default_factory=_none)  # one past the last candidate that was begun
    result: Ints = field(default_factory=_none)  # where what was drawn is; NONE of a candidate that was not accepted
    onward: Ints = field(default_factory=_none)  # where laws of the steps after it are

    def __len__(self) -> int:
        return len(self.row)

    def add(self, **columns: Ints | int) -> Ints:
        """New rows; columns that are not given are NONE. -> their numbers."""
        before, count = len(self), max(np.size(column) for column in columns.values())
        for name in self._names():
            new = np.broadcast_to(np.asarray(columns.get(name, NONE), dtype=np.int64), (count,))
            setattr(self, name, np.concatenate([getattr(self, name), new]))
        return np.arange(before, before + count)

    def clear(self) -> None:
        """Forget those that were dropped."""
        rows = self.state != DROPPED
        number = np.append(np.cumsum(rows) - 1, NONE)  # the parent of a root is NONE, the last
        for name in self._names():
            setattr(self, name, getattr(self, name)[rows])
        self.parent = number[self.parent]

    def drop(self, ids: Ints) -> None:
        """These and all that descend from them are done with."""
        dead = np.zeros(len(self) + 1, dtype=bool)  # the last one stands for the parent of roots
        dead[ids] = True
        while len(ids):
            ids = (dead[self.parent] & ~dead[:-1]).nonzero()[0]
            dead[ids] = True
        self.state[dead[:-1]] = DROPPED

    def _names(self) -> list[str]:
        return [each.name for each in dataclasses.fields(self)]


@final
class Heap:
    """Rows of several tensors, looked up by address. What nothing refers to is swept away when there is much of it."""

    def __init__(self) -> None:
        self.tables: dict[str, Tensor] = {}
        self.used = 0
        self._swept = _LEAST

    def add(self, rows: dict[str, Tensor]) -> int:
        """-> the address of the first."""
        first, count = self.used, len(next(iter(rows.values())))
        for name, new in rows.items():
            table = self.tables.get(name)
            if table is None or len(table) < first + count:
                larger = new.new_empty(max(2 * first, first + count), *new.shape[1:])
                if table is not None:
                    larger[:first] = table[:first]
                self.tables[name] = table = larger
            table[first : first + count] = new
        self.used += count
        return first

    def at(self, address: Ints) -> dict[str, Tensor]:
        """Copies of these rows; an address of any shape."""
        index = torch.from_numpy(address)
        return {name: table[index.to(table.device)] for name, table in self.tables.items()}

    @property
    def full(self) -> bool:
        """Whether it is worth sweeping."""
        return self.used > 2 * self._swept

    def sweep(self, live: list[Ints]) -> Ints:
        """Keep only these. -> the new address of each old one; NONE stays."""
        kept = np.zeros(self.used, dtype=bool)
        for addresses in live:
            kept[addresses.reshape(-1)] = True
        index = torch.from_numpy(kept.nonzero()[0])
        self.tables = {name: table[index.to(table.device)] for name, table in self.tables.items()}
        self.used = len(index)
        self._swept = max(_LEAST, self.used)
        return np.append(np.cumsum(kept) - 1, NONE)


@final
class Cells:
    """A heap of one-step laws, with a value each or without."""

    def __init__(self) -> None:
        self.heap = Heap()
        self._kind: Any = None

    def add(self, law: Law, values: Tensor | None = None) -> Ints:
        """Keep a table (rows, w). -> the first address of each row."""
        rows, width = law.shape
        self._kind = type(law)
        parts = {name: part.flatten(0, 1) for name, part in _parts(law).items()}
        first = self.heap.add(parts if values is None else parts | {"": values.flatten(0, 1)})
        return first + width * np.arange(rows)

    def law(self, address: Ints) -> Law:
        """The laws at addresses (rows, w)."""
        return self.drawn(address)[0]

    def drawn(self, address: Ints) -> tuple[Law, Tensor]:
        """Laws and values at addresses (rows, w)."""
        found = self.heap.at(address)
        values = found.pop("", torch.empty(0))
        law: Law = self._kind(**found)
        return law, values


def _parts(law: Any) -> dict[str, Tensor]:
    parts = {each.name: getattr(law, each.name) for each in dataclasses.fields(law)}
    return {name: part for name, part in parts.items() if part is not None}
