"""Kasteleyn orientations of planar graphs (Kasteleyn 1967, Temperley and Fisher 1961).

Orient the edges so that every face but one has an odd number of edges that run clockwise around it. Then all terms of
the Pfaffian of the skew-symmetric weight matrix have the same sign, and it counts perfect matchings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from drawahead.errors import DrawaheadError, InputError
from drawahead.targets._partners import WRONG, Array, Slots

if TYPE_CHECKING:
    import networkx


_BALANCING = 2000  # rounds at most


class GraphsError(DrawaheadError):
    """A graph was asked for without networkx."""


def graphs() -> Any:
    """networkx, or an error that says how to get it."""
    try:
        import networkx
    except ImportError:
        raise GraphsError("graphs need networkx: pip install 'drawahead[graphs]'") from None
    return networkx


def orientation(graph: networkx.Graph) -> dict[tuple[int, int], int]:
    """+1 for (u, v) if the edge runs from u to v, else -1: for both directions of every edge.

    `graph` is simple and planar; vertices are integers. In a spanning tree the edges run as they like. Every other
    edge separates two faces, and these edges join the faces into a tree too: from its leaves on, each face still has
    one free edge, which puts its parity right.
    """
    planar, embedding = graphs().check_planarity(graph)
    if not planar:
        raise InputError("the graph must be planar: its matchings cannot be counted by Kasteleyn's method")
    sign: dict[tuple[int, int], int] = {}
    for component in graphs().connected_components(graph):
        _orient(embedding, min(component), sign)
    return sign


def _orient(embedding: networkx.PlanarEmbedding, root: int, sign: dict[tuple[int, int], int]) -> None:
    tree, half_edges = _spanning_tree(embedding, root)
    for u, v in tree:
        sign[u, v], sign[v, u] = 1, -1
    face: dict[tuple[int, int], int] = {}
    faces: list[list[tuple[int, int]]] = []
    for edge in half_edges:
        if edge not in face:
            walk = embedding.traverse_face(*edge)
            faces.append(list(zip(walk, walk[1:] + walk[:1], strict=True)))
            face.update(dict.fromkeys(faces[-1], len(faces) - 1))
    # Depth first through the tree of faces, from any one of them, which is left as it comes.
    parent: list[tuple[int, int] | None] = [None] * len(faces)
    order, stack, seen = [], [0], {0} if faces else set()
    while stack and faces:
        here = stack.pop()
        order.append(here)
        for u, v in faces[here]:
            beyond = face[v, u]
            if (u, v) not in sign and beyond not in seen:
                seen.add(beyond)
                parent[beyond] = (v, u)
                stack.append(beyond)
    for here in reversed(order[1:]):
        free = parent[here]
        assert free is not None
        clockwise = sum(sign[edge] == 1 for edge in faces[here] if edge != free)
        sign[free] = 1 if clockwise % 2 == 0 else -1
        sign[free[1], free[0]] = -sign[free]


def _spanning_tree(
    embedding: networkx.PlanarEmbedding, root: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The edges of a tree from `root`, and all half-edges of its component."""
    tree, half_edges, stack, seen = [], [], [root], {root}
    while stack:
        u = stack.pop()
        for v in embedding.neighbors_cw_order(u):
            half_edges.append((u, v))
            if v not in seen:
                seen.add(v)
                tree.append((u, v))
                stack.append(v)
    return tree, half_edges


