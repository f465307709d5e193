"""Sequences of tokens: as symbols, as text, or as a grid of squares."""

from __future__ import annotations

import colorsys
import string
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.show.pictures import Letters, Tiles
from drawahead.show.views.base import TokenView
from drawahead.validate import short, whole, wholes
from drawahead.values import dataclass

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from drawahead.sample import Result

_DIGITS = string.digits + string.ascii_lowercase
_PAIR = ("#e4dfd3", "#24566b")
# Okabe and Ito's colours, told apart with any kind of colour vision.
_FEW = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#555555")


@final
@dataclass(frozen=True)
class Tokens(TokenView):
    """Sequences as symbols: a character for each token where the vocabulary is small, else its number."""

    shown = 12
    vocab_size: int

    def picture(self, sample: Tensor) -> Letters:
        return Letters(tuple(_symbols(sample, self.vocab_size)))

    def line(self, sample: Tensor) -> str:
        return ("" if self.vocab_size <= len(_DIGITS) else " ").join(_symbols(sample, self.vocab_size))


@final
@dataclass(frozen=True)
class Texts(TokenView):
    """Sequences as text. `letters` returns the character, word or number at every position of a sample (n,)."""

    shown = 12
    formats = (".npz", ".json", ".txt")
    letters: Callable[[Tensor], Sequence[str]]
    blanks: tuple[int, ...] = ()
    """Positions that were filled into a prompt: on a terminal they stand out."""

    def __post_init__(self) -> None:
        if not callable(self.letters):
            raise InputError(f"letters must be a function of a sample, not {short(self.letters)}")
        object.__setattr__(self, "blanks", wholes("blanks", self.blanks, 0))

    def picture(self, sample: Tensor) -> Letters:
        given = self.letters(sample)
        if not isinstance(given, Sequence) or len(given) != len(sample):
            raise InputError(f"letters must give one string for each of {len(sample)} positions, not {short(given)}")
        return Letters(tuple(map(str, given)))

    def line(self, sample: Tensor) -> str:
        return self.picture(sample).text

    def terminal(self, result: Result, console: Console) -> RenderableType:
        """Beside each text the rounds it took."""
        from drawahead.show import terminal

        pictures = map(self.picture, result.samples)
        return terminal.texts(zip(pictures, result.report.sample_rounds, strict=True), self.blanks)

    def plain(self, samples: Tensor) -> list[Any]:
        return [self.line(sample) for sample in samples]


@final
@dataclass(frozen=True)
class Grids(TokenView):
    """Sequences as a grid of coloured squares, line after line."""

    shown = 24
    formats = (".npz", ".json", ".png")
    columns: int
    vocab_size: int
    palette: tuple[str, ...] = ()
    """A colour for each token, such as "#0072b2"; by default some that are easily told apart."""

    def __post_init__(self) -> None:
        for name in ("columns", "vocab_size"):
            object.__setattr__(self, name, whole(name, getattr(self, name), 1))

    def picture(self, sample: Tensor) -> Tiles:
        places = [divmod(i, self.columns) for i in range(len(sample))]
        tiles = tuple((j, i, 1, 1, token) for (i, j), token in zip(places, sample.tolist(), strict=True))
        box = (0, 0, self.columns, -(-len(sample) // self.columns))
        return Tiles(box, tiles, self.palette or colours(self.vocab_size))

    def line(self, sample: Tensor) -> str:
        return Tokens(self.vocab_size).line(sample)

    def terminal(self, result: Result, console: Console) -> RenderableType:
        """Pictures of a palette, or square grids of spins, side by side."""
        from drawahead.show import terminal

        if self.palette:
            return terminal.images(self._images(result.samples), console)
        if self.vocab_size != 2 or result.samples.shape[1] != self.columns**2:
            return super().terminal(result, console)
        return terminal.spins(result.samples.view(-1, self.columns, self.columns), console.width)

    def _images(self, samples: Tensor) -> Tensor:
        """Samples in their colours (m, 3, rows, columns), from -1 to 1."""
        channels = [[int(colour[i : i + 2], 16) / 127.5 - 1 for i in (1, 3, 5)] for colour in self.palette]
        coloured = torch.tensor([*channels, [0.0] * 3])[samples]  # -1 is the last
        return coloured.view(len(samples), -1, self.columns, 3).permute(0, 3, 1, 2)


def _symbols(sample: Tensor, vocab_size: int) -> list[str]:
    tokens = sample.flatten().tolist()
    return [_DIGITS[token] for token in tokens] if vocab_size <= len(_DIGITS) else [str(token) for token in tokens]


def colours(count: int) -> tuple[str, ...]:
    """So many colours, as different as they can be."""
    if count <= 2:
        return _PAIR
    if count <= len(_FEW):
        return _FEW[:count]
    turns = (colorsys.hls_to_rgb(i / count, 0.4 + 0.2 * (i % 2), 0.5) for i in range(count))
    return tuple("#" + "".join(f"{round(255 * channel):02x}" for channel in rgb) for rgb in turns)
