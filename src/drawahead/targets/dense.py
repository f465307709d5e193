"""A dense weak-coupling logistic model: what a learned masked model looks like to a sampler."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from drawahead.oracles.cells import running, stretches
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import seeded
from drawahead.validate import number, whole


@final
class DenseLogistic(TokenOracle):
    """P(X_i = 1 | X_S) = sigmoid(2 beta / sqrt(n) sum_{j in S} J_ij s_j), s = 2x - 1, J symmetric Gaussian.

    J has standard normal entries and a zero diagonal, as in the Sherrington-Kirkpatrick model (1975). It stands
    for a learned masked model: every token matters a little to every other, and the conditionals are *not* those
    of any one joint distribution. "Exact" therefore means the chain rule along the order that is drawn.
    """

    one_pass = True
    formula = True

    def __init__(self, n: int, beta: float = 1.0, seed: int = 0) -> None:
        self.length, self.vocab_size = whole("n", n, 1), 2
        scale = 2 * number("beta", beta) / math.sqrt(n)
        upper = torch.randn(n, n, dtype=torch.float64, generator=seeded(seed)).triu_(1).mul_(scale)
        self.weights = upper + upper.T

    def rows(self, tokens: Tensor) -> Tensor:
        return _law(_spins(tokens) @ self.weights)

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        spins = _spins(tokens)
        return _law(torch.einsum("pj,pj->p", spins[context], self.weights[position]))

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        field = torch.empty(len(row), dtype=torch.float64)
        for part in stretches(tokens, rank, row, prefix, position):
            base = _spins(part.base) @ self.weights  # (r, n)
            drawn = _spins(part.drawn)
            gained = self.weights[part.asked[:, :, None], part.window[:, None, :]]  # (r, k, w)
            more = running(gained.mul_(drawn[:, None, :]))[part.row, part.slot, part.depth]
            field[part.cells] = base[part.row, position[part.cells]] + more
        return _law(field)


def _spins(tokens: Tensor) -> Tensor:
    """-1 or +1, and 0 where hidden."""
    return torch.where(tokens == HIDDEN, 0, 2 * tokens - 1).double()


def _law(field: Tensor) -> Tensor:
    return torch.stack([logsigmoid(-field), logsigmoid(field)], dim=-1)
