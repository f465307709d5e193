"""Planar separators, and the tree of pieces they cut a graph into.

Lattice graphs are cut along rows and columns. Any other planar graph is cut by the method of Lipton and Tarjan ("A
separator theorem for planar graphs", 1979): at most sqrt(8 n) vertices, without which no component has more than two
thirds of the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drawahead.counting.matchings.kasteleyn import Edge, face_tree, graphs

if TYPE_CHECKING:
    import networkx

Cut = Callable[["networkx.Graph"], set[int]]
"""Vertices whose removal leaves no component with more than two thirds of a connected graph."""


@dataclass(frozen=True)
class Node:
    """A piece: some vertices, the separator that is drawn first, and the pieces that it leaves."""

    number: int
    vertices: tuple[int, ...]
    separator: tuple[int, ...]
    levels: tuple[int, ...]
    """When to draw each vertex of the separator: far apart ones first."""
    children: tuple[Node, ...]


def separator_tree(graph: networkx.Graph, cut: Cut, leaf: int, cuts: int) -> Node:
    """Cut `graph` into pieces until they have at most `leaf` vertices. One separator is made of `cuts` cuts: a piece's,
    then its parts', and so on, so that there are fewer levels. Of a leaf every edge has an end in the separator."""
    numbers = itertools.count()
    colour = graphs().bipartite.color(graph) if graphs().is_bipartite(graph) else dict.fromkeys(graph, 1)

    def node(vertices: Sequence[int]) -> Node:
        number = next(numbers)
        if len(vertices) <= leaf:
            cover = tuple(v for v in vertices if colour[v])
            return Node(number, tuple(vertices), cover, spacing(graph.subgraph(vertices), cover), ())
        separator: set[int] = set()
        parts: list[set[int]] = [set(vertices)]
        for _ in range(cuts):
            left: list[set[int]] = []
            for part in parts:
                for component in graphs().connected_components(graph.subgraph(part)):
                    if len(component) <= leaf:
                        left.append(component)
                        continue
                    removed = cut(graph.subgraph(component))
                    separator |= removed
                    left += graphs().connected_components(graph.subgraph(component - removed))
            parts = left
        children = tuple(node(sorted(part)) for part in _gathered(parts, leaf))
        chosen = tuple(sorted(separator))
        return Node(number, tuple(vertices), chosen, spacing(graph.subgraph(vertices), chosen), children)

    return node(sorted(graph))


def spacing(graph: networkx.Graph, vertices: Sequence[int]) -> tuple[int, ...]:
    """A level for each vertex: those of the first levels are far apart, and so depend on each other least.

    Take the vertex that is farthest from those taken before, again and again; a level is a distance.
    """
    near = {v: list(graph[v]) for v in graph}
    distance = dict.fromkeys(graph, len(graph))
    left, level = list(vertices), dict.fromkeys(vertices, 0)
    while left:
        following = max(left, key=distance.__getitem__)
        left.remove(following)
        level[following] = -distance[following]
        distance[following] = 0
        front = [following]
        while front:  # breadth first, wherever this one is nearer than all before
            beyond = []
            for u in front:
                for v in near[u]:
                    if distance[v] > distance[u] + 1:
                        distance[v] = distance[u] + 1
                        beyond.append(v)
            front = beyond
    return tuple(level[v] for v in vertices)


def _gathered(parts: Iterable[set[int]], leaf: int) -> list[set[int]]:
    """Parts with the small ones put together, as long as they do not need a separator. A vertex that is left alone is
    matched to the separator: it is in no part."""
    gathered: list[set[int]] = []
    for part in sorted(parts, key=lambda p: (len(p), min(p))):
        if len(part) == 1:
            continue
        if gathered and len(gathered[-1]) + len(part) <= leaf:
            gathered[-1] |= part
        else:
            gathered.append(set(part))
    return gathered


def on_lattice(nodes: Iterable[object]) -> bool:
    """Whether all nodes are places (row, column) of the square lattice."""
    return all(isinstance(node, tuple) and list(map(type, node)) == [int, int] for node in nodes)


def lattice_cut(place: Sequence[tuple[int, int]]) -> Cut:
    """Cuts for graphs whose vertices are `place`d on the square lattice and whose edges have length one."""

    def cut(graph: networkx.Graph) -> set[int]:
        options = []
        for axis in (0, 1):
            lines: dict[int, list[int]] = {}
            for v in graph:
                lines.setdefault(place[v][axis], []).append(v)
            below = 0
            for at in sorted(lines):
                larger = max(below, len(graph) - below - len(lines[at]))
                options.append((3 * larger > 2 * len(graph), len(lines[at]), larger, axis, at))
                below += len(lines[at])
        _, _, _, axis, at = min(options)
        return {v for v in graph if place[v][axis] == at}

    return cut


