"""A distribution that is meant to take many rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.cells import every_cell, point_rows
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import seeded
from drawahead.validate import whole, wholes


@final
class HardCode(TokenOracle):
    """The hard instance for rounds: hidden blocks, each a random Reed-Solomon codeword. (Our own construction.)

    A hidden random partition cuts the n positions into about n^(1/3) blocks of about n^(2/3). A block is uniform
    on a Reed-Solomon code: the values at 0, 1, ... of a random polynomial of degree below k over GF(p), with p the
    smallest prime not below the largest block, and q = p. While fewer than k of the block are known a hidden one
    is uniform; from then on it is determined. The k of the blocks are spaced by about the square root of a block's
    size, so a random order brings about one block to its threshold per round of that many steps.

    `sizes` and `thresholds` (the k, 1 <= k <= size) set the blocks explicitly, for small instances.

    After something impossible, as in a wrong guess, any answer is right. A block whose known values are no codeword is
    decoded from k of them: the first in the code, or with `in_order` the first in the order of the path. The
    distribution is the same.
    """

    formula = True

    def __init__(
        self,
        n: int,
        seed: int = 0,
        *,
        sizes: Sequence[int] | None = None,
        thresholds: Sequence[int] | None = None,
        in_order: bool = False,
    ) -> None:
        n = whole("n", n, 1)
        sizes = None if sizes is None else wholes("sizes", sizes)
        thresholds = None if thresholds is None else wholes("thresholds", thresholds)
        blocks = max(1, round(n ** (1 / 3))) if sizes is None else whole("len(sizes)", len(sizes), 1)
        sizes = [n // blocks + (b < n % blocks) for b in range(blocks)] if sizes is None else sizes
        if min(sizes) < 1 or sum(sizes) != n:
            raise InputError(f"sizes must be positive and sum to n = {n}, not {list(sizes)}")
        if thresholds is None:  # evenly spaced: size / blocks is about sqrt(size)
            thresholds = [max(1, int((b + 0.5) * size / blocks)) for b, size in enumerate(sizes)]
        if len(thresholds) != blocks or any(not 1 <= k <= size for k, size in zip(thresholds, sizes, strict=False)):
            raise InputError(f"thresholds must hold one k for each block, from 1 to its size, not {list(thresholds)}")
        self.one_pass = in_order  # only along a path is the order known
        p = _prime_from(max(sizes))
        self.length, self.vocab_size = n, p
        self.thresholds = torch.tensor(list(thresholds))  # (blocks,)
        self.members = torch.full((blocks, max(sizes)), n)  # (blocks, s) positions, padded with n
        hidden_place = torch.randperm(n, generator=seeded(seed))
        size = torch.tensor(list(sizes))
        block = torch.repeat_interleave(torch.arange(blocks), size)
        self.block_of = block[hidden_place]  # (n,)
        self.point_of = (torch.arange(n) - (size.cumsum(0) - size)[block])[hidden_place]  # (n,) 0 ... size - 1
        self.members[self.block_of, self.point_of] = torch.arange(n)
        # Products in GF(p) become sums of discrete logarithms, sums over a block become matrix products; all
        # numbers stay below s p^2 < 2^53, so float64 holds them exactly.
        self.power, log = _discrete_logarithm(p)
        point = torch.arange(max(sizes))
        self.log_gap = log[(point[:, None] - point) % p].double()  # (s, s) log of t - j; 0 for t = j
        self.inverse_gap = self.power[(-log[(point[:, None] - point) % p]) % (p - 1)].double().fill_diagonal_(0)
        self.row_of_value = point_rows(p)
        # Through `rows_at`; the q numbers of the answer per cell come on top.
        self.bytes_per_query = 8 * 6 * n

    def rows(self, tokens: Tensor) -> Tensor:
        return self.rows_at(tokens, *every_cell(tokens))

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return self._rows(tokens, self.point_of.expand_as(tokens), context, position)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        if not self.one_pass:
            return super().chain_rows(tokens, rank, row, prefix, position)
        path, context = torch.stack([row, prefix]).unique(dim=1, return_inverse=True)
        masked = torch.where(rank[path[0]] < path[1][:, None], tokens[path[0]], HIDDEN)
        return self._rows(masked, rank[path[0]], context, position)

    def _rows(self, tokens: Tensor, first: Tensor, context: Tensor, position: Tensor) -> Tensor:
        """As `rows_at`; of known values, those for which `first` (m, n) is smallest are believed."""
        values = self._by_block(tokens)  # (m, blocks, s)
        believed = self._by_block(first)
        asked = torch.zeros(values.shape[:2], dtype=torch.bool)
        asked[context, self.block_of[position]] = True
        ready = asked & ((values != HIDDEN).sum(2) >= self.thresholds)
        words = torch.full_like(values, HIDDEN)
        words[ready] = self._decoded(values[ready], believed[ready], ready.nonzero()[:, 1])
        return self.row_of_value[words[context, self.block_of[position], self.point_of[position]]]

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        values = self._by_block(tokens)
        ready = (values != HIDDEN).sum(2) >= self.thresholds
        words = values.clone()
        words[ready] = self._decoded(
            values[ready], self._by_block(self.point_of[None]).expand_as(values)[ready], ready.nonzero()[:, 1]
        )
        return ((values == HIDDEN) | (values == words)).all((1, 2))

    def _by_block(self, tokens: Tensor) -> Tensor:
        """(m, n) -> (m, blocks, s), padded with HIDDEN."""
        return torch.nn.functional.pad(tokens, (0, 1), value=HIDDEN)[:, self.members]

    def _decoded(self, values: Tensor, first: Tensor, block: Tensor) -> Tensor:
        """The codewords (u, s) through k known values of each block, those for which `first` (u, s) is smallest.

        Lagrange: f(t) = prod_l (t - l) sum_j y_j / (t - j) / prod_{l != j} (j - l), over the k points used.
        """
        p = self.vocab_size
        known = values != HIDDEN
        turn = torch.where(known, first, self.length).argsort(dim=1, stable=True).argsort(dim=1)  # known ones first
        used = known & (turn < self.thresholds[block, None])
        log_product = (used.double() @ self.log_gap.T).long()  # (u, s): over l used, l != t, of t - l
        share = torch.where(used, values * self.power[-log_product % (p - 1)] % p, 0)
        total = (share.double() @ self.inverse_gap.T).long() % p
        return torch.where(used, values, total * self.power[log_product % (p - 1)] % p)


def _prime_from(least: int) -> int:
    """The smallest prime not below `least`."""
    p = max(2, least)
    while any(p % d == 0 for d in range(2, int(p**0.5) + 1)):
        p += 1
    return p


def _discrete_logarithm(p: int) -> tuple[Tensor, Tensor]:
    """`power` (p - 1,), the powers of a generator of GF(p)*, and its inverse `log` (p,), with log[0] = 0."""
    for g in range(1, p):
        power = [1]
        while len(power) < p - 1:
            power.append(power[-1] * g % p)
        if len(set(power)) == p - 1:
            break
    log = torch.zeros(p, dtype=torch.long)
    log[torch.tensor(power)] = torch.arange(p - 1)
    return torch.tensor(power), log
