"""How samples look, one class for each kind: in a line, on a terminal, in a file, and on a page.

A model says itself which view suits it (`TokenOracle.view`); others get one by what they draw.
"""

from __future__ import annotations

import abc
import colorsys
import math
import string
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN
from drawahead.show.pictures import Bitmap, Drawing, Letters, Numbers, Picture, Pixels, Tiles
from drawahead.validate import number, short, whole, wholes
from drawahead.values import dataclass

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from drawahead.sample import Result

GALLERY_SIDE = 96
"""The most pixels along a side; larger images are shown smaller."""
_LARGE = 1200  # the same, of a picture in a file
_DIGITS = string.digits + string.ascii_lowercase
_PAIR = ("#e4dfd3", "#24566b")
# Okabe and Ito's colours, told apart with any kind of colour vision.
_FEW = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#555555")


class View(abc.ABC):
    """How samples look."""

    shown: ClassVar[int]
    """Samples on a page unless another number is asked for."""
    formats: ClassVar[tuple[str, ...]] = (".npz", ".json")
    """How the names of files may end that samples are written to."""

    @abc.abstractmethod
    def picture(self, sample: Tensor) -> Picture:
        """One sample, whole, on a page."""

    def line(self, sample: Tensor) -> str:
        """A whole sample as one line."""
        form = "+.3f" if sample.is_floating_point() else "d"
        return " ".join(f"{value:{form}}" for value in sample.flatten().tolist())

    def terminal(self, result: Result, console: Console) -> RenderableType:
        """The samples, or the first few, no wider than the console."""
        from drawahead.show import terminal

        lines = [self.line(sample) for sample in result.samples[: terminal.PRINTED]]
        return terminal.lines(lines, len(result.samples), console.width)

    def plain(self, samples: Tensor) -> list[Any]:
        """Samples as plain values for JSON."""
        return samples.tolist()

    def draw(self, samples: Tensor, path: Path) -> None:
        """Write the samples as a picture, in one of the formats in `formats`."""
        from drawahead.show import painting

        pictures = (self.picture(sample) for sample in samples)
        painting.draw([picture for picture in pictures if isinstance(picture, Drawing)], path)


class TokenView(View):
    """How sequences of tokens look."""

    @abc.abstractmethod
    def picture(self, sample: Tensor) -> Drawing: ...

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        """When each part of the picture appears, if position i is drawn at `when[i]` (n,)."""
        times: list[int] = when.tolist()
        return times


class VectorView(View):
    """How vectors look."""

    smooth: ClassVar[bool] = False
    """Whether pixels are to run into each other where they are shown large."""

    @abc.abstractmethod
    def pixels(self, values: Tensor, side: int) -> list[Pixels]:
        """Pictures of `values` (number, ...), no more than `side` pixels high or wide, all of one size."""


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


@final
@dataclass(frozen=True)
class Images(VectorView):
    """Images (height, width), or (channels, height, width) with 1 or 3 channels, with values from `low` to `high`."""

    shown = 36
    formats = (".npz", ".json", ".png")
    smooth = True
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, number(name, getattr(self, name)))
        if not self.low < self.high:
            raise InputError(f"low must be below high, not {self.low} and {self.high}")

    def picture(self, sample: Tensor) -> Bitmap:
        return Bitmap(self.pixels(sample[None], GALLERY_SIDE)[0])

    def terminal(self, result: Result, console: Console) -> RenderableType:
        from drawahead.show import terminal

        return terminal.images(result.samples, console)

    def draw(self, samples: Tensor, path: Path) -> None:
        from drawahead.show import painting

        painting.draw([Bitmap(pixels) for pixels in self.pixels(samples, _LARGE)], path)

    def pixels(self, values: Tensor, side: int) -> list[Pixels]:
        if not is_image(values.shape[1:]):
            raise InputError(f"images have shape (height, width) or (1 or 3, height, width), not {values.shape[1:]}")
        planes = (values[:, None] if values.dim() == 3 else values).double().nan_to_num(self.low)
        factor = -(-max(planes.shape[-2:]) // side)
        if factor > 1:
            planes = torch.nn.functional.avg_pool2d(planes, factor, ceil_mode=True, count_include_pad=False)
        level = ((planes - self.low) / (self.high - self.low) * 255).round().clamp(0, 255).to(torch.uint8)
        channels_last = level.permute(0, 2, 3, 1)
        return [image[..., 0] if image.shape[-1] == 1 else image for image in channels_last.cpu().numpy()]


@final
@dataclass(frozen=True)
class Vectors(VectorView):
    """Any other vectors: in a gallery as numbers, in a film as squares, blue below zero and orange above."""

    shown = 8
    reach: float = 1.0
    """Entries so far from zero, or farther, have the full colour."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", number("reach", self.reach, above=0))

    def picture(self, sample: Tensor) -> Numbers:
        flat = sample.flatten()
        return Numbers(tuple(flat[:64].tolist()), len(flat))

    def pixels(self, values: Tensor, side: int) -> list[Pixels]:
        flat = values.flatten(1).double().nan_to_num(0.0)[:, : side * side]
        columns = math.ceil(math.sqrt(flat.shape[1]))
        lines = -(-flat.shape[1] // columns)
        cells = torch.nn.functional.pad(flat, (0, lines * columns - flat.shape[1])).view(-1, lines, columns, 1)
        share = (cells / self.reach).clamp(-1, 1)
        middle, below, above = (torch.tensor(rgb) for rgb in ((244.0, 241, 234), (0.0, 92, 158), (214.0, 94, 0)))
        mixed = middle + share.abs() * (torch.where(share < 0, below, above) - middle)
        return list(mixed.round().to(torch.uint8).cpu().numpy())


def is_image(shape: Sequence[int]) -> bool:
    """Whether vectors of this shape can be shown as images."""
    return len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, 3))


def view_of(chain: Chain) -> View:
    """The view that suits what a chain draws."""
    if not isinstance(chain, TokenChain):
        from drawahead.chains.gaussian import GaussianChain

        shape: Sequence[int] = getattr(chain, "sample_shape", ())
        return Images() if isinstance(chain, GaussianChain) and is_image(shape) else Vectors()
    view = chain.oracle.view()
    if isinstance(view, Texts) and chain.evidence is not None and chain.evidence.dim() == 1:
        return replace(view, blanks=tuple((chain.evidence == HIDDEN).nonzero()[:, 0].tolist()))
    return view or Tokens(chain.oracle.vocab_size)


def view_of_samples(samples: Tensor) -> View:
    """The view that suits samples of which nothing else is known."""
    if not samples.is_floating_point():
        return Texts(lambda sample: [str(token) for token in sample.flatten().tolist()])
    return Images() if is_image(samples.shape[1:]) else Vectors()
