"""The distributions of vertices' partners in a random perfect matching, from the inverse of a Kasteleyn matrix.

With M the inverse, P(v matched to w) = K_vw M_wv. To condition on a pair is to delete its two vertices, which takes a
term of rank one or two from M. Paths are followed pair by pair, and laws are read on the way.

Rounding changes the distribution of samples by no more than about WRONG per draw (measured, not proved). A step of
probability p may multiply the errors of M by 1 / p, and what follows it is p times as likely. So M is worked out afresh
after a step less likely than UNLIKELY, and wherever the probabilities of a vertex no longer sum to one: behind guesses
as behind evidence, because a sampler that accepts a guess goes on from these laws in the same round. Where float64 has
too few digits for a law there is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle

Array = npt.NDArray[Any]

Renew = Callable[[int, Array], Array | None]
"""M of a state without the vertices that a mask (t,) shows, worked out afresh. None if the others have no matching."""
IMPOSSIBLE = 1e-12
"""Smaller probabilities may be rounding, and are taken as zero. After a step of probability p the limit is
IMPOSSIBLE / p, but at most WRONG."""
UNLIKELY = 1e-5
"""After a step less likely than this M is worked out afresh: it may have lost too many of its 16 digits."""
WRONG = 1e-10
"""How far the probabilities of a vertex may be from summing to one before M is worked out afresh."""
UNEVEN = "the weights are too uneven for float64: scale them, or drop the edges that hardly matter"
_BLOCK = 48  # steps after which their terms are taken from M in one product


@dataclass(frozen=True)
class Slots:
    """Where the laws of some vertices are in M. Vertices, lines and columns are numbered locally."""

    vertex: Array  # (m,)
    neighbour: Array  # (m, q), -1 where a vertex has fewer
    line: Array  # (m, q): P(slot) = factor * M[line, column]
    column: Array  # (m, q)
    factor: Array  # (m, q), 0 where there is no neighbour
    both: bool  # whether M is skew: then a pair takes out (line, column) and (column, line)

    @cached_property
    def around(self) -> Array:
        """The slots of each vertex and those that name it (t, d), as indices into (m q,); some more than once."""
        q = self.neighbour.shape[1]
        named = self.neighbour.reshape(-1)
        used = (named >= 0).nonzero()[0]
        vertex = np.concatenate([np.repeat(self.vertex, q), named[used]])
        slot = np.concatenate([np.arange(len(named)), used])[vertex.argsort(kind="stable")]
        count = np.bincount(vertex)
        first = np.minimum(count.cumsum() - count, len(slot) - 1)
        around: Array = slot[first[:, None] + np.arange(count.max()) % np.maximum(count, 1)[:, None]]
        return around


@final
class _Walk:
    """Paths under way, one per row. M of what is left is base[own] - left[..., :used] @ right[:used]."""

    def __init__(self, slots: Slots, inverse: Array, live: Array, state: Array, renew: Renew) -> None:
        self.slots, self.renew, self.state = slots, renew, state
        self.rows = np.arange(len(state))
        self.base, self.own, self.used = inverse, state, 0
        _, lines, columns = inverse.shape
        self.left = np.zeros((len(state), lines, _terms(slots)))
        self.right = np.zeros((len(state), _terms(slots), columns))
        self.live = live[state]  # (r, t), a copy
        self.mate = np.full(self.live.shape, -1)
        self.least = np.ones(len(state))  # the chance of the least likely step since M was worked out
        self.broken = np.zeros(len(state), dtype=bool)  # rows that have shown what cannot be
        open_slot = (slots.neighbour >= 0) & self.live[:, slots.neighbour]
        self.factor = np.where(open_slot, slots.factor, 0.0)  # (r, m, q), 0 where the neighbour is gone
        self.law = self.factor * inverse[state[:, None, None], slots.line, slots.column]  # of all that are left
        self._check(~self.broken)

    @property
    def zero(self) -> Array:
        """Smaller probabilities may be rounding (r,)."""
        return np.minimum(IMPOSSIBLE / self.least, WRONG)

    def take(self, position: Array, token: Array, due: Array, sure: Array) -> None:
        """Match the vertices at `position` (r,) in the rows that are `due`. What cannot be is left out.

        Where it is `sure`, the step is no guess: it is committed or evidence, however unlikely it is.
        """
        slots, rows = self.slots, self.rows
        v, w = slots.vertex[position], slots.neighbour[position, token]
        there = w >= 0
        fits = due & there & self.live[rows, v] & self.live[rows, w]
        self.broken |= due & ~fits & ~(there & (self.mate[rows, v] == w))  # a pair drawn before is nothing new
        if not fits.any():
            return
        chance = self.law[rows, position, token]
        plain = fits & (chance >= UNLIKELY) & (chance <= 2)  # in broken rows it may be anything
        if plain.any():
            self.least = np.where(plain, np.minimum(self.least, chance), self.least)
            self._subtract(slots.line[position, token], slots.column[position, token], plain)
            self._match(v, w, plain)
            self._check(plain)
        for row in (fits & ~plain).nonzero()[0].tolist():
            follow = not self.broken[row] and (sure[row] or chance[row] >= self.zero[row])
            if not follow or not self._jump(row, [v[row], w[row]]):
                self.broken[row] = True
                if follow and chance[row] > WRONG / self.least[row]:  # it can be drawn, and yet not followed
                    raise InputError(UNEVEN)

    def _jump(self, row: int, pair: list[int]) -> bool:
        """Match a pair and work M out afresh; False if that cannot be."""
        gone = ~self.live[row]
        gone[pair] = True
        fresh = self.renew(int(self.state[row]), gone)
        if fresh is None:
            return False
        v, w = (np.full(len(self.rows), vertex) for vertex in pair)
        self._match(v, w, self.rows == row)
        self._rebase(row, fresh)
        return True

    def _subtract(self, line: Array, column: Array, taken: Array) -> None:
        """Take the terms of these entries (r,) from M."""
        rows, slots, j = self.rows, self.slots, self.used
        if j == self.left.shape[2]:
            base = self.base[self.own] - self.left @ self.right
            self.base, self.own, j = _skew(base) if slots.both else base, rows, 0
        self.used = j + _terms(slots, 1)
        left, right = self.left[:, :, :j], self.right[:, :j]
        down = self.base[self.own, :, column] - (left @ right[rows, :, column][:, :, None])[:, :, 0]
        down[~taken] = 0.0
        pivot = np.where(taken, down[rows, line], np.inf)[:, None]
        if slots.both:  # M' = M - (g m^T - m g^T) with the columns m = M_:b and g = M_:a / M_ab: that is skew again
            other = self.base[self.own, :, line] - (left @ right[rows, :, line][:, :, None])[:, :, 0]
            across = other / pivot
            self.left[:, :, j], self.right[:, j] = across, down
            self.left[:, :, j + 1], self.right[:, j + 1] = -down, across
            change = across[:, slots.line] * down[:, slots.column] - down[:, slots.line] * across[:, slots.column]
        else:
            across = (self.base[self.own, line] - (left[rows, line, None] @ right)[:, 0]) / pivot
            self.left[:, :, j], self.right[:, j] = down, across
            change = down[:, slots.line] * across[:, slots.column]
        self.law -= self.factor * change

    def _match(self, v: Array, w: Array, taken: Array) -> None:
        v, w, rows = v[taken], w[taken], self.rows[taken]
        rows, one = np.concatenate([rows, rows]), np.concatenate([v, w])
        self.live[rows, one] = False
        self.mate[rows, one] = np.concatenate([w, v])
        slot = self.slots.around[one]
        for values in (self.factor, self.law):
            values.reshape(len(self.rows), -1)[rows[:, None], slot] = 0.0

    def _check(self, rows: Array) -> None:
        """Work M out afresh where it has lost too many digits, in these rows (r,)."""
        total = self.law @ np.ones(self.law.shape[2])
        off = np.abs(total - self.live[:, self.slots.vertex]).max(1, initial=0.0)
        for row in (rows & ~self.broken & ~(off <= WRONG)).nonzero()[0].tolist():
            fresh = self.renew(int(self.state[row]), ~self.live[row])
            if fresh is None:
                raise InputError(UNEVEN)
            self._rebase(row, fresh)

    def _rebase(self, row: int, fresh: Array) -> None:
        """Go on from this M, with no terms to take from it yet."""
        self.own = np.where(self.rows == row, len(self.base), self.own)
        self.base = np.concatenate([self.base, fresh[None]])
        self.left[row], self.right[row], self.least[row] = 0.0, 0.0, 1.0
        self.law[row] = self.factor[row] * fresh[self.slots.line, self.slots.column]


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
        _, lines, columns = inverse.shape
        entries = 3 * lines * columns + 2 * _terms(slots) * (lines + columns) + 6 * self.length * self.vocab_size
        self.bytes_per_query = 8 * entries + 16 * live.shape[1]

    def rows(self, tokens: Tensor) -> Tensor:
        r, m = len(tokens), len(self.slots.vertex)
        row, position = np.repeat(np.arange(r), m), np.tile(np.arange(m), r)
        rows = torch.from_numpy(self._shown(tokens, row, position)[0]).view(r, m, -1)
        return torch.cat([rows, torch.full((r, 1, self.vocab_size), -np.log(self.vocab_size), dtype=rows.dtype)], dim=1)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        if not len(row):
            return torch.zeros(0, self.vocab_size, dtype=torch.float64)
        last = torch.zeros(len(tokens), dtype=torch.int64).scatter_reduce(0, row, prefix, "amax")
        first = last.scatter_reduce(0, row, prefix, "amin")  # what comes before is no guess
        path = (tokens.numpy(), rank.numpy(), first.numpy(), last.numpy())
        return torch.from_numpy(self._follow(*path, row.numpy(), prefix.numpy(), position.numpy())[0])

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        none = np.zeros(0, dtype=np.int64)
        return torch.from_numpy(~self._shown(tokens, none, none)[1])

    def _shown(self, tokens: Tensor, row: Array, position: Array) -> tuple[Array, Array]:
        """`_follow`, with all that is known as evidence."""
        rank = np.where(tokens.numpy() != HIDDEN, -1, 0)
        none = np.zeros(len(tokens), dtype=np.int64)
        return self._follow(tokens.numpy(), rank, none, none, row, np.zeros_like(row), position)

    def _follow(
        self, tokens: Array, rank: Array, first: Array, last: Array, row: Array, prefix: Array, position: Array
    ) -> tuple[Array, Array]:
        """Match the positions of rank below `last` (r,) one after another, evidence first.

        Steps of rank `first` (r,) and above are guesses. -> the log-probabilities of the slots of each cell, (c, q);
        and which paths cannot be, (r,) bool.
        """
        slots, m = self.slots, len(self.slots.vertex)
        walk = _Walk(slots, self.inverse, self.live, tokens[:, m], self.renew)
        tokens, rank = np.clip(tokens[:, :m], 0, self.vocab_size - 1), rank[:, :m]
        known = (rank < last[:, None]) & walk.live[:, slots.vertex]
        order = np.where(known, rank, m).argsort(axis=1, kind="stable")
        steps = known.sum(1)
        depth = (known & (rank < 0)).sum(1)[row] + prefix
        by_depth, most = depth.argsort(kind="stable"), int(steps.max(initial=0))
        ends = np.searchsorted(depth[by_depth], np.arange(most + 2)).tolist()
        law, mate = np.zeros((len(row), self.vocab_size)), np.zeros(len(row), dtype=np.int64)
        zero = np.zeros(len(row))
        for i in range(most + 1):
            if ends[i] < ends[i + 1]:
                cells = by_depth[ends[i] : ends[i + 1]]
                law[cells] = walk.law[row[cells], position[cells]]
                zero[cells] = walk.zero[row[cells]]
                mate[cells] = walk.mate[row[cells], slots.vertex[position[cells]]]
            if i < most:
                at = order[:, i]
                walk.take(at, tokens[walk.rows, at], i < steps, rank[walk.rows, at] < first)
        law = np.where(law >= zero[:, None], np.minimum(law, 1.0), 0.0)
        return self._logs(law, mate, slots.neighbour[position]), walk.broken

    def _logs(self, law: Array, mate: Array, neighbour: Array) -> Array:
        """The laws as log-probabilities (c, q), with the mates (c,) of vertices that are matched."""
        exists, drawn = neighbour >= 0, mate >= 0
        # A path that cannot be may leave nothing: then any law will do.
        nothing = law.sum(1) == 0
        law[nothing] = exists[nothing] | ~exists[nothing].any(1, keepdims=True)
        law[drawn] = neighbour[drawn] == mate[drawn, None]
        with np.errstate(divide="ignore"):
            logs: Array = np.log(law / law.sum(1, keepdims=True))
        return logs


def _terms(slots: Slots, steps: int = _BLOCK) -> int:
    return steps * (2 if slots.both else 1)


def _skew(matrices: Array) -> Array:
    """The skew part of matrices that should be."""
    result: Array = (matrices - matrices.transpose(0, 2, 1)) / 2
    return result
