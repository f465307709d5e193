"""What the command line draws from: a chain with a name, and how its samples look on a terminal and in a file."""

from __future__ import annotations

import abc
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from torch import Tensor

from drawahead import networks, plots
from drawahead.chains import Chain, GaussianChain, TokenChain
from drawahead.models.oracles import HIDDEN
from drawahead.sample import Result
from drawahead.samplers import Sampler
from drawahead.targets import Ising

SHOWN = 6
"""Samples printed unless all are asked for; texts are all printed."""
_SPINS = ("·", "●")
_SHADES = " ░▒▓█"
_DIGITS = string.digits + string.ascii_lowercase
_WIDE = 16  # images with more columns are shown small: two rows of pixels a line


@dataclass(frozen=True)
class Subject(abc.ABC):
    """Something to draw from."""

    formats: ClassVar[tuple[str, ...]] = (".npz", ".json")
    """How the names of files may end that its samples are written to."""
    name: str
    chain: Chain
    num: int = 8
    """How many samples are drawn unless another number is asked for."""
    sampler: Sampler | None = None
    """How they are drawn unless another sampler is asked for; None measures and chooses."""
    remark: str = ""
    """What the user should know before the samples come."""
    options: dict[str, Any] = field(default_factory=dict)
    """What it was made with, defaults included: a job writes it down, and is resumed with it."""

    @abc.abstractmethod
    def picture(self, result: Result, console: Console) -> RenderableType:
        """The samples, or the first few, as wide as the console at most."""

    @abc.abstractmethod
    def line(self, values: Tensor) -> str:
        """A whole sample as one line."""

    def plain(self, samples: Tensor) -> list[Any]:
        """Samples as JSON holds them."""
        return samples.tolist()

    def draw(self, result: Result, path: Path) -> None:
        """Write the samples as a picture, where `formats` says they can be."""
        plots.images(result.samples, path)


@final
@dataclass(frozen=True)
class Tokens(Subject):
    chain: TokenChain

    def picture(self, result: Result, console: Console) -> RenderableType:
        oracle, samples = self.chain.oracle, result.samples
        if isinstance(oracle, Ising) and math.isqrt(oracle.length) ** 2 == oracle.length:
            each = 2 * math.isqrt(oracle.length) + 4
            return _plain(grids(samples[: _fitting(console.width + 5, each)]))
        return _some([self.line(tokens) for tokens in samples[:SHOWN]], len(samples), console.width)

    def line(self, values: Tensor) -> str:
        """A character a token where the vocabulary is small."""
        tokens = values.tolist()
        small = self.chain.oracle.vocab_size <= len(_DIGITS)
        return "".join(_DIGITS[v] for v in tokens) if small else " ".join(map(str, tokens))


@final
@dataclass(frozen=True)
class Vectors(Subject):
    def picture(self, result: Result, console: Console) -> RenderableType:
        return _some([self.line(x) for x in result.samples[:SHOWN]], len(result.samples), console.width)

    def line(self, values: Tensor) -> str:
        return _numbers(values)


@final
@dataclass(frozen=True)
class Images(Subject):
    formats = (".npz", ".json", ".png")
    chain: GaussianChain

    def picture(self, result: Result, console: Console) -> RenderableType:
        columns = self.chain.shape[1]
        if columns <= _WIDE:
            return _plain(shades(result.samples[: _fitting(console.width + 3, 2 * columns + 3)]))
        images = result.samples[: _fitting(console.width + 2, columns + 2)]
        return greys(images) if console.color_system else _plain(shades(_halved(images), wide=1, gap=2))

    def line(self, values: Tensor) -> str:
        return _numbers(values)


@final
@dataclass(frozen=True)
class Texts(Subject):
    formats = (".npz", ".json", ".txt")
    chain: TokenChain

    def picture(self, result: Result, console: Console) -> RenderableType:
        """Beside each text the rounds it took; what was filled into a prompt stands out."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True, justify="right")
        grid.add_column()
        for i, (tokens, rounds) in enumerate(zip(result.samples, result.report.sample_rounds, strict=True)):
            if i:
                grid.add_row()
            grid.add_row(f"{rounds} round{'s' * (rounds != 1)}", self._highlighted(tokens))
        return grid

    def line(self, values: Tensor) -> str:
        return networks.to_text(values)

    def plain(self, samples: Tensor) -> list[Any]:
        return [self.line(tokens) for tokens in samples]

    def _highlighted(self, tokens: Tensor) -> Text:
        text = Text(self.line(tokens))
        if self.chain.evidence is not None:
            for i in (self.chain.evidence == HIDDEN).nonzero()[:, 0].tolist():
                text.stylize("bold green", i, i + 1)
        return text


def grids(samples: Tensor) -> str:
    """Samples of a square grid of spins, side by side."""
    side = math.isqrt(samples.shape[1])
    pictures = samples.view(-1, side, side).tolist()
    return "\n".join("     ".join(" ".join(_SPINS[v] for v in grid[row]) for grid in pictures) for row in range(side))


def shades(samples: Tensor, wide: int = 2, gap: int = 3) -> str:
    """Images (number, height, width) with values around -1 ... 1, side by side, in shades."""
    level = ((samples + 1) / 2 * (len(_SHADES) - 1)).round().clamp(0, len(_SHADES) - 1).long().tolist()
    return "\n".join(
        (" " * gap).join("".join(_SHADES[v] * wide for v in image[row]) for image in level)
        for row in range(len(level[0]))
    )


def greys(samples: Tensor) -> Text:
    """Images (number, height, width) side by side, each character the grey of two pixels, one above the other."""
    level = ((samples + 1) * 127.5).round().clamp(0, 255).long().tolist()
    picture = Text(no_wrap=True)
    for row in range(0, len(level[0]), 2):
        for image in level:
            below = image[row + 1] if row + 1 < len(image) else [0] * len(image[row])
            for a, b in zip(image[row], below, strict=True):
                picture.append("▀", f"rgb({a},{a},{a}) on rgb({b},{b},{b})")
            picture.append("  ")
        picture.append("\n")
    picture.rstrip()
    return picture


def _numbers(x: Tensor) -> str:
    return " ".join(f"{value:+.3f}" for value in x.flatten().tolist())


def _halved(samples: Tensor) -> Tensor:
    """Two rows of pixels as one, for a character is about twice as high as wide."""
    even = samples[:, : samples.shape[1] // 2 * 2]
    return (even[:, ::2] + even[:, 1::2]) / 2


def _fitting(width: int, each: int) -> int:
    return max(1, min(SHOWN, width // each))


def _some(lines: Sequence[str], of: int, width: int) -> Text:
    shown = [text if len(text) <= width else text[: width - 1] + "…" for text in lines]
    rest = of - len(shown)
    return _plain("\n".join([*shown, f"… and {rest} more"] if rest > 0 else shown))


def _plain(text: str) -> Text:
    return Text(text, no_wrap=True)
