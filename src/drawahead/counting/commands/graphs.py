"""Graphs as the command line names them: `grid:32`, `grid:8x40`, `complete:9`, `cycle:12`, or a file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from drawahead.counting.matchings.kasteleyn import graphs
from drawahead.errors import InputError

if TYPE_CHECKING:
    import networkx

HINT = "give grid:N, grid:RxC, complete:N, cycle:N, or a file: GraphML (.graphml), or lines such as `a b 2.5`"
_NAMED = re.compile(r"(grid|complete|cycle):(\d{1,6})(?:x(\d{1,6}))?")
_SQUARE = re.compile(r"\(?\s*(-?\d{1,9})\s*,\s*(-?\d{1,9})\s*\)?")
_MOST_NODES = 100_000


def is_file(spec: str) -> bool:
    """Whether a graph is read from a file."""
    return _NAMED.fullmatch(spec) is None


def size(spec: str) -> int:
    """How many nodes a graph has that is not read from a file."""
    named = _NAMED.fullmatch(spec)
    assert named is not None
    return int(named[2]) * (int(named[3] or named[2]) if named[1] == "grid" else 1)


def graph_of(spec: str) -> networkx.Graph:
    """The graph that `--graph` names; edges from files have their weights as the attribute `weight`."""
    named = _NAMED.fullmatch(spec)
    if named is None:
        path = Path(spec)
        if not path.is_file():
            raise InputError(f"--graph {spec}: there is no such file; {HINT}")
        return _on_squares(_graphml(path) if path.suffix.lower() in (".graphml", ".xml") else _edge_list(path))
    kind, first = named[1], int(named[2])
    if named[3] is not None and kind != "grid":
        raise InputError(f"--graph {spec}: only a grid has two sides; {HINT}")
    second = first if named[3] is None else int(named[3])
    if not first or not second or size(spec) > _MOST_NODES:
        raise InputError(f"--graph {spec}: a graph has 1 to {_MOST_NODES:,} nodes here; {HINT}")
    if kind == "complete" and first > 1000:
        raise InputError(f"--graph {spec}: a complete graph has at most 1000 nodes here; write a smaller number")
    made: dict[str, Callable[[], networkx.Graph]] = {
        "grid": lambda: graphs().grid_2d_graph(first, second),
        "complete": lambda: graphs().complete_graph(first),
        "cycle": lambda: graphs().cycle_graph(first),
    }
    return made[kind]()


def _edge_list(path: Path) -> networkx.Graph:
    """A line for each edge: two nodes, and a weight if it is not 1. A graph with parallel edges is a multigraph."""
    edges: list[tuple[str, str, float]] = []
    for number, words in _lines(path):
        where = f"{path}, line {number}"
        if len(words) not in (2, 3):
            raise InputError(
                f"{where}: an edge is two nodes and perhaps a weight, such as `a b 2.5`, not {' '.join(words)[:60]!r}"
            )
        edges.append((words[0], words[1], _weight(words[2], where) if len(words) == 3 else 1.0))
    if not edges:
        raise InputError(f"{path} holds no edge: write one on each line, two nodes and perhaps a weight")
    parallel = len({frozenset(edge[:2]) for edge in edges}) < len(edges)
    graph = graphs().MultiGraph() if parallel else graphs().Graph()
    graph.add_weighted_edges_from(edges)
    return graph


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The words of each line that has some, with its number; `#` begins a comment."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as text: {error}; {HINT}") from None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        words = re.split(r"[\s;]+", line)
        if len(words) == 1:
            words = line.split(",")
        if line:
            yield number, [word.strip(",") for word in words]


def _weight(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{where}: a weight is a positive number, not {text[:40]!r}; leave edges of weight 0 out")
    return value


def _graphml(path: Path) -> networkx.Graph:
    from xml.etree.ElementTree import ParseError

    try:
        graph: networkx.Graph = graphs().read_graphml(path)
    except ParseError as error:
        line = error.position[0]
        raise InputError(f"{path}, line {line}: this is not XML ({error}); export the graph as GraphML again") from None
    except Exception as error:  # such as LookupError, for an encoding that nobody has
        raise InputError(f"{path} cannot be read as GraphML: {error}; export the graph again, or {HINT}") from None
    if graph.is_directed():
        raise InputError(f'{path} is a directed graph: set edgedefault="undirected", and leave `directed` of edges out')
    for u, v, value in graph.edges(data="weight", default=1.0):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise InputError(
                f"{path}: the weight of the edge {u} - {v} must be a positive number, not {str(value)[:40]!r}; declare "
                'its key with attr.type="double", and leave edges of weight 0 out'
            )
    return graph


def _on_squares(graph: networkx.Graph) -> networkx.Graph:
    """With nodes (row, column) where all of them are written so, as `3,4` or `(3, 4)`."""
    matches = {node: match for node in graph if (match := _SQUARE.fullmatch(str(node)))}
    places = {node: (int(match[1]), int(match[2])) for node, match in matches.items()}
    return graphs().relabel_nodes(graph, places) if len(set(places.values())) == len(graph) else graph
