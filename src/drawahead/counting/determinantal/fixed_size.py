"""Determinantal point processes of a fixed size, by elementary symmetric polynomials (Kulesza and Taskar, 2011).

Among the subsets of k items, P(A) is proportional to det L_A. Items that are out leave a smaller matrix, and items that
are in leave a Schur complement; the rest has again such a distribution, of fewer items. With the
eigenvalues l and eigenvectors v of its matrix, item i is in with probability

    sum_m v_im^2 l_m e_{k-1}(l without l_m) / e_k(l),

where e_k sums the products of all k eigenvalues. Nothing is subtracted in it, so no digits are lost.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np
import torch
from torch import Tensor

from drawahead.counting.determinantal.elimination import CERTAIN
from drawahead.counting.determinantal.kernels import law_of_chances, spectrum, subsets
from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import seeded
from drawahead.validate import Array, whole

_UNEVEN = 1e-6  # the k-th largest eigenvalue, over the largest: rounding errors grow by its inverse
_ROUNDING = 1e-14
_ELEMENTS = 1 << 21


@final
class KDPP(TokenOracle):
    """Subsets of exactly k of n items, P(A) proportional to det L_A: items that are alike in L seldom appear together.

    `L` (n, n) is symmetric, with no negative eigenvalue. One token per item: 1 is in, 0 is out. Each question is an
    eigendecomposition of its own, in float64. Probabilities within 1e-12 of 0 or 1 count as 0 or 1, and where the k-th
    eigenvalue is below a hundredth of the largest, within 1e-14 times their ratio; matrices where that exceeds a
    million are refused.
    """

    formula = True
    vocab_size = 2

    def __init__(self, L: Array, k: int) -> None:
        values, vectors = spectrum(L, "L")
        self.length, self.k = len(values), whole("k", k, 1, len(values))
        scale = float(values[-1])
        rank = int((values > CERTAIN * scale).sum()) if scale else 0
        if self.k > rank:
            raise InputError(f"L has rank {rank}, so no subset of {self.k} items has a positive weight; lower k")
        kth = float(values[-self.k]) / scale
        if kth < _UNEVEN:
            raise InputError(
                f"the eigenvalues of L are too uneven for k = {self.k}: the k-th is {kth:.3g} of the largest, and from "
                f"{_UNEVEN:g} on float64 has too few digits; ask for a lower k, or add a multiple of the identity to L"
            )
        self.matrix = (vectors * (values / scale)) @ vectors.T  # the law does not depend on the scale
        self.bytes_per_query = 8 * self.length * (4 * self.length + 4 * self.k)
        self._log_total = float(symmetric(_logs(values / scale)[None], self.k)[0, -1, -1])
        self.log_total = self._log_total + self.k * math.log(scale)

    log_total: float
    """The log of the sum of det L_A over all subsets of k items."""

    @classmethod
    def random(cls, n: int, k: int, seed: int = 0) -> KDPP:
        """L is the Gram matrix of n random vectors of length about 1 in n dimensions."""
        n = whole("n", n, 1)
        vectors = torch.randn(n, n, dtype=torch.float64, generator=seeded(seed)) / math.sqrt(n)
        return cls(vectors @ vectors.T, k)

    @property
    def marginals(self) -> Tensor:
        """The probability that each item is in (n,)."""
        return self._chances(torch.full((1, self.length), HIDDEN))[0][0]

    def rows(self, tokens: Tensor) -> Tensor:
        parts = [torch.zeros(0, self.length, dtype=torch.float64)]
        parts += [self._chances(some)[0] for some in tokens.split(max(1, _ELEMENTS // self.length**2))]
        return law_of_chances(torch.cat(parts))

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        return self._chances(tokens)[1]

    def log_prob(self, samples: Tensor) -> Tensor:
        """The log-probability of each of the subsets (m, n), float64."""
        samples = subsets(samples, self.length)
        weight = torch.where(samples.sum(1) == self.k, self._left(samples)[1], -torch.inf)
        return weight - self._log_total

    def items(self, samples: Tensor) -> Tensor:
        """The numbers of the items that are in, for each sample (m, k)."""
        samples = subsets(samples, self.length)
        if bool((samples.sum(1) != self.k).any()):
            raise InputError(f"samples must have {self.k} items each")
        return samples.nonzero()[:, 1].view(len(samples), self.k)

    def _chances(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The chance that each hidden item is in (m, n), and whether the known tokens are possible at all (m,)."""
        matrix, weight = self._left(tokens)
        hidden = tokens == HIDDEN
        wanted = self.k - (tokens == 1).sum(1)  # may be negative, if what is known cannot be
        # Known items apart, as eigenvectors of their own: with many equal eigenvalues some libraries do not converge.
        apart = torch.arange(1, self.length + 1, dtype=torch.float64) / self.length
        values, vectors = _eigh(matrix - torch.where(hidden, 0.0, apart).diag_embed())
        share = _shares(_logs(values), wanted.clamp(0, self.k), self.k)  # (m, n): that each eigenvector is in
        chance = (vectors.square() @ share[..., None])[..., 0]
        place = (self.length - wanted.clamp(1, self.length))[:, None]
        kth = values.gather(1, place)[:, 0]  # the eigenvalue that decides what is possible
        enough = (wanted >= 0) & ((wanted == 0) | (kth > CERTAIN)) & (wanted <= hidden.sum(1))
        error = (_ROUNDING / kth.clamp(min=_UNEVEN)).clamp(min=CERTAIN)[:, None]
        chance = torch.where(chance < error, 0.0, torch.where(chance > 1 - error, 1.0, chance))
        chance = torch.where(enough[:, None], chance, 0.5)
        chance = torch.where((wanted <= 0)[:, None], 0.0, chance)  # whatever rounding did: k items are in
        chance = torch.where((wanted >= hidden.sum(1))[:, None] & (wanted > 0)[:, None], 1.0, chance)
        return chance, enough & (weight > -torch.inf)

    def _left(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The matrix of the hidden items (m, n, n), with zeros for the others; and log det L of those that are in (m,).

        Where an item cannot be in beside those before it, the determinant is 0, and so is the matrix: what rounding
        leaves of it means nothing, and would grow from step to step.
        """
        known = tokens != HIDDEN
        chosen = tokens == 1
        matrix = self.matrix.expand(len(tokens), -1, -1).clone()
        most = min(self.k, int(chosen.sum(1).max())) if len(tokens) else 0
        order = (~chosen).long().argsort(dim=1, stable=True)[:, :most]
        row, weight = torch.arange(len(tokens)), torch.zeros(len(tokens), dtype=torch.float64)
        for item in order.T:
            due = chosen[row, item]
            pivot = matrix[row, item, item]
            pivot = torch.where(pivot > CERTAIN, pivot, 0.0)
            weight += torch.where(due, pivot.log(), 0.0)
            column = matrix[row, :, item] * torch.where(due & (weight > -torch.inf), pivot, torch.inf).rsqrt()[:, None]
            matrix -= column[:, :, None] * column[:, None]
        weight = torch.where(chosen.sum(1) > self.k, -torch.inf, weight)
        free = (~known & (weight > -torch.inf)[:, None]).double()
        return matrix * free[:, :, None] * free[:, None], weight


def symmetric(logs: Tensor, k: int) -> Tensor:
    """The logs of e_0 ... e_k of the first 0, 1, ... n of numbers, from their logs: (m, n) -> (m, n + 1, k + 1)."""
    m, n = logs.shape
    found = torch.full((m, n + 1, k + 1), -torch.inf, dtype=torch.float64)
    found[..., 0] = 0
    for i in range(n):
        found[:, i + 1, 1:] = torch.logaddexp(found[:, i, 1:], found[:, i, :-1] + logs[:, i, None])
    return found


def _shares(logs: Tensor, wanted: Tensor, k: int) -> Tensor:
    """l_m e_{w-1}(l without l_m) / e_w(l) of each of the numbers l (m, n), w = wanted (m,); 0 where w is 0."""
    below = symmetric(logs, k)[:, :-1]  # of those before m
    above = symmetric(logs.flip(1), k).flip(1)[:, 1:]  # of those after it
    rest = wanted[:, None] - 1 - torch.arange(k)  # how many come from after it, if j come from before
    other = above.gather(2, rest.clamp(min=0)[:, None].expand(-1, logs.shape[1], -1))
    both = torch.where((rest >= 0)[:, None], below[..., :k] + other, -torch.inf).logsumexp(2) + logs
    total = both.logsumexp(1, keepdim=True) - wanted.clamp(min=1).double().log()[:, None]  # each set is counted w times
    return (both - total).exp().nan_to_num(nan=0.0)


def _eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices (m, n, n)."""
    try:
        values, vectors = torch.linalg.eigh(matrix)
    except RuntimeError as error:
        if "converge" not in str(error):
            raise
        # torch and numpy have different libraries for it.
        values, vectors = map(torch.from_numpy, np.linalg.eigh(matrix.numpy()))
    return values, vectors


def _logs(values: Tensor) -> Tensor:
    """The logs of eigenvalues; what rounding left of zeros counts as zero."""
    return torch.where(values > CERTAIN, values, 0.0).log()
