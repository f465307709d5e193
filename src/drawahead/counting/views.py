"""What samples look like: trees and matchings on their graph, matchings of squares as dominoes, subsets of points."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, final

from torch import Tensor

from drawahead.counting.determinantal.kernels import SpanningTree
from drawahead.counting.matchings.planar import PlanarMatching
from drawahead.counting.matchings.separators import on_lattice
from drawahead.errors import InputError
from drawahead.sample import Result
from drawahead.show.pictures import Strokes, Tiles
from drawahead.show.views import TokenView
from drawahead.values import dataclass
from drawahead.words import counted

if TYPE_CHECKING:
    import networkx
    from rich.console import Console, RenderableType

Square = tuple[int, int]
# Okabe and Ito's colours. A domino's colour says which way it lies and on which colour of a chessboard it begins: in an
# Aztec diamond these are the four kinds that fill its corners.
_COLOURS = ("#0072B2", "#56B4E9", "#E69F00", "#D55E00")
Places = Mapping[Hashable, tuple[float, float]]
_COLOUR = "#0b8a7c"
_SPRING = 400  # nodes that are laid out by springs; more take too long
_SIDE = 20.0  # of layouts that are worked out


@final
@dataclass(frozen=True)
class Subgraphs(TokenView):
    """Spanning trees or matchings of a graph: its edges faint, those of the sample in colour.

    `places` says where each node lies, (x, y) with y downwards; by default they are laid out: nodes (row, column) on a
    grid, nodes with attributes `x` and `y` there, others by springs or, where there are many edges, on a circle.
    """

    shown = 6
    formats = (".npz", ".json", ".png")
    target: SpanningTree | PlanarMatching
    places: Places = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.places:
            object.__setattr__(self, "places", layout(self._graph()))

    def _graph(self) -> networkx.Graph:
        """The graph with its own nodes."""
        if isinstance(self.target, SpanningTree):
            return self.target.graph
        import networkx

        return networkx.relabel_nodes(self.target.graph, dict(enumerate(self.target.nodes)))

    def picture(self, sample: Tensor) -> Strokes:
        ground = tuple(self._line(u, v) for u, v, *_ in self._graph().edges())
        lines = tuple((*self._line(u, v), 0) for u, v in self._edges(sample))
        across, down = zip(*self.places.values(), strict=True)
        width, height = max(across) - min(across), max(down) - min(down)
        edges = max(1, len(ground))
        thick = 0.3 if self._gridded else 0.1 * max(width, height, 1) / math.sqrt(len(self.places))
        box = (min(across) - 2 * thick, min(down) - 2 * thick, width + 4 * thick, height + 4 * thick)
        return Strokes(box, lines, (_COLOUR,), ground, thick, thick * min(1, 1.5 * len(self.places) / edges))

    @property
    def _gridded(self) -> bool:
        return all(isinstance(node, tuple) for node in self.places)

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        """An edge of a sample is known as soon as its item, or one of its ends, is."""
        return [int(when[positions].min()) for _, positions in self.target.edges_of(sample)]

    def plain(self, samples: Tensor) -> list[Any]:
        """Each sample as its edges."""
        return [[list(edge) for edge in self._edges(sample)] for sample in samples]

    def line(self, sample: Tensor) -> str:
        return " ".join(f"{_name(u)}-{_name(v)}" for u, v in self._edges(sample))

    def terminal(self, result: Result, console: Console) -> RenderableType:
        """The first one on its grid, if it has one that fits; else edges, line by line."""
        from drawahead.show import terminal

        walls = terminal.grid_lines(self._edges(result.samples[0]), console)
        return super().terminal(result, console) if walls is None else walls

    def _line(self, u: Hashable, v: Hashable) -> tuple[float, float, float, float]:
        return (*self.places[u], *self.places[v])

    def _edges(self, sample: Tensor) -> list[tuple[Any, Any]]:
        return [edge for edge, _ in self.target.edges_of(sample)]


@final
@dataclass(frozen=True)
class Points(TokenView):
    """Subsets of points in the plane: all places faint, those that are in, in colour."""

    shown = 12
    formats = (".npz", ".json", ".png")
    places: Sequence[tuple[float, float]]

    def picture(self, sample: Tensor) -> Strokes:
        across, down = zip(*self.places, strict=True)
        thick = 0.62
        dots = tuple((x, y, x, y) for x, y in self.places)
        lines = tuple((*dots[item], 0) for item in self._items(sample))
        box = (min(across) - 0.6, min(down) - 0.6, max(across) - min(across) + 1.2, max(down) - min(down) + 1.2)
        return Strokes(box, lines, (_COLOUR,), dots, thick, thick / 2)

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        return [int(when[item]) for item in self._items(sample)]

    def line(self, sample: Tensor) -> str:
        return " ".join(map(str, self._items(sample)))

    def plain(self, samples: Tensor) -> list[Any]:
        """Each subset as the numbers of its items."""
        return [self._items(sample) for sample in samples]

    def terminal(self, result: Result, console: Console) -> RenderableType:
        """Points of a grid, side by side; others by their numbers."""
        from drawahead.show import terminal

        side = math.isqrt(len(self.places))
        square = [(float(j), float(i)) for i in range(side) for j in range(side)]
        if list(self.places) != square or 2 * side > console.width:
            return super().terminal(result, console)
        return terminal.spins(result.samples.view(-1, side, side), console.width)

    @staticmethod
    def _items(sample: Tensor) -> list[int]:
        items: list[int] = sample.nonzero()[:, 0].tolist()
        return items


def layout(graph: networkx.Graph) -> dict[Hashable, tuple[float, float]]:
    """Where to show each node: (x, y), y downwards."""
    import networkx

    if on_lattice(graph):
        return {(i, j): (float(j), float(i)) for i, j in graph}
    own = {node: (data.get("x"), data.get("y")) for node, data in graph.nodes(data=True)}
    if all(isinstance(x, int | float) and isinstance(y, int | float) for x, y in own.values()):
        return _scaled({node: (float(x), float(y)) for node, (x, y) in own.items() if x is not None and y is not None})
    if len(graph) <= _SPRING and graph.number_of_edges() < len(graph) * (len(graph) - 1) / 4:
        places = networkx.spring_layout(graph, seed=0, iterations=200)
    else:
        places = networkx.circular_layout(graph)
    return _scaled({node: (float(x), -float(y)) for node, (x, y) in places.items()})


def _scaled(places: dict[Hashable, tuple[float, float]]) -> dict[Hashable, tuple[float, float]]:
    """The same picture, no wider or higher than any other."""
    across, down = zip(*places.values(), strict=True)
    size = max(max(across) - min(across), max(down) - min(down)) or 1.0
    return {node: (_SIDE * (x - min(across)) / size, _SIDE * (y - min(down)) / size) for node, (x, y) in places.items()}


def _name(node: Hashable) -> str:
    return ",".join(map(str, node)) if isinstance(node, tuple) else str(node)


@final
@dataclass(frozen=True)
class Tilings(TokenView):
    """Matchings of a region of squares as dominoes."""

    shown = 6
    formats = (".npz", ".json", ".png")
    matching: PlanarMatching

    def __post_init__(self) -> None:
        if not self.matching.on_squares:
            raise InputError("only matchings of squares, with vertices (row, column), can be shown as tilings")

    def picture(self, sample: Tensor) -> Tiles:
        tiles = tuple(
            (j, i, m - j + 1, k - i + 1, _colour((i, j), (k, m))) for (i, j), (k, m) in self._dominoes(sample)
        )
        rows, columns = zip(*self.matching.nodes, strict=True)
        box = (min(columns), min(rows), max(columns) - min(columns) + 1, max(rows) - min(rows) + 1)
        return Tiles(box, tiles, _COLOURS)

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        """A domino is known as soon as one of its squares is."""
        return [int(when[squares].min()) for _, squares in self.matching.edges_of(sample)]

    def terminal(self, result: Result, console: Console) -> RenderableType:
        """The first tiling, two characters per square, if it fits: a line along each domino, in colour."""
        from drawahead.show import terminal

        dominoes = self._dominoes(result.samples[0])
        colours = {square: _COLOURS[_colour(*pair)] for pair in dominoes for square in pair}
        shown = terminal.grid_lines(dominoes, console, colours)
        squares = f"{counted(len(result.samples), 'tiling')} of {len(colours)} squares"
        return f"{squares}, too wide for this terminal: look at it as a picture (.png)" if shown is None else shown

    def plain(self, samples: Tensor) -> list[Any]:
        """Each tiling as its pairs of squares."""
        return [sorted(list(pair) for pair in self._dominoes(sample)) for sample in samples]

    def _dominoes(self, sample: Tensor) -> list[tuple[Square, Square]]:
        """The two squares of each domino, the upper or left one first."""
        return [(min(pair), max(pair)) for pair, _ in self.matching.edges_of(sample)]


def _colour(first: Square, second: Square) -> int:
    return 2 * (first[0] == second[0]) + sum(first) % 2
