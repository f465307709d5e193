"""Matchings of a region of squares: dominoes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from torch import Tensor

from drawahead.counting.matchings.planar import PlanarMatching
from drawahead.errors import InputError
from drawahead.sample import Result
from drawahead.show.pictures import Tiles
from drawahead.show.views import TokenView
from drawahead.values import dataclass
from drawahead.words import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Square = tuple[int, int]
# Okabe and Ito's colours. A domino's colour says which way it lies and on which colour of a chessboard it begins: in an
# Aztec diamond these are the four kinds that fill its corners.
_COLOURS = ("#0072B2", "#56B4E9", "#E69F00", "#D55E00")


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
        """The first tiling, two characters a square, if it fits: a line along each domino, colours where there are."""
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
