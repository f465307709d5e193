"""Perfect matchings of planar graphs, counted by Kasteleyn's method (1967) and sampled exactly."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from drawahead.counting.matchings.components import Component, SeparatorPart
from drawahead.counting.matchings.kasteleyn import KasteleynMatrix, graphs
from drawahead.counting.matchings.partners import UNEVEN, Array, Partners
from drawahead.counting.matchings.separators import Node, lattice_cut, on_lattice, planar_cut, separator_tree
from drawahead.errors import InputError
from drawahead.oracles.needs import of_matching
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.samplers.separated import Settled

if TYPE_CHECKING:
    import networkx

    from drawahead.show.views import TokenView

LEAF = 128
"""Pieces of so many vertices are not cut any further: more levels would take more rounds."""
CUTS = 5
"""A separator is a cut, the cuts of its two sides, and so on for so many levels; for 2 it is a cross, on a square."""


@final
class PlanarMatching(TokenOracle):
    """Perfect matchings of a planar graph, with probability proportional to the product of their edges' weights.

    `graph` is a networkx graph; `weight` names the edge attribute that holds weights (1 where there is none). Position
    i is vertex i, in the order of the graph; its token says which of its neighbours it is matched to: `neighbours[i]`
    lists their numbers. Each known position deletes two vertices, which updates one inverse matrix. Rounding
    changes the distribution by no more than about 1e-10 per draw; weights that are too uneven for that are refused.

    `drawahead.samplers.Separated` draws in about n^(1/4) rounds, by `pieces`.
    """

    one_pass = True

    def __init__(self, graph: networkx.Graph, weight: str = "weight") -> None:
        self.nodes: list[Any] = list(_checked(graph))
        self.graph = _numbered(graph, self.nodes, weight)
        self.length = len(self.nodes)
        self.neighbours: list[list[int]] = [sorted(self.graph[v]) for v in range(self.length)]
        self.vocab_size = max(map(len, self.neighbours))
        two_colours = graphs().is_bipartite(self.graph)
        of_matching(self.length, two_colours=two_colours).check(f"a graph with {self.length} vertices")
        self.matrix = KasteleynMatrix.of(self.graph)
        whole = np.arange(self.length)
        slots, live = self.matrix.slots(whole, whole), np.ones((1, self.length), dtype=bool)
        fresh = self.matrix.inverse(whole)
        if fresh is None:
            raise InputError(f"the graph has no perfect matching: {_shortage(self.graph)}")
        self._inverse = fresh[None]

        def renew(state: int, gone: Array) -> Array | None:
            return self.matrix.inverse_within(np.flatnonzero(~gone), whole)

        self._partners = Partners(slots, self._inverse, live, renew)
        self.bytes_per_query = self._partners.bytes_per_query

    def view(self) -> TokenView:
        from drawahead.counting.views import Subgraphs, Tilings

        return Tilings(self) if self.on_squares else Subgraphs(self)

    def rows(self, tokens: Tensor) -> Tensor:
        return self._partners.rows(_with_state(tokens))[:, :-1]

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        rank = torch.nn.functional.pad(rank, (0, 1), value=-1)
        return self._partners.chain_rows(_with_state(tokens), rank, row, prefix, position)

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        return self._partners.possible(_with_state(tokens))

    def log_partition_function(self) -> float:
        """The logarithm of the sum, over all perfect matchings, of the product of their weights."""
        return self.matrix.log_determinant() / (2 if self.matrix.dark is None else 1) - self.matrix.log_scale

    def partition_function(self) -> float:
        """The sum itself: without weights, the number of perfect matchings."""
        return math.exp(self.log_partition_function())

    def edge_probabilities(self) -> dict[tuple[Any, Any], float]:
        """How likely each edge is in the matching."""
        law = self.rows(torch.full((1, self.length), HIDDEN))[0].exp()
        pairs = [(v, i, w) for v, others in enumerate(self.neighbours) for i, w in enumerate(others) if v < w]
        return {(self.nodes[v], self.nodes[w]): float(law[v, i]) for v, i, w in pairs}

    def partners(self, samples: Tensor) -> Tensor:
        """The number of each vertex's partner: tokens (m, n) -> (m, n)."""
        if samples.dim() != 2 or samples.shape[1] != self.length:
            raise InputError(f"samples must be tokens of shape (m, {self.length}), not {tuple(samples.shape)}")
        if samples.is_floating_point() or bool(((samples < 0) | (samples >= self._degrees)).any()):
            raise InputError("samples must be tokens, below the number of neighbours of their vertex")
        return torch.from_numpy(self.matrix.neighbour)[torch.arange(self.length), samples]

    def matchings(self, samples: Tensor) -> list[set[tuple[Any, Any]]]:
        """Samples (m, n) as sets of edges of the graph."""
        return [{edge for edge, _ in self.edges_of(sample)} for sample in samples]

    def edges_of(self, sample: Tensor) -> list[tuple[tuple[Any, Any], list[int]]]:
        """The edges of one sample (n,), each with the positions that tell of it: those of its two ends."""
        pairs = enumerate(self.partners(sample[None])[0].tolist())
        return [((self.nodes[v], self.nodes[w]), [v, w]) for v, w in pairs if v < w]

    @cached_property
    def _degrees(self) -> Tensor:
        """How many neighbours each vertex has (n,)."""
        return torch.tensor([len(others) for others in self.neighbours])

    @cached_property
    def separators(self) -> Node:
        """The tree of pieces that a matching falls into."""
        cut = lattice_cut(self.nodes) if self.on_squares else planar_cut
        return separator_tree(self.graph, cut, LEAF, CUTS)

    @cached_property
    def _root(self) -> SeparatorPart:
        return SeparatorPart(self.matrix, self.separators)

    def pieces(self, tokens: Tensor) -> Settled:
        """The whole graph, less what `tokens` (rows, n) show; see `drawahead.samplers.separated`."""
        rows, n = tokens.shape
        inverse = np.broadcast_to(self._inverse, (rows, *self._inverse.shape[1:]))
        whole = Component(self._root, inverse, np.ones((rows, n), dtype=bool))
        if bool((tokens == HIDDEN).all()):
            none = torch.zeros(0, dtype=torch.int64)
            return Settled(none, none, none, [whole])
        settled = whole.without(np.arange(rows), np.arange(n), tokens.numpy(), [self._root])
        new = tokens[settled.row, settled.position] == HIDDEN
        return Settled(settled.row[new], settled.position[new], settled.token[new], settled.pieces)

    @cached_property
    def on_squares(self) -> bool:
        """Whether vertices are squares (row, column), each edge between two that touch."""
        if not on_lattice(self.nodes):
            return False
        ends = np.array([(self.nodes[u], self.nodes[v]) for u, v in self.graph.edges])  # (edges, 2, 2)
        return bool((np.abs(ends[:, 0] - ends[:, 1]).sum(1) == 1).all())


