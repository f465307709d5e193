"""Matchings of a region of squares: dominoes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from torch import Tensor

from drawahead import tilings
from drawahead.errors import InputError
from drawahead.sample import Result
from drawahead.targets import PlanarMatching
from drawahead.views.base import TokenView
from drawahead.views.pictures import Tiles
from drawahead.words import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@final
@dataclass(frozen=True)
class Tilings(TokenView):
    """Matchings of a region of squares as dominoes."""

    shown = 6
    formats = (".npz", ".json", ".png")
    matching: PlanarMatching

    def __post_init__(self) -> None:
        if not on_squares(self.matching):
            raise InputError("only matchings of squares, with vertices (row, column), can be shown as tilings")

    def picture(self, sample: Tensor) -> Tiles:
        squares = self.matching.nodes
        fills = tilings.colours(self.matching, sample)
        names = tuple(sorted(set(fills.values())))
        tiles = []
        for first, second in self._dominoes(sample):
            (i, j), (k, m) = squares[first], squares[second]
            top, left = min(i, k), min(j, m)
            tiles.append((left, top, abs(j - m) + 1, abs(i - k) + 1, names.index(fills[i, j])))
        rows, columns = zip(*squares, strict=True)
        box = (min(columns), min(rows), max(columns) - min(columns) + 1, max(rows) - min(rows) + 1)
        return Tiles(box, tuple(tiles), names)

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        """A domino is known as soon as one of its squares is."""
        return [int(min(when[first], when[second])) for first, second in self._dominoes(sample)]

    def terminal(self, result: Result, console: Console) -> RenderableType:
        """The first tiling, two characters a square, if it fits: a line along each domino, colours where there are."""
        from drawahead.views import terminal

        tiling, sample = self.matching.nodes, result.samples[0]
        pairs = [(tiling[v], tiling[w]) for v, w in self._dominoes(sample)]
        shown = terminal.grid_lines(pairs, console, tilings.colours(self.matching, sample))
        told = f"{counted(len(result.samples), 'tiling')} of {len(tiling)} squares, too wide for this terminal"
        return f"{told}: look at it as a picture (.png)" if shown is None else shown

    def plain(self, samples: Tensor) -> list[Any]:
        """Each tiling as its pairs of squares."""
        return [sorted(sorted(edge) for edge in tiling) for tiling in self.matching.matchings(samples)]

    def draw(self, samples: Tensor, path: Path) -> None:
        tilings.draw(self.matching, samples[0], path)

    def _dominoes(self, sample: Tensor) -> list[tuple[int, int]]:
        partners = self.matching.partners(sample[None])[0].tolist()
        return [(v, w) for v, w in enumerate(partners) if v < w]


def on_squares(matching: PlanarMatching) -> bool:
    """Whether the vertices are squares (row, column), each edge between two that touch."""
    nodes = matching.nodes
    if not all(isinstance(node, tuple) and list(map(type, node)) == [int, int] for node in nodes):
        return False
    ends = np.array([(nodes[u], nodes[v]) for u, v in matching.graph.edges])
    return bool((np.abs(ends[:, 0] - ends[:, 1]).sum(1) == 1).all())