@final
@dataclass(frozen=True)
class KasteleynMatrix:
    """The matrix K of a weighted graph, and inverses M of its parts: P(v matched to w) = K_vw M_wv.

    Where the graph has two colours, K is kept as its rows of dark and columns of light vertices. So M has a line for
    every light vertex and a column for every dark one; otherwise it is skew and has both for every vertex.
    """

    neighbour: Array  # (n, q), -1 where a vertex has fewer
    factor: Array  # (n, q) the entry of K that goes with the entry of M
    dark: Array | None  # (n,)
    log_scale: float
    """The logarithm of the factor by which the sum over matchings was changed."""

    @staticmethod
    def of(graph: networkx.Graph) -> KasteleynMatrix:
        """Vertices are 0 ... n-1, edges have a "weight"."""
        n, q = len(graph), max(degree for _, degree in graph.degree)
        dark = None
        if graphs().is_bipartite(graph):
            colour = graphs().bipartite.color(graph)
            dark = np.array([colour[v] == 0 for v in range(n)])
        sign = orientation(graph)
        neighbour, factor = np.full((n, q), -1), np.zeros((n, q))
        for v in range(n):
            for i, w in enumerate(sorted(graph[v])):
                neighbour[v, i] = w
                towards = (v, w) if dark is None or dark[v] else (w, v)
                factor[v, i] = sign[towards] * graph[v][w]["weight"]
        scale = _balanced(neighbour, np.abs(factor))
        return KasteleynMatrix(neighbour, factor * scale[:, None] * scale[neighbour], dark, float(np.log(scale).sum()))

    def lines(self, vertices: Array) -> Array:
        return vertices if self.dark is None else vertices[~self.dark[vertices]]

    def columns(self, vertices: Array) -> Array:
        return vertices if self.dark is None else vertices[self.dark[vertices]]

    def inverse(self, vertices: Array) -> tuple[Array, float] | None:
        """M of a part, and the logarithm of the determinant of K. None if there is no inverse."""
        lines, columns = self.lines(vertices), self.columns(vertices)
        if len(lines) != len(columns):
            return None
        matrix = np.zeros((len(columns), len(lines)))
        neighbour, factor = self.neighbour[columns], self.factor[columns]
        v, i = np.isin(neighbour, lines).nonzero()
        matrix[v, np.searchsorted(lines, neighbour[v, i])] = factor[v, i]
        try:
            return np.linalg.inv(matrix), float(np.linalg.slogdet(matrix).logabsdet)
        except np.linalg.LinAlgError:
            return None

    def slots(self, asked: Array, within: Array) -> Slots:
        """Where to find the laws of the vertices `asked`, in M of the vertices `within`. Both are sorted."""
        neighbour = self.neighbour[asked]
        inside = np.isin(neighbour, within)
        neighbour = np.where(inside, neighbour, asked[:, None])  # any vertex will do as padding
        line, column = neighbour, np.broadcast_to(asked[:, None], neighbour.shape)
        if self.dark is not None:
            dark = self.dark[asked][:, None]
            line, column = np.where(dark, line, asked[:, None]), np.where(dark, column, neighbour)
        lines, columns = self.lines(within), self.columns(within)
        return Slots(
            np.searchsorted(within, asked),
            np.where(inside, np.searchsorted(within, neighbour), -1),
            np.where(inside, np.searchsorted(lines, line), 0),
            np.where(inside, np.searchsorted(columns, column), 0),
            np.where(inside, self.factor[asked], 0.0),
            self.dark is None,
        )


def _balanced(neighbour: Array, weight: Array) -> Array:
    """A factor for every vertex, such that the weights of its edges, each times both its ends' factors, sum to one.

    That changes the weight of every perfect matching alike, and so no law. But where only few matchings go, as in the
    corners of an Aztec diamond, the inverse of the matrix itself would have entries of exponential size.
    """
    scale: Array = np.ones(len(neighbour))
    for _ in range(_BALANCING):
        total = scale * (weight * scale[neighbour]).sum(1)
        scale = np.clip(scale / np.sqrt(total), 1e-100, 1e100)
        if np.abs(total - 1).max() < 1e-3:
            break
    return scale


def sound(slots: Slots, inverse: Array, live: Array) -> Array:
    """Whether the laws of all vertices that are live (states, t) are laws, in each of the states: (states,) bool."""
    open_slot = (slots.neighbour >= 0) & live[:, slots.neighbour]  # (states, t, q)
    law = np.where(open_slot, slots.factor * inverse[:, slots.line, slots.column], 0.0)
    fits = (law >= -WRONG).all(2) & (np.abs(law.sum(2) - 1) <= WRONG)
    result: Array = (fits | ~live).all(1)
    return result
