"""The laws of vertices' partners in a random perfect matching, from the inverse of a Kasteleyn matrix.

With M the inverse, P(v matched to w) = K_vw M_wv. To condition on a pair is to delete its two vertices, which takes a
term of rank one or two from M. A path is followed pair by pair; the terms are kept, so that the laws at all of its
prefixes are read from one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drawahead.oracles import HIDDEN, TokenOracle

Array = npt.NDArray[Any]

Renew = Callable[[int, Array], Array]
"""M of a state without the vertices that a mask (t,) shows, worked out afresh."""
IMPOSSIBLE = 1e-10
"""Smaller probabilities are rounding: they are taken as zero."""
WRONG = 1e-6
"""How far the probabilities of a vertex may be from summing to one before the inverse is worked out afresh."""
RARE = 1e-7
"""Behind a guessed step less likely than this, laws that went wrong are not worked out afresh: such a guess is as
seldom kept, and if it is, the next round asks again."""
_ELEMENTS = 1 << 22
_BLOCK = 48  # steps after which their terms are taken from M in one product


@dataclass(frozen=True)
class Slots:
    """Where the law of each asked vertex is found. Vertices, lines and columns are numbered locally."""

    vertex: Array  # (m,)
    neighbour: Array  # (m, q), -1 where a vertex has fewer
    line: Array  # (m, q): P(slot) = factor * M[line, column]
    column: Array  # (m, q)
    factor: Array  # (m, q), 0 where there is no neighbour
    both: bool  # whether M is skew: then a pair takes out (line, column) and (column, line)


@dataclass(frozen=True)
class _Path:
    """Paths followed to their ends: M after p steps is M - left[..., :p] @ right[:p] (twice p, where M is skew)."""

    state: Array  # (r,)
    left: Array  # (r, lines, terms)
    right: Array  # (r, terms, columns)
    matched: Array  # (r, t) the step that matched a vertex; past the end if none did
    mate: Array  # (r, t)
    broken: Array  # (r,) the first step that could not be taken
    doubtful: Array  # (r,) the first guessed step that is rare
    known: Array  # (r,) steps that are evidence


@final
class Partners(TokenOracle):
    """Token i is the slot of the partner of vertex i. One more position, always known, holds the number of the state:
    an inverse and the vertices that are left in it.
    """

    one_pass = True

    def __init__(self, slots: Slots, inverse: Array, live: Array, renew: Renew) -> None:
        self.slots = slots
        self.renew = renew
        self.inverse = inverse  # (states, lines, columns)
        self.live = live  # (states, t)
        self.length, self.vocab_size = len(slots.vertex) + 1, slots.neighbour.shape[1]
        terms = len(slots.vertex) * (2 if slots.both else 1)
        self.bytes_per_query = 24 * terms * (self.inverse.shape[1] + self.inverse.shape[2]) + 16 * self.live.shape[1]

    def rows(self, tokens: Tensor) -> Tensor:
        r, n = tokens.shape
        m = n - 1
        row, position = np.repeat(np.arange(r), m), np.tile(np.arange(m), r)
        path = self._shown(tokens)
        rows = torch.from_numpy(self._laws(path, row, path.known[row], position)).view(r, m, -1)
        return torch.cat([rows, torch.full((r, 1, self.vocab_size), -np.log(self.vocab_size), dtype=rows.dtype)], dim=1)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        if not len(row):
            return torch.zeros(0, self.vocab_size, dtype=torch.float64)
        last = torch.zeros(len(tokens), dtype=torch.int64).scatter_reduce(0, row, prefix, "amax")
        first = last.scatter_reduce(0, row, prefix, "amin")  # what comes before is no guess
        path = self._follow(tokens.numpy(), (rank < last[:, None]).numpy(), rank.numpy(), first.numpy())
        cells = row.numpy()
        return torch.from_numpy(self._laws(path, cells, path.known[cells] + prefix.numpy(), position.numpy()))

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        path = self._shown(tokens)
        return torch.from_numpy(path.broken >= path.known)

    def _shown(self, tokens: Tensor) -> _Path:
        known = tokens.numpy() != HIDDEN
        return self._follow(tokens.numpy(), known, np.where(known, -1, 0), np.zeros(len(tokens), dtype=np.int64))

    def _follow(self, tokens: Array, known: Array, rank: Array, sure: Array) -> _Path:
        """Match the known positions one after another, evidence first. What cannot be is left out.

        Steps of rank `sure` (r,) and above are guesses.
        """
        slots, m = self.slots, len(self.slots.vertex)
        rows, state = np.arange(len(tokens)), tokens[:, m]
        live = self.live[state]  # (r, t), a copy
        known = known[:, :m] & live[:, slots.vertex]
        order = np.where(known, rank[:, :m], m).argsort(axis=1, kind="stable")
        steps = known.sum(1)
        terms, most = (2 if slots.both else 1), int(steps.max(initial=0))
        _, lines, columns = self.inverse.shape
        left = np.zeros((len(rows), lines, terms * most))
        right = np.zeros((len(rows), terms * most, columns))
        matched, mate = np.full(live.shape, most + 1), np.full(live.shape, -1)
        broken, doubtful = np.full(len(rows), most + 1), np.full(len(rows), most + 1)
        base, own, first = self.inverse, state, 0  # M without the terms before `first`
        for i in range(most):
            j = terms * i  # both terms of a pair start from the same M
            if i and i % _BLOCK == 0:
                base, own, first = base[own] - left[:, :, first:j] @ right[:, first:j], rows, j
            position = order[:, i]
            at = (position, np.clip(tokens[rows, position], 0, slots.neighbour.shape[1] - 1))
            v, w = slots.vertex[position], slots.neighbour[at]
            free = live[rows, v] & live[rows, w] & (w >= 0)
            for k in range(terms):
                a, b = (slots.line[at], slots.column[at]) if k == 0 else (slots.column[at], slots.line[at])
                column = base[own, :, b] - (left[:, :, first:j] @ right[rows, first:j, b][:, :, None])[:, :, 0]
                line = base[own, a] - (left[rows, a, None, first:j] @ right[:, first:j])[:, 0]
                pivot = line[rows, b]
                if k == 0:
                    rare = (slots.factor[at] * pivot < RARE) & (rank[rows, position] >= sure)
                    free &= slots.factor[at] * pivot > IMPOSSIBLE
                left[:, :, j + k] = np.where(free[:, None], column, 0.0)
                right[:, j + k] = line / np.where(free, pivot, np.inf)[:, None]
            agrees = mate[rows, v] == w  # its partner was drawn before: nothing new
            broken = np.where((i < steps) & ~free & ~agrees, np.minimum(broken, i), broken)
            free &= i < steps
            doubtful = np.where(free & rare, np.minimum(doubtful, i), doubtful)
            left[~free, :, terms * i : terms * (i + 1)] = 0.0
            for one, other in ((v, w), (w, v)):
                live[rows[free], one[free]] = False
                matched[rows[free], one[free]] = i
                mate[rows[free], one[free]] = other[free]
        return _Path(state, left, right, matched, mate, broken, doubtful, (known & (rank[:, :m] < 0)).sum(1))

    def _laws(self, path: _Path, row: Array, steps: Array, position: Array) -> Array:
        """Log-probabilities of each cell's slots after so many steps of its path (c, q)."""
        size = max(1, _ELEMENTS // max(1, self.vocab_size * path.left.shape[2]))
        parts = [
            self._law(path, row[i : i + size], steps[i : i + size], position[i : i + size])
            for i in range(0, len(row), size)
        ]
        return np.concatenate(parts)

    def _law(self, path: _Path, row: Array, steps: Array, position: Array) -> Array:
        slots = self.slots
        state, neighbour, vertex = path.state[row], slots.neighbour[position], slots.vertex[position]
        there = row[:, None]
        left = (path.matched[there, neighbour] >= steps[:, None]) & self.live[state[:, None], neighbour]
        exists = neighbour >= 0
        law = np.where(exists & left, slots.factor[position] * self._entries(path, row, steps, position), 0.0)
        asked = (path.matched[row, vertex] >= steps) & self.live[state, vertex]
        counts = np.minimum(path.broken, path.doubtful)[row] >= steps
        wrong = asked & counts & ~(np.abs(law.sum(1) - 1) <= WRONG)
        for c in wrong.nonzero()[0].tolist():
            gone = path.matched[row[c]] < steps[c]
            entries = self.renew(int(state[c]), gone)[slots.line[position[c]], slots.column[position[c]]]
            law[c] = np.where(exists[c] & left[c], slots.factor[position[c]] * entries, 0.0)
        law[law < IMPOSSIBLE] = 0.0
        # A path that cannot be may leave nothing: then any law will do.
        nothing = law.sum(1) < IMPOSSIBLE
        law[nothing] = exists[nothing] | ~exists[nothing].any(1, keepdims=True)
        drawn = path.matched[row, vertex] < steps
        law[drawn] = neighbour[drawn] == path.mate[row[drawn], vertex[drawn]][:, None]
        with np.errstate(divide="ignore"):
            logs: Array = np.log(law / law.sum(1, keepdims=True))
        return logs

    def _entries(self, path: _Path, row: Array, steps: Array, position: Array) -> Array:
        """The entries of M that the laws of these cells are made of (c, q)."""
        line, column, there = self.slots.line[position], self.slots.column[position], row[:, None]
        value = self.inverse[path.state[there], line, column]
        taken = np.arange(path.left.shape[2]) < (steps * (2 if self.slots.both else 1))[:, None]
        right = path.right.transpose(0, 2, 1)[there, column] * taken[:, None]
        entries: Array = value - np.einsum("cqj,cqj->cq", path.left[there, line], right)
        return entries
