"""Any distribution small enough to be written down."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import seeded
from drawahead.validate import Array, copied, laws, whole

MAX_ATOMS = 1 << 16


@final
class Table(TokenOracle):
    """P(x) = probs[x_1, ..., x_n], a tensor of shape (q, ..., q) with at most 2^16 atoms."""

    formula = True

    def __init__(self, probs: Array) -> None:
        given = copied("probs", probs)
        if given.ndim == 0 or len(set(given.shape)) != 1:
            raise InputError(f"probs must have one axis of size q for each position, not shape {tuple(given.shape)}")
        _check_atoms(given.ndim, given.shape[0])
        joint = laws("probs", given, ("q",) * given.ndim, sums_over=given.ndim)
        self.length, self.vocab_size = given.ndim, given.shape[0]
        self.joint = joint.flatten()  # (q^n,)
        self.bytes_per_query = 8 * (2 * joint.numel() + 3 * self.length * self.vocab_size)

    @classmethod
    def random(cls, n: int, q: int = 2, seed: int = 0) -> Table:
        """A joint distribution drawn uniformly from the simplex."""
        n, q = whole("n", n, 1), whole("q", q, 1)
        _check_atoms(n, q)
        return cls(random_laws((q**n,), seeded(seed)).view((q,) * n))

    def rows(self, tokens: Tensor) -> Tensor:
        weight = self._consistent(tokens)
        mass = torch.empty(*tokens.shape, self.vocab_size, dtype=torch.float64)
        for i in range(self.length):
            mass[:, i] = self._axis(weight, i).sum((1, 3))
        mass[mass.sum(2) == 0] = 1  # impossible evidence: any law will do
        return (mass / mass.sum(2, keepdim=True)).log()

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        return self._consistent(tokens).sum(1) > 0

    def _consistent(self, tokens: Tensor) -> Tensor:
        """The joint law with the atoms that contradict the known part struck out: (m, n) -> (m, q^n)."""
        allowed = (tokens == HIDDEN)[..., None] | (tokens[..., None] == torch.arange(self.vocab_size))  # (m, n, q)
        weight = self.joint.repeat(len(tokens), 1)
        for i in range(self.length):
            self._axis(weight, i).mul_(allowed[:, i, None, :, None])
        return weight

    def _axis(self, weight: Tensor, i: int) -> Tensor:
        """A view with the axis of position i apart: (m, q^n) -> (m, q^i, q, q^(n-1-i))."""
        q = self.vocab_size
        return weight.view(len(weight), q**i, q, q ** (self.length - 1 - i))


def _check_atoms(n: int, q: int) -> None:
    if q > 1 and n * math.log2(q) > math.log2(MAX_ATOMS):  # no number of 10^18 digits is worked out
        raise InputError(f"probs would have {q}^{n} atoms, more than {MAX_ATOMS}: use fewer positions or tokens")


def random_laws(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniformly random laws on the last axis (Dirichlet with all parameters 1)."""
    mass = torch.empty(shape, dtype=torch.float64).exponential_(generator=generator)
    return mass / mass.sum(-1, keepdim=True)
