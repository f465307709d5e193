"""Kasteleyn orientations of planar graphs (Kasteleyn 1967, Temperley and Fisher 1961).

Orient the edges so that every face but one has an odd number of edges that run clockwise around it. Then all terms of
the Pfaffian of the skew-symmetric weight matrix have the same sign, and it counts perfect matchings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from drawahead.counting.matchings.partners import Array, Slots
from drawahead.errors import InputError

if TYPE_CHECKING:
    import networkx


ACCURATE = 1e-12
"""How far the laws of a new inverse may be from summing to one, and its two ends of an edge from each other."""
_STRIP = 1 << 15  # entries that are worked on together
_BALANCING = 2000  # rounds at most


def graphs() -> Any:
    """networkx, or an error that says how to get it."""
    try:
        import networkx
    except ImportError:
        raise InputError("graphs need networkx: pip install 'drawahead[graphs]'") from None
    return networkx


Edge = tuple[int, int]


def orientation(graph: networkx.Graph) -> dict[Edge, int]:
    """+1 for (u, v) if the edge runs from u to v, else -1: for both directions of every edge.

    `graph` is simple and planar; vertices are integers. In a spanning tree the edges run as they like. Every other
    edge separates two faces, and these edges join the faces into a tree too: from its leaves on, each face still has
    one free edge, which puts its parity right.
    """
    planar, embedding = graphs().check_planarity(graph)
    if not planar:
        raise InputError("the graph must be planar: its matchings cannot be counted by Kasteleyn's method")
    sign: dict[Edge, int] = {}
    for component in graphs().connected_components(graph):
        for u, v in graphs().bfs_edges(graph, min(component)):
            sign[u, v], sign[v, u] = 1, -1
    faces, _, link = face_tree(embedding, lambda u, v: (u, v) in sign)
    for face in reversed(link):
        u, v = link[face]
        clockwise = sum(sign[edge] == 1 for edge in faces[face] if edge != (u, v))
        sign[u, v] = 1 if clockwise % 2 == 0 else -1
        sign[v, u] = -sign[u, v]
    return sign


def face_tree(
    embedding: networkx.PlanarEmbedding, walled: Callable[[int, int], bool]
) -> tuple[list[list[Edge]], dict[Edge, int], dict[int, Edge]]:
    """The faces as the half-edges around them, the face of every half-edge, and a tree of faces for each component.

    The tree crosses edges that are not `walled`. It is the half-edge of each face but the root that its parent has the
    other half of, parents first.
    """
    faces: list[list[Edge]] = []
    face_of: dict[Edge, int] = {}
    for edge in embedding.edges:
        if edge not in face_of:
            walk = embedding.traverse_face(*edge)
            faces.append(list(zip(walk, walk[1:] + walk[:1], strict=True)))
            face_of.update(dict.fromkeys(faces[-1], len(faces) - 1))
    link: dict[int, Edge] = {}
    seen: set[int] = set()
    for root in range(len(faces)):
        stack = [root] if root not in seen else []
        seen.add(root)
        while stack:
            for u, v in faces[stack.pop()]:
                beyond = face_of[v, u]
                if beyond not in seen and not walled(u, v):
                    seen.add(beyond)
                    link[beyond] = (v, u)
                    stack.append(beyond)
    return faces, face_of, link


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
        factor *= scale[:, None] * scale[neighbour]  # the same to the last digit from both ends: K must be skew
        return KasteleynMatrix(neighbour, factor, dark, float(np.log(scale).sum()))

    def lines(self, vertices: Array) -> Array:
        return vertices if self.dark is None else vertices[~self.dark[vertices]]

    def columns(self, vertices: Array) -> Array:
        return vertices if self.dark is None else vertices[self.dark[vertices]]

    def inverse(self, vertices: Array) -> Array | None:
        """M of a part, its laws right to about ACCURATE. None if there is none: then the part has no matching."""
        return _inverse(self.slots(vertices, vertices), self._dark(vertices))

    def inverse_within(self, vertices: Array, all_vertices: Array) -> Array | None:
        """The same with zeros in the lines and columns of the other vertices. Both are sorted."""
        fresh = self.inverse(vertices)
        if fresh is None:
            return None
        lines, columns = self.lines(all_vertices), self.columns(all_vertices)
        inverse = np.zeros((len(lines), len(columns)))
        at = np.searchsorted(lines, self.lines(vertices)), np.searchsorted(columns, self.columns(vertices))
        inverse[np.ix_(*at)] = fresh
        return inverse

    def log_determinant(self) -> float:
        """The logarithm of the absolute value of the determinant of K."""
        whole = np.arange(len(self.neighbour))
        return float(np.linalg.slogdet(_dense(self.slots(whole, whole), self._dark(whole))).logabsdet)

    def _dark(self, vertices: Array) -> Array:
        """Which of these vertices have a row in K."""
        return np.ones(len(vertices), dtype=bool) if self.dark is None else self.dark[vertices]

    def slots(self, vertices: Array, within: Array) -> Slots:
        """Where the laws of `vertices` are in M of the vertices `within`. Both are sorted."""
        neighbour, own = self.neighbour[vertices], vertices[:, None]
        inside = np.isin(neighbour, within)
        neighbour = np.where(inside, neighbour, own)  # any vertex will do as padding
        line, column = neighbour, np.broadcast_to(own, neighbour.shape)
        if self.dark is not None:
            dark = self.dark[own]
            line, column = np.where(dark, line, own), np.where(dark, column, neighbour)
        lines, columns = self.lines(within), self.columns(within)
        return Slots(
            np.searchsorted(within, vertices),
            np.where(inside, np.searchsorted(within, neighbour), -1),
            np.where(inside, np.searchsorted(lines, line), 0),
            np.where(inside, np.searchsorted(columns, column), 0),
            np.where(inside, self.factor[vertices], 0.0),
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
    """Whether the laws of all vertices that are live (states, t) are laws, in each of the states: (states,) bool.

    A column of an inverse solves its own equations, so that the probabilities of its vertex sum to one, even where it
    is quite wrong. The other end of an edge shows that: there the edge's probability comes from another column, if M
    is skew, and otherwise the sum is along a line.
    """
    open_slot = (slots.neighbour >= 0) & live[:, slots.neighbour]  # (states, t, q)
    law = np.where(open_slot, slots.factor * inverse[:, slots.line, slots.column], 0.0)
    fits = (law >= -ACCURATE).all(2) & (np.abs(law.sum(2) - 1) <= ACCURATE)
    if slots.both:
        other = np.where(open_slot, -slots.factor * inverse[:, slots.column, slots.line], 0.0)
        fits &= (np.abs(law - other) <= ACCURATE).all(2)
    result: Array = (fits | ~live).all(1)
    return result


def _dense(slots: Slots, dark: Array) -> Array:
    """K of the vertices that the slots are of."""
    at, value = slots.line[dark], slots.factor[dark]
    matrix = np.zeros((len(at), len(dark) if slots.both else len(dark) - len(at)))
    row, slot = (slots.neighbour[dark] >= 0).nonzero()
    matrix[row, at[row, slot]] = value[row, slot]
    return matrix


def _inverse(slots: Slots, dark: Array) -> Array | None:
    """The inverse of K, if float64 has it. Newton's iteration makes it sound, if it is not so at once."""
    matrix, live = _dense(slots, dark), np.ones((1, len(dark)), dtype=bool)
    if matrix.shape[0] != matrix.shape[1]:
        return None
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    parts, error = [inverse], np.inf
    with np.errstate(all="ignore"):  # anything may come of a matrix that has no inverse
        while not sound(slots, parts[0][None], live)[0]:
            residual = _residual(slots.line[dark], slots.factor[dark], parts)
            last, error = error, np.abs(residual).max()
            if not error < last / 2:
                return None
            change = inverse @ residual
            for i, part in enumerate(parts):
                parts[i], change = _sum(part, change)
            parts = [*parts, change][:3]
    return (parts[0] - parts[0].T) / 2 if slots.both else parts[0]


def _residual(at: Array, value: Array, parts: list[Array]) -> Array:
    """1 - K M, where M is a sum of parts, with three times the digits (Ogita, Rump, Oishi 2005).

    A row of K has the entries `value` (n, q) in the columns `at` (n, q).
    """
    n, q = at.shape
    residual = np.eye(n)
    width = 1 + _STRIP // n
    for begin in range(0, n, width):
        strip = slice(begin, begin + width)
        terms = [residual[:, strip]]
        for k in range(q):
            for part in parts:
                terms += _product(-value[:, k, None], part[at[:, k], strip])
        for _ in range(2):
            for i in range(1, len(terms)):
                terms[i], terms[i - 1] = _sum(terms[i], terms[i - 1])
        residual[:, strip] = sum(terms)
    return residual


def _sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """a b and its rounding error (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - a)
    return high, a - high
