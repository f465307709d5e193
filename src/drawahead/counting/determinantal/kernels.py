"""Determinantal distributions: random subsets and random spanning trees, by elimination in the marginal kernel.

A distribution of subsets of n items is determinantal if P(all of A are in) = det K_A for one matrix K, its marginal
kernel (Macchi, 1975). One token per item: 1 is in, 0 is out. Revealing item i, which is in with probability p = K_ii,
leaves such a distribution with the kernel K - K_:i K_i: / p if it is in, and K + K_:i K_i: / (1 - p) if it is out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.counting.determinantal.elimination import CERTAIN, eliminate
from drawahead.counting.matchings.kasteleyn import graphs
from drawahead.errors import InputError
from drawahead.oracles.cells import running
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import seeded
from drawahead.validate import Array, copied, whole

if TYPE_CHECKING:
    import networkx

    from drawahead.show import View

_TOLERANCE = 1e-6  # of symmetry and eigenvalues, relative to the largest entry: matrices may come in float32
_ELEMENTS = 1 << 22


class Determinantal(TokenOracle):
    """The distribution with the marginal kernel `kernel` (n, n): symmetric, with eigenvalues from 0 to 1.

    One elimination in the order of a path gives the answers of all its prefixes: after k steps the diagonal holds the
    chances of all items given the first k. A guess may hold an item against all odds; it is then passed over, as if
    it had not been revealed.
    """

    one_pass = True
    vocab_size = 2

    def __init__(self, kernel: Tensor) -> None:
        self.kernel = kernel
        self.length = len(kernel)
        self.bytes_per_query = 8 * 6 * self.length**2

    @property
    def marginals(self) -> Tensor:
        """The probability that each item is in (n,)."""
        return self.kernel.diagonal().clone()

    def rows(self, tokens: Tensor) -> Tensor:
        order = (tokens == HIDDEN).long().argsort(dim=1, stable=True)  # known items first
        known = (tokens != HIDDEN).sum(1)
        chance = self._chances(tokens, order, int(known.max()) if len(known) else 0)
        last = chance[torch.arange(len(tokens)), known]  # (m, n)
        return law_of_chances(torch.empty_like(last).scatter_(1, order, last))

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        if not len(row):
            return torch.zeros(0, 2, dtype=torch.float64)
        order = rank.argsort(dim=1, stable=True)  # evidence first
        evidence = (rank < 0).sum(1)[row]
        depth, place = evidence + prefix, evidence + rank[row, position]
        steps, reach = int(depth.max()), int(torch.maximum(depth, place + 1).max())
        return law_of_chances(self._chances(tokens, order[:, :reach], steps)[row, depth, place])

    def remember(self, tokens: Tensor, rank: Tensor) -> dict[str, Tensor]:
        """The scaled columns of what is revealed, in the order of each path, evidence first."""
        r, n = tokens.shape
        first, order = (rank < 0).sum(1), rank.argsort(dim=1, stable=True)
        kept = {
            "first": first[:, None],
            "order": order,
            "place": order.argsort(dim=1),
            "sign": torch.where(tokens.gather(1, order) == 1, 1.0, -1.0).double(),
            "column": torch.zeros(r, n, n, dtype=torch.float64),
            "least": torch.ones(r, n + 1, dtype=torch.float64),
        }
        self._reveal(kept, 0, int(first.max()))
        return kept

    def recalled_rows(
        self, kept: dict[str, Tensor], token: Tensor, place: Tensor, step: Tensor, prefix: Tensor, position: Tensor
    ) -> Tensor:
        first, (r, n) = kept["first"], kept["order"].shape
        new = torch.where(place < n, first + step, n)  # (r, s); n is padding, for whom there is a spare column
        sign = torch.nn.functional.pad(kept["sign"], (0, 1))
        kept["sign"].copy_(sign.scatter_(1, new, torch.where(token == 1, 1.0, -1.0).double())[:, :n])
        depth, at = first + prefix, kept["place"].gather(1, position)
        # Rows that are further on reveal again what they have: the same numbers.
        self._reveal(kept, int((first + step).min()), int(torch.where(new < n, new + 1, 0).max()))
        low, high = int(at.min()), int(depth.max())
        taken = self._taken(kept["column"][:, :high, low:], kept["sign"][:, :high])
        chance = self.kernel.diagonal()[kept["order"][:, None, low:]] - running(taken.mT).mT
        row = torch.arange(r)[:, None]
        return law_of_chances(_surely(chance[row, depth, at - low], kept["least"][row, depth]))

    def _reveal(self, kept: dict[str, Tensor], low: int, high: int) -> None:
        eliminate(self.kernel, kept["order"], kept["sign"], kept["column"], kept["least"], low, high)

    def log_prob(self, samples: Tensor) -> Tensor:
        """The log-probability of each of the subsets (m, n), float64."""
        return self._log_chance(subsets(samples, self.length))

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        return self._log_chance(tokens) > -torch.inf

    def items(self, samples: Tensor) -> list[Tensor]:
        """The numbers of the items that are in, for each sample."""
        return [row.nonzero()[:, 0] for row in subsets(samples, self.length)]

    def _log_chance(self, tokens: Tensor) -> Tensor:
        """The log-probability of the known part of each sequence (m,)."""
        parts = [torch.zeros(0, dtype=torch.float64)]
        for some in tokens.split(max(1, _ELEMENTS // self.length**2)):
            known = some != HIDDEN
            steps = int(known.sum(1).max())
            order = (~known).long().argsort(dim=1, stable=True)[:, :steps]
            law = law_of_chances(self._chances(some, order, steps)[:, torch.arange(steps), torch.arange(steps)])
            seen = law.gather(2, some.gather(1, order).clamp(min=0)[..., None])[..., 0]  # (m, steps)
            parts.append(torch.where(known.gather(1, order), seen, 0.0).sum(1))
        return torch.cat(parts)

    def _chances(self, tokens: Tensor, order: Tensor, steps: int) -> Tensor:
        """The chance that each item is in, given those before it in the order: (r, steps + 1, k).

        Entry (j, i) is the chance of item order[i] once the first j <= i of the order (r, k) have been revealed.
        """
        taken, least = self._eliminated(tokens.gather(1, order[:, :steps]), order)
        chance = self.kernel.diagonal()[order][:, None] - running(taken.mT).mT
        return _surely(chance, least[..., None])

    def _eliminated(self, drawn: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
        """How much revealing the items `drawn` (r, s), the first of the order (r, k), takes from each chance (r, s, k),
        and the chance of the least likely of the first 0, 1, ... s draws (r, s + 1)."""
        r, steps = drawn.shape
        column = torch.zeros(r, steps, order.shape[1], dtype=torch.float64)
        least = torch.ones(r, steps + 1, dtype=torch.float64)
        sign = torch.where(drawn == 1, 1.0, -1.0).double()
        eliminate(self.kernel, order, sign, column, least, 0, steps)
        return self._taken(column, sign), least

    def _taken(self, column: Tensor, sign: Tensor) -> Tensor:
        """How much revealing items takes from each chance (r, s, k), by their scaled columns and signs."""
        return column.square().mul_(sign[..., None])


def _surely(chance: Tensor, least: Tensor) -> Tensor:
    """Chances that are 0 or 1 but for rounding, after draws of which the least likely had the chance `least`."""
    error = CERTAIN / least
    return torch.where(chance < error, 0.0, torch.where(chance > 1 - error, 1.0, chance))


def subsets(samples: Tensor, length: int) -> Tensor:
    """Samples (m, length) that are subsets."""
    if samples.dim() != 2 or samples.shape[1] != length or not bool(((samples == 0) | (samples == 1)).all()):
        raise InputError(f"samples must be 0 or 1, of shape (m, {length}), not {tuple(samples.shape)}")
    return samples


def law_of_chances(chance: Tensor) -> Tensor:
    """Rows from chances: (...) -> (..., 2)."""
    return torch.stack([torch.log1p(-chance), chance.log()], dim=-1)


@final
class DPP(Determinantal):
    """A determinantal point process: P(A) proportional to det L_A, or P(all of A are in) = det K_A.

    Give one of `L`, symmetric with eigenvalues of at least 0 (as a Gram matrix has), and `K`, symmetric with
    eigenvalues from 0 to 1. Items that are alike in L seldom appear together. Where all eigenvalues of K are 0 or 1,
    every subset has the same size.
    """

    def __init__(self, *, L: Array | None = None, K: Array | None = None) -> None:
        if (L is None) == (K is None):
            raise InputError("give one of L, the likelihood kernel, and K, the marginal kernel")
        if K is not None:
            values, vectors = spectrum(K, "K")
            if bool((values > 1 + _TOLERANCE).any()):
                raise InputError(f"the eigenvalues of K must be at most 1; the largest is {float(values.max()):.9g}")
            values = values.clamp(max=1)
        else:
            assert L is not None
            values, vectors = spectrum(L, "L")
            values = values / (1 + values)
        super().__init__((vectors * values) @ vectors.T)

    @classmethod
    def random(cls, n: int, rank: int | None = None, seed: int = 0) -> DPP:
        """L is the Gram matrix of n random vectors of length about 1 in `rank` dimensions, by default about n / 3."""
        n = whole("n", n, 1)
        d = max(1, n // 3) if rank is None else whole("rank", rank, 1)
        vectors = torch.randn(n, d, dtype=torch.float64, generator=seeded(seed)) / math.sqrt(d)
        return cls(L=vectors @ vectors.T)


def spectrum(matrix: Array, name: str) -> tuple[Tensor, Tensor]:
    """Eigenvalues, none below 0, and eigenvectors of a matrix that has such."""
    square = copied(name, matrix)
    if square.ndim != 2 or square.shape[0] != square.shape[1] or not len(square):
        raise InputError(f"{name} must be a square matrix, not of shape {tuple(square.shape)}")
    tolerance = _TOLERANCE * max(1.0, float(square.abs().max()))
    if bool(((square - square.T).abs() > tolerance).any()):
        worst = float((square - square.T).abs().max())
        raise InputError(f"{name} must be symmetric; it differs from its transpose by {worst:.3g}")
    values, vectors = torch.linalg.eigh((square + square.T) / 2)
    if bool((values < -tolerance).any()):
        raise InputError(f"the eigenvalues of {name} must be at least 0; the smallest is {float(values.min()):.9g}")
    return values.clamp(min=0), vectors


@final
class SpanningTree(Determinantal):
    """A random spanning tree of a networkx graph, with probability proportional to the product of its edges' weights.

    Item i is `edges[i]`: (u, v), or (u, v, key) in a multigraph. The attribute `weight` of an edge is its weight, 1
    where it is missing; weights are positive. Self-loops are in no tree and are left out. The kernel is the
    transfer-current matrix (Burton and Pemantle, 1993), the projection onto the gradients of functions on the nodes.
    """

    def __init__(self, graph: networkx.Graph, weight: str = "weight") -> None:
        if graph.is_directed():
            raise InputError(f"graph must be an undirected networkx graph, not {type(graph).__name__}")
        self.graph = graph.copy()
        named = graph.edges(keys=True) if graph.is_multigraph() else graph.edges()
        self.edges: list[tuple[Hashable, ...]] = [edge for edge in named if edge[0] != edge[1]]
        if not self.edges:
            raise InputError("graph must have an edge between two nodes")
        parts = graphs().number_connected_components(graph)
        if parts > 1:
            raise InputError(f"graph must be connected to have a spanning tree, but it has {parts} components")
        self.weights = copied(f"the attribute {weight!r}", [graph.edges[edge].get(weight, 1.0) for edge in self.edges])
        if bool((self.weights <= 0).any()):
            at = int(self.weights.argmin())
            raise InputError(f"weights must be positive, not {float(self.weights[at]):g} on {self.edges[at]}")
        number = {node: i for i, node in enumerate(graph)}
        ends = torch.tensor([[number[edge[0]], number[edge[1]]] for edge in self.edges])
        # Functions on the nodes that vanish on the last; their differences along the edges, scaled.
        gradient = torch.zeros(len(ends), len(number), dtype=torch.float64)
        gradient.scatter_(1, ends, torch.tensor([-1.0, 1.0], dtype=torch.float64).expand(len(ends), 2))
        basis, triangle = torch.linalg.qr((gradient * self.weights.sqrt()[:, None])[:, :-1])
        self.log_total = 2 * float(triangle.diagonal().abs().log().sum())
        super().__init__(basis @ basis.T)

    log_total: float
    """The log of the weight of all trees together; where all weights are 1, of their number (Kirchhoff, 1847)."""

    @classmethod
    def grid(cls, rows: int, cols: int) -> SpanningTree:
        """Uniform spanning trees of a grid."""
        return cls(graphs().grid_2d_graph(whole("rows", rows, 1), whole("cols", cols, 1)))

    def view(self) -> View:
        from drawahead.counting.views import Subgraphs

        return Subgraphs(self)

    def trees(self, samples: Tensor) -> list[networkx.Graph]:
        """The samples (m, n) as graphs of their own, with the nodes, the keys and the attributes of the graph."""
        chosen = ([self.edges[i] for i in items.tolist()] for items in self.items(samples))
        return [self.graph.edge_subgraph(edges).copy() for edges in chosen]

    def edges_of(self, sample: Tensor) -> list[tuple[tuple[Hashable, Hashable], list[int]]]:
        """The edges of one sample (n,), without keys, each with the position that tells of it."""
        return [((self.edges[i][0], self.edges[i][1]), [i]) for i in self.items(sample[None])[0].tolist()]
