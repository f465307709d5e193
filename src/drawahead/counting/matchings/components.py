"""Pieces of a matching: what is left of a graph, sample by sample, when some pairs are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from torch import Tensor

from drawahead.counting.matchings.kasteleyn import KasteleynMatrix, sound
from drawahead.counting.matchings.partners import UNEVEN, Array, Partners, Slots
from drawahead.counting.matchings.separators import Node
from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN
from drawahead.samplers.separated import Settled


@final
@dataclass(frozen=True, eq=False)
class SeparatorPart:
    """A node of the separator tree, with what all samples have in common there. Indices are into `vertices`."""

    matrix: KasteleynMatrix
    node: Node

    @cached_property
    def vertices(self) -> Array:
        return np.array(self.node.vertices, dtype=np.int64)

    @cached_property
    def lines(self) -> Array:
        return self.matrix.lines(self.vertices)

    @cached_property
    def columns(self) -> Array:
        return self.matrix.columns(self.vertices)

    @cached_property
    def separator(self) -> Array:
        return np.array(self.node.separator, dtype=np.int64)

    @cached_property
    def near(self) -> Array:
        """The separator and its neighbours: all that its own law needs."""
        around = self.matrix.neighbour[self.separator]
        return np.union1d(self.separator, around[np.isin(around, self.vertices)])

    @cached_property
    def slots(self) -> Slots:
        """Of the separator, in M of `near`."""
        return self.matrix.slots(self.separator, self.near)

    @cached_property
    def all_slots(self) -> Slots:
        """Of all vertices, in M of all of them."""
        return self.matrix.slots(self.vertices, self.vertices)

    @cached_property
    def children(self) -> list[SeparatorPart]:
        return [SeparatorPart(self.matrix, child) for child in self.node.children]


@final
@dataclass(frozen=True, eq=False)
class Component:
    """What is left of a part in a batch of samples: a `Piece`."""

    part: SeparatorPart
    inverse: Array  # (samples, lines, columns) M of the vertices that are left; the others' entries mean nothing
    live: Array  # (samples, vertices)

    @property
    def number(self) -> int:
        return self.part.node.number

    @property
    def level(self) -> Tensor:
        return torch.tensor([*self.part.node.levels, 0])

    @cached_property
    def oracle(self) -> Partners:
        part, matrix = self.part, self.part.matrix
        lines = np.searchsorted(part.lines, matrix.lines(part.near))
        columns = np.searchsorted(part.columns, matrix.columns(part.near))
        near = np.searchsorted(part.vertices, part.near)

        def renew(state: int, gone: Array) -> Array | None:
            live = self.live[state].copy()
            live[near[gone]] = False
            fresh = matrix.inverse_within(part.vertices[live], part.vertices)
            return None if fresh is None else fresh[np.ix_(lines, columns)]

        return Partners(part.slots, self.inverse[:, lines][:, :, columns], self.live[:, near], renew)

    @cached_property
    def evidence(self) -> Tensor:
        """Vertices that are gone hold 0; the last position is the sample's state."""
        own = self.live[:, np.searchsorted(self.part.vertices, self.part.separator)]
        return torch.from_numpy(np.column_stack([np.where(own, HIDDEN, 0), np.arange(len(own))]))

    def settle(self, rows: Tensor, tokens: Tensor) -> Settled:
        own = self.live[rows.numpy()][:, np.searchsorted(self.part.vertices, self.part.separator)]
        drawn = np.where(own, tokens[:, :-1].numpy(), HIDDEN)
        return self.without(rows.numpy(), self.part.separator, drawn, self.part.children)

    def without(self, rows: Array, vertices: Array, tokens: Array, parts: Sequence[SeparatorPart]) -> Settled:
        """What `parts` of these samples are left when `vertices` (m,) have the tokens (rows, m), or HIDDEN."""
        matrix, samples = self.part.matrix, np.arange(len(rows))[:, None]
        mate = np.where(tokens != HIDDEN, matrix.neighbour[vertices, tokens], -1)  # (rows, m)
        partner = np.full((len(rows), len(matrix.neighbour) + 1), -1)  # of every vertex of the graph, and a spare one
        partner[samples, np.where(mate >= 0, vertices, -1)] = mate
        partner[samples, mate] = np.where(mate >= 0, vertices, -1)
        partner = partner[:, :-1]
        gone = partner[:, self.part.vertices] >= 0
        live = self.live[rows] & ~gone
        row, at = gone.nonzero()
        position = self.part.vertices[at]
        token = (matrix.neighbour[position] == partner[row, position][:, None]).argmax(1)
        shrunk = self._shrunk(rows, partner, live, parts)
        return Settled(torch.from_numpy(row), torch.from_numpy(position), torch.from_numpy(token), shrunk)

    def _shrunk(self, rows: Array, partner: Array, live: Array, parts: Sequence[SeparatorPart]) -> list[Component]:
        """One Schur complement: M' = M - M[:, D] M[D, D]^-1 M[D, :] for the deleted vertices D of each sample."""
        if not parts:
            return []
        mine = self.part
        a = _packed(partner[:, mine.lines] >= 0)  # (rows, k) D among the lines; -1 is padding
        mates = partner[np.arange(len(rows))[:, None], mine.lines[a]]
        b = np.where(a >= 0, np.searchsorted(mine.columns, mates), 0)  # and among the columns
        r, used = rows[:, None, None], (a >= 0)[:, :, None]
        both = used & used.transpose(0, 2, 1)
        square = np.where(both, self.inverse[r, a[:, :, None], b[:, None, :]], np.eye(a.shape[1]))
        middle = np.linalg.inv(square)
        pieces = []
        for part in parts:
            i, j = np.searchsorted(mine.lines, part.lines), np.searchsorted(mine.columns, part.columns)
            right = np.where(used, self.inverse[r, a[:, :, None], j], 0.0)
            left = np.where(used.transpose(0, 2, 1), self.inverse[r, i[:, None], b[:, None, :]], 0.0)
            inverse = self.inverse[r, i[:, None], j] - left @ (middle @ right)
            left_over = live[:, np.searchsorted(mine.vertices, part.vertices)]
            for state in (~sound(part.all_slots, inverse, left_over)).nonzero()[0].tolist():
                fresh = part.matrix.inverse_within(part.vertices[left_over[state]], part.vertices)
                if fresh is None:
                    raise InputError(UNEVEN)
                inverse[state] = fresh
            if part.all_slots.both:
                inverse = (inverse - inverse.transpose(0, 2, 1)) / 2
            pieces.append(Component(part, inverse, left_over))
        return pieces


def _packed(flags: Array) -> Array:
    """The indices of the True entries of each row, moved to its front: (rows, n) -> (rows, most), padded with -1."""
    count = flags.sum(1)
    order = (~flags).argsort(axis=1, kind="stable")[:, : int(count.max(initial=0))]
    packed: Array = np.where(np.arange(order.shape[1]) < count[:, None], order, -1)
    return packed
