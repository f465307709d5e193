"""Domino tilings: perfect matchings of squares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drawahead.counting.matchings.kasteleyn import graphs
from drawahead.counting.matchings.planar import PlanarMatching
from drawahead.oracles.needs import Needs, of_matching
from drawahead.validate import whole
from drawahead.words import pick

if TYPE_CHECKING:
    import networkx

__all__ = ["SHAPES", "aztec_diamond", "domino_grid", "dominoes", "needs", "region"]


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
    return pick("shape", shape, _REGIONS)(size)


_REGIONS = {"square": lambda size: domino_grid(size, size), "aztec": aztec_diamond}
SHAPES = tuple(_REGIONS)
"""Regions that `region` knows."""


def dominoes(shape: str, size: int) -> PlanarMatching:
    """Uniformly random domino tilings of a region by name."""
    return PlanarMatching(region(shape, size))


def needs(shape: str, size: int) -> Needs:
    """What `dominoes` needs to be set up."""
    size = whole("size", size, 1)
    return of_matching(size**2 if shape == "square" else 2 * size * (size + 1))


def __dir__() -> list[str]:
    return __all__