def _with_state(tokens: Tensor) -> Tensor:
    return torch.nn.functional.pad(tokens, (0, 1))


def _checked(graph: networkx.Graph) -> networkx.Graph:
    if graph.is_directed() or graph.is_multigraph():
        raise InputError(
            f"graph must be an undirected networkx.Graph without parallel edges, not {type(graph).__name__}"
        )
    if not len(graph):
        raise InputError("the graph must have vertices: there is nothing to match")
    loops = list(graphs().selfloop_edges(graph))
    if loops:
        raise InputError(f"vertex {loops[0][0]!r} has an edge to itself, which no matching can use: remove it")
    alone = [v for v, degree in graph.degree if not degree]
    if alone:
        raise InputError(f"the graph has no perfect matching: vertex {alone[0]!r} has no edge")
    return graph


def _numbered(graph: networkx.Graph, nodes: list[Any], weight: str) -> networkx.Graph:
    """The same graph on 0 ... n-1, its nodes with their attributes, every edge with a "weight"."""
    number = {node: i for i, node in enumerate(nodes)}
    numbered = graphs().Graph()
    numbered.add_nodes_from((i, graph.nodes[node]) for i, node in enumerate(nodes))
    for u, v, value in graph.edges(data=weight, default=1.0):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise InputError(f"the weight of edge {u!r} - {v!r} must be a positive number, not {value!r}")
        numbered.add_edge(number[u], number[v], weight=float(value))
    return numbered


def _shortage(graph: networkx.Graph) -> str:
    """Why there is none."""
    n = len(graph)
    if n % 2:
        return f"it has an odd number of vertices, {n}"
    if n > 2000:
        return "its Kasteleyn matrix has no inverse"
    best = len(graphs().max_weight_matching(graph, maxcardinality=True, weight=None))
    if 2 * best == n:
        raise InputError(UNEVEN)
    return f"at most {2 * best} of its {n} vertices can be matched"
