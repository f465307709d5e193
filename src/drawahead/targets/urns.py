"""Independent Polya urns: exchangeable blocks whose colours reinforce themselves."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.cells import every_cell, running, stretches
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.validate import number, whole


@final
class PolyaUrns(TokenOracle):
    """Consecutive blocks of positions, each the draws from its own Polya urn (Eggenberger and Polya, 1923).

    An urn starts with `concentration` balls of each of the q colours; every ball drawn goes back with one more of
    its colour. So P(X_i = v | X_S) = (concentration + #{j in S, same block: x_j = v}) / (q concentration + #known).
    """

    one_pass = True
    rereads = True

    def __init__(self, n: int, block: int, q: int = 2, concentration: float = 1.0) -> None:
        self.length, self.vocab_size = whole("n", n, 1), whole("q", q, 1)
        self.concentration = number("concentration", concentration)
        if self.concentration <= 0:
            raise InputError(f"concentration must be positive, not {concentration}")
        self.block_of = torch.arange(self.length) // whole("block", block, 1)  # (n,)
        self.blocks = int(self.block_of[-1]) + 1

    def rows(self, tokens: Tensor) -> Tensor:
        return self.rows_at(tokens, *every_cell(tokens))

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return self._law(self._counts(tokens)[context, self.block_of[position]])

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        answer = torch.empty(len(row), self.vocab_size, dtype=torch.float64)
        for part in stretches(tokens, rank, row, prefix, position):
            counts = self._counts(part.base)[part.row, self.block_of[position[part.cells]]]  # (p, q)
            same = self.block_of[part.asked][:, :, None] == self.block_of[part.window][:, None, :]  # (r, k, w)
            for v in range(self.vocab_size):
                gained = running(same & (part.drawn == v)[:, None, :])  # (r, k, w + 1)
                counts[:, v] += gained[part.row, part.slot, part.depth]
            answer[part.cells] = self._law(counts)
        return answer

    def _counts(self, tokens: Tensor) -> Tensor:
        """How often each colour is known in each block: (m, n) -> (m, blocks, q)."""
        spare = self.blocks * self.vocab_size  # where hidden positions are counted, and forgotten
        colour = torch.where(tokens == HIDDEN, spare, self.block_of * self.vocab_size + tokens)
        counts = torch.zeros(len(tokens), spare + 1, dtype=torch.float64)
        counts.scatter_add_(1, colour, torch.ones(1, dtype=torch.float64).expand(colour.shape))
        return counts[:, :spare].view(len(tokens), self.blocks, self.vocab_size)

    def _law(self, counts: Tensor) -> Tensor:
        balls = counts + self.concentration
        return (balls / balls.sum(-1, keepdim=True)).log()
