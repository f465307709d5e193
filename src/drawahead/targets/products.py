"""Independent positions, copied positions, mixtures of independent positions, and independent Polya urns."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.cells import every_cell, point_rows, running, stretches
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import seeded
from drawahead.targets.table import random_laws
from drawahead.validate import Array, laws, number, whole


@final
class Product(TokenOracle):
    """Independent positions: P(x) = prod_i probs[i, x_i]. Every draft is right, so it needs one round."""

    one_pass = True
    formula = True

    def __init__(self, probs: Array) -> None:
        self.log_probs = laws("probs", probs, ("n", "q")).log()
        self.length, self.vocab_size = self.log_probs.shape

    @classmethod
    def random(cls, n: int, q: int = 2, seed: int = 0) -> Product:
        """Marginals drawn uniformly from the simplex."""
        return cls(random_laws((whole("n", n, 1), whole("q", q, 1)), seeded(seed)))

    def rows(self, tokens: Tensor) -> Tensor:
        return self.log_probs.expand(len(tokens), -1, -1)

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return self.log_probs[position]

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        return self.log_probs[position]

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        seen = self.log_probs[torch.arange(self.length), tokens]  # (m, n); a hidden token reads any entry
        return ((tokens == HIDDEN) | seen.isfinite()).all(1)


@final
class Pairs(TokenOracle):
    """Uniform on {x_1 = x_2, x_3 = x_4, ...}: the example on which a fixed order fails."""

    one_pass = True
    formula = True

    def __init__(self, n: int, q: int = 2) -> None:
        if whole("n", n, 1) % 2:
            raise InputError(f"n must be even, so that every position has a partner, not {n}")
        self.length, self.vocab_size = n, whole("q", q, 1)
        self.row_of_partner = point_rows(q)

    def rows(self, tokens: Tensor) -> Tensor:
        return self.rows_at(tokens, *every_cell(tokens))

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return self.row_of_partner[tokens[context, position ^ 1]]

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        partner = position ^ 1
        return self.row_of_partner[torch.where(rank[row, partner] < prefix, tokens[row, partner], HIDDEN)]

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        one, other = tokens[:, 0::2], tokens[:, 1::2]
        return ((one == other) | (one == HIDDEN) | (other == HIDDEN)).all(1)


@final
class MixtureOfProducts(TokenOracle):
    """P(x) = sum_c weights[c] prod_i probs[c, i, x_i]: rows average the components under their posterior."""

    one_pass = True
    formula = True

    def __init__(self, weights: Array, probs: Array) -> None:
        self.log_weights = laws("weights", weights, ("c",)).log()
        self.probs = laws("probs", probs, ("c", "n", "q"))
        components, self.length, self.vocab_size = self.probs.shape
        if len(self.log_weights) != components:
            raise InputError(f"weights must have one entry for each of the {components} components of probs")
        # A hidden token, -1, reads the last column: no evidence.
        self.evidence = torch.nn.functional.pad(self.probs.log(), (0, 1))  # (c, n, q + 1)
        self.bytes_per_query = 8 * self.length * (2 * components + self.vocab_size)

    @classmethod
    def random(cls, n: int, components: int = 4, q: int = 2, seed: int = 0) -> MixtureOfProducts:
        """Equal weights, marginals drawn uniformly from the simplex."""
        c = whole("components", components, 1)
        probs = random_laws((c, whole("n", n, 1), whole("q", q, 1)), seeded(seed))
        return cls(torch.full((c,), 1 / c, dtype=torch.float64), probs)

    def rows(self, tokens: Tensor) -> Tensor:
        posterior = self._posterior(self._log_evidence(tokens))
        return (posterior @ self.probs.flatten(1)).view(-1, self.length, self.vocab_size).log()

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return self._average(self._posterior(self._log_evidence(tokens))[context], position)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        answer = torch.empty(len(row), self.vocab_size, dtype=torch.float64)
        for part in stretches(tokens, rank, row, prefix, position):
            gained = running(self.evidence[:, part.window, part.drawn])  # (c, r, w) -> (c, r, w + 1)
            posterior = self._posterior(self._log_evidence(part.base)[:, None] + gained.permute(1, 2, 0))
            answer[part.cells] = self._average(posterior[part.row, part.depth], position[part.cells])
        return answer

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        return self._log_evidence(tokens).isfinite().any(1)

    def _log_evidence(self, tokens: Tensor) -> Tensor:
        """Log of weight times probability of the known part, for each component: (m, n) -> (m, c)."""
        return self.log_weights + self.evidence[:, torch.arange(self.length), tokens].sum(2).T

    def _posterior(self, log_evidence: Tensor) -> Tensor:
        """(..., c) -> (..., c). Impossible evidence says nothing: the prior."""
        impossible = (log_evidence == -torch.inf).all(-1, keepdim=True)
        return torch.where(impossible, self.log_weights, log_evidence).softmax(-1)

    def _average(self, posterior: Tensor, position: Tensor) -> Tensor:
        """(p, c), (p,) -> (p, q)."""
        return torch.einsum("pc,cpq->pq", posterior, self.probs[:, position]).log()


@final
class PolyaUrns(TokenOracle):
    """Consecutive blocks of positions, each the draws from its own Polya urn (Eggenberger and Polya, 1923).

    An urn starts with `concentration` balls of each of the q colours; every ball drawn goes back with one more of
    its colour. So P(X_i = v | X_S) = (concentration + #{j in S, same block: x_j = v}) / (q concentration + #known).
    """

    one_pass = True
    formula = True

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
