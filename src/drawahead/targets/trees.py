"""Ising models on trees, by belief propagation (Pearl, 1988): exact, one pass up and one pass down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import seeded
from drawahead.validate import Array, copied, whole, wholes


@final
class TreeIsing(TokenOracle):
    """P(s) proportional to exp(sum_i coupling_i s_i s_parent(i) + sum_i field_i s_i), s = 2x - 1 in {-1, +1}.

    `parents[i]` is an earlier position, or -1 for a root; several roots make a forest. `coupling` and `field` are
    one number or one for each position (a root's coupling is not used). A message is the effective field that one
    end of an edge exerts on the other; all messages of a depth are computed together.
    """

    formula = True

    def __init__(self, parents: Sequence[int], coupling: Array = 0.5, field: Array = 0.0) -> None:
        parents = wholes("parents", parents)
        n = whole("the length of parents", len(parents), 1)
        if any(not -1 <= parent < i for i, parent in enumerate(parents)):
            raise InputError("parents must name earlier positions: -1 <= parents[i] < i; renumber the tree from a root")
        self.length, self.vocab_size = n, 2
        self.parents = torch.tensor(list(parents))
        self.coupling = _one_each(coupling, n, "coupling")[:, None]  # (n, 1)
        self.field = _one_each(field, n, "field")[:, None]
        depth = [0] * n
        for i, parent in enumerate(parents):
            depth[i] = depth[parent] + 1 if parent >= 0 else 0
        by_depth: list[list[int]] = [[] for _ in range(max(depth) + 1)]
        for i, level in enumerate(depth):
            by_depth[level].append(i)
        self.levels = [torch.tensor(nodes) for nodes in by_depth]
        self.bytes_per_query = 8 * n * 10

    @classmethod
    def random(cls, n: int, coupling: float = 0.5, seed: int = 0, field: float = 0.0) -> TreeIsing:
        """A random recursive tree: each position hangs on a uniformly chosen earlier one. Its depth is O(log n)."""
        pick = torch.rand(whole("n", n, 1), dtype=torch.float64, generator=seeded(seed))
        return cls([-1, *(pick * torch.arange(n)).long().tolist()[1:]], coupling, field)

    @classmethod
    def path(cls, n: int, coupling: float = 0.5, field: float = 0.0) -> TreeIsing:
        """The chain 1 - 2 - ... - n. (It has n levels: for long ones `MarkovChain` is faster.)"""
        return cls(list(range(-1, whole("n", n, 1) - 1)), coupling, field)

    def rows(self, tokens: Tensor) -> Tensor:
        spin = tokens.T.double() * 2 - 1  # (n, m): a level is a set of whole lines
        known = tokens.T != HIDDEN
        local = self.field.expand_as(spin).clone()  # the field on i from its subtree
        upward = torch.zeros_like(spin)  # the field of i on its parent
        for nodes in reversed(self.levels[1:]):
            upward[nodes] = _message(self.coupling[nodes], local[nodes], spin[nodes], known[nodes])
            local.index_add_(0, self.parents[nodes], upward[nodes])
        total = local  # ... and now from the rest of the tree too
        for nodes in self.levels[1:]:
            parents = self.parents[nodes]
            without = total[parents] - upward[nodes]  # the parent's field, were i not there
            total[nodes] += _message(self.coupling[nodes], without, spin[parents], known[parents])
        return torch.stack([logsigmoid(-2 * total.T), logsigmoid(2 * total.T)], dim=2)  # (m, n, 2)


def _message(coupling: Tensor, field: Tensor, spin: Tensor, known: Tensor) -> Tensor:
    """The field that a spin exerts across an edge: J s if it is known, else atanh(tanh J tanh h)."""
    across = (_log_cosh(coupling + field) - _log_cosh(coupling - field)) / 2  # the same, without overflow
    return torch.where(known, coupling * spin, across)


def _log_cosh(x: Tensor) -> Tensor:
    """log(2 cosh x)."""
    return x.abs() + torch.log1p(torch.exp(-2 * x.abs()))


def _one_each(values: Array, n: int, name: str) -> Tensor:
    tensor = copied(name, values)
    if tensor.shape not in ((), (n,)):
        raise InputError(f"{name} must be one number or {n} of them, one for each position, not {tuple(tensor.shape)}")
    return tensor.expand(n)