def planar_cut(graph: networkx.Graph) -> set[int]:
    """The smallest that Lipton and Tarjan's proof offers for a connected planar graph: a level of a breadth-first
    search, or two levels and a cycle between them.

    Some level near the middle splits the graph well if it is small. If not, there are small levels `low` and `high`
    not far below and above it. Too much can be left only between them; there the tree of the search is shallow, so a
    path in it and one more edge make a short cycle, and one of these cycles splits what is left.
    """
    n = len(graph)
    depth: dict[int, int] = graphs().single_source_shortest_path_length(graph, _middle(graph))
    levels: list[list[int]] = [[] for _ in range(max(depth.values()) + 2)]  # the last one is empty
    for v, d in depth.items():
        levels[d].append(v)
    size = [len(level) for level in levels]
    up_to = list(itertools.accumulate(size))
    options = [set(levels[d]) for d in range(len(levels)) if 3 * max(up_to[d] - size[d], n - up_to[d]) <= 2 * n]
    half = next(d for d in range(len(levels)) if 2 * up_to[d] >= n)
    low = min(range(-1, half + 1), key=lambda d: (size[d] if d >= 0 else 0) + 2 * (half - d))
    high = min(range(half + 1, len(levels)), key=lambda d: size[d] + 2 * (d - half - 1))
    ends = {v for d in (low, high) if d >= 0 for v in levels[d]}
    between = [v for v, d in depth.items() if low < d < high]
    if 3 * len(between) <= 2 * n:
        options.append(ends)
    else:
        options.append(ends | _cycle(graph, between, depth, low))
    return min(options, key=len)


def _middle(graph: networkx.Graph) -> int:
    """A vertex far from none: levels around it are few."""
    first: int = min(graph)
    for _ in range(2):  # to one end, then to the other
        distance = graphs().single_source_shortest_path_length(graph, first)
        last = max(distance, key=lambda v: (distance[v], v))
        first, path = last, graphs().shortest_path(graph, first, last)
    return int(path[len(path) // 2])


def _cycle(graph: networkx.Graph, between: Sequence[int], depth: dict[int, int], low: int) -> set[int]:
    """The best cycle of a tree path and one edge, through the vertices `between`; all below them is one root, -1."""
    inner = graph.subgraph(between).copy()
    top = [v for v in between if depth[v] == low + 1]
    if low >= 0:
        inner.add_edges_from((-1, v) for v in top)
    root = -1 if low >= 0 else top[0]
    parent: dict[int, int] = {root: root}
    level = {root: 0}
    for u, v in graphs().bfs_edges(inner, root):
        parent[v], level[v] = u, level[u] + 1
    if len(inner) < 3:
        return set(between)
    embedding = graphs().check_planarity(inner)[1]
    triangulated = graphs().algorithms.planar_drawing.triangulate_embedding(embedding)[0]
    total = len(inner)
    best: tuple[Any, ...] = (math.inf,)
    for (u, v), faces in _faces_inside(triangulated, parent).items():
        path = _tree_path(u, v, parent, level)
        inside = (faces - len(path)) // 2 + 1  # Euler: a triangulated disc has 2 inside + length - 2 faces
        larger = max(inside, total - len(path) - inside)
        best = min(best, (3 * larger > 2 * total, len(path), larger, u, v))
    return set(_tree_path(best[3], best[4], parent, level)) - {-1}


def _faces_inside(embedding: Any, parent: dict[int, int]) -> dict[Edge, int]:
    """For every edge outside the tree: how many triangles lie on one side of its cycle. The triangles form a tree, in
    which these edges are the links."""
    triangles, triangle, link = face_tree(embedding, lambda u, v: parent[u] == v or parent[v] == u)
    size = [1] * len(triangles)
    for here in reversed(link):
        v, u = link[here]
        size[triangle[u, v]] += size[here]
    return {link[here]: size[here] for here in link}


def _tree_path(u: int, v: int, parent: dict[int, int], level: dict[int, int]) -> list[int]:
    left, right = [u], [v]
    while left[-1] != right[-1]:
        if level[left[-1]] >= level[right[-1]]:
            left.append(parent[left[-1]])
        else:
            right.append(parent[right[-1]])
    return left + right[-2::-1]
