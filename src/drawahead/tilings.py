"""Domino tilings: perfect matchings of squares, and pictures of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from drawahead import plots
from drawahead.errors import InputError
from drawahead.targets._kasteleyn import graphs
from drawahead.targets._needs import Needs, of_matching
from drawahead.targets.matchings import PlanarMatching
from drawahead.validate import instance, short, whole

if TYPE_CHECKING:
    import networkx

__all__ = ["SHAPES", "aztec_diamond", "colours", "domino_grid", "dominoes", "draw", "needs", "region"]
SHAPES = ("square", "aztec")
"""Regions that `region` knows."""
# Okabe and Ito's colours. A domino's colour says which way it lies and on which colour of a chessboard it begins: in an
# Aztec diamond these are the four kinds that fill its corners.
_COLOURS = ("#0072B2", "#56B4E9", "#E69F00", "#D55E00")


def domino_grid(rows: int, cols: int) -> networkx.Graph:
    """The squares of a rows x cols board, each joined to those beside it. A vertex is (row, column)."""
    return graphs().grid_2d_graph(whole("rows", rows, 1), whole("cols", cols, 1))


def aztec_diamond(order: int) -> networkx.Graph:
    """The Aztec diamond: 2 order (order + 1) squares, with 2^(order (order + 1) / 2) domino tilings.

    In a large one the corners are frozen, brick upon brick, outside a circle (Jockusch, Propp, Shor 1998).
    """
    n = whole("order", order, 1)
    side = range(-n, n)
    board = graphs().grid_2d_graph(side, side)
    inside = [(i, j) for i, j in board if abs(2 * i + 1) + abs(2 * j + 1) <= 2 * n]
    return graphs().Graph(board.subgraph(inside))


def region(shape: str, size: int) -> networkx.Graph:
    """A region by name: a "square" board of size x size, or the "aztec" diamond of order size."""
    if not isinstance(shape, str) or shape not in SHAPES:
        raise InputError(f"there is no shape {short(shape)}; the shapes are {', '.join(SHAPES)}")
    return domino_grid(size, size) if shape == "square" else aztec_diamond(size)


def dominoes(shape: str, size: int) -> PlanarMatching:
    """Uniformly random domino tilings of a region by name."""
    return PlanarMatching(region(shape, size))


def needs(shape: str, size: int) -> Needs:
    """What `dominoes` needs to be set up."""
    size = whole("size", size, 1)
    return of_matching(size**2 if shape == "square" else 2 * size * (size + 1))


def draw(matching: PlanarMatching, sample: Tensor, path: str | Path) -> None:
    """Save a picture of one tiling; `sample` holds the tokens (n,) of a matching of a region of squares."""
    plots.check()
    from matplotlib.collections import PolyCollection

    edges = matching.matchings(sample[None])[0]
    if not all(isinstance(node, tuple) and len(node) == 2 for node in matching.nodes):
        raise InputError("only matchings of squares, with vertices (row, column), can be drawn as tilings")
    corners, shown = [], []
    for (i, j), (k, m) in sorted(sorted(edge) for edge in edges):
        corners.append([(j, -i), (m + 1, -i), (m + 1, -k - 1), (j, -k - 1)])
        shown.append(_colour((i, j), (k, m)))
    inches = min(12.0, max(4.0, max(y - x for x, y in _spans(matching)) / 8))
    with plots.canvas(path, inches, inches) as figure:
        axes = figure.add_subplot()
        line = min(1.0, 60 * inches / len(matching.nodes) ** 0.5 / 10)
        axes.add_collection(PolyCollection(corners, facecolors=shown, edgecolors="white", linewidths=line))
        axes.set_aspect("equal")
        axes.autoscale_view()
        axes.set_axis_off()


def colours(matching: PlanarMatching, sample: Tensor) -> dict[tuple[int, int], str]:
    """The colour of each square of a tiling, by (row, column)."""
    if not isinstance(matching, PlanarMatching):
        raise InputError(f"matching must be a PlanarMatching, not {short(matching)}")
    instance("sample", sample, Tensor, "a tensor of tokens")
    dominoes = (sorted(edge) for edge in matching.matchings(sample[None])[0])
    return {square: _colour(*pair) for pair in dominoes for square in pair}


def _colour(first: tuple[int, int], second: tuple[int, int]) -> str:
    return _COLOURS[2 * (first[0] == second[0]) + sum(first) % 2]


def _spans(matching: PlanarMatching) -> list[tuple[int, int]]:
    return [(min(at), max(at) + 1) for at in zip(*matching.nodes, strict=True)]


def __dir__() -> list[str]:
    return __all__
