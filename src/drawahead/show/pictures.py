"""What a sample looks like: letters, tiles, strokes, pixels or numbers.

Each is HTML for pages and notebooks; all but numbers are also data, which a page's film and `painting` draw.
"""

from __future__ import annotations

import abc
import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""(height, width) greys or (height, width, 3) colours."""


def data_uri(pixels: Pixels) -> str:
    """The picture as an address that holds all of it."""
    return "data:image/png;base64," + base64.b64encode(encoded(pixels)).decode("ascii")


def encoded(pixels: Pixels) -> bytes:
    """The picture as a PNG file: 8 bits a channel, no filters."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = np.ascontiguousarray(pixels).reshape(height, -1)
    data = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1).tobytes()  # each line: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(data, 9)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


_MOST_LETTERS = 4000
"""Of one sample in a gallery."""


class Picture(abc.ABC):
    """One sample, ready to be shown."""

    @abc.abstractmethod
    def html(self, label: str) -> str:
        """The whole sample; `label` tells those who cannot see it what it is."""


class Drawing(Picture):
    """A picture that can be drawn part by part, or frame by frame."""

    @abc.abstractmethod
    def data(self) -> dict[str, Any]:
        """The parts, in the order of their numbers, or the frames, ready for json.dumps."""


@final
@dataclass(frozen=True)
class Letters(Drawing):
    """A sequence: a character, a word or a number for each position."""

    letters: tuple[str, ...]

    @property
    def tight(self) -> bool:
        """Whether nothing stands between them."""
        return all(len(letter) <= 1 for letter in self.letters)

    @property
    def text(self) -> str:
        return ("" if self.tight else " ").join(self.letters)

    def html(self, label: str) -> str:
        text = self.text
        cut = f"{text[:_MOST_LETTERS]}…" if len(text) > _MOST_LETTERS else text
        return f'<p class="letters" aria-label="{escape(label)}">{escape(cut)}</p>'

    def data(self) -> dict[str, Any]:
        return {"kind": "letters", "letters": list(self.letters), "tight": self.tight}


@final
@dataclass(frozen=True)
class Tiles(Drawing):
    """Coloured rectangles (x, y, width, height, number of the colour) in a box (x, y, width, height)."""

    box: tuple[float, float, float, float]
    tiles: tuple[tuple[float, float, float, float, int], ...]
    colours: tuple[str, ...]

    def html(self, label: str) -> str:
        shapes = "".join(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{self.colours[colour]}"/>'
            for x, y, width, height, colour in self.tiles
        )
        box = " ".join(f"{value:g}" for value in self.box)
        return f'<svg class="tiles" viewBox="{box}" role="img" aria-label="{escape(label)}">{shapes}</svg>'

    def data(self) -> dict[str, Any]:
        tiles = [list(tile) for tile in self.tiles]
        return {"kind": "tiles", "box": list(self.box), "tiles": tiles, "colours": list(self.colours)}


@final
@dataclass(frozen=True)
class Strokes(Drawing):
    """Lines (x, y, x, y, number of the colour) with round ends, on a ground of fainter ones; a line of no length is a
    dot. `width` and `faint` are how thick they are."""

    box: tuple[float, float, float, float]
    lines: tuple[tuple[float, float, float, float, int], ...]
    colours: tuple[str, ...]
    ground: tuple[tuple[float, float, float, float], ...] = ()
    width: float = 0.3
    faint: float = 0.3

    def html(self, label: str) -> str:
        ground = f'class="ground" stroke-width="{self.faint:g}"'
        faint = "".join(_line(line, ground) for line in self.ground)
        shapes = "".join(_line(line[:4], f'stroke="{self.colours[line[4]]}"') for line in self.lines)
        box = " ".join(f"{value:g}" for value in self.box)
        return (
            f'<svg class="strokes" viewBox="{box}" stroke-width="{self.width:g}" stroke-linecap="round" role="img" '
            f'aria-label="{escape(label)}">{faint}{shapes}</svg>'
        )

    def data(self) -> dict[str, Any]:
        lines, ground = [list(line) for line in self.lines], [list(line) for line in self.ground]
        own = {"box": list(self.box), "lines": lines, "colours": list(self.colours), "ground": ground}
        return {"kind": "strokes", "width": self.width, "faint": self.faint} | own


def _line(ends: tuple[float, ...], style: str) -> str:
    x1, y1, x2, y2 = ends
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {style}/>'


@final
@dataclass(frozen=True, eq=False)
class Bitmap(Drawing):
    """Pixels."""

    pixels: Pixels

    def html(self, label: str) -> str:
        height, width = self.pixels.shape[:2]
        return (
            f'<img class="bitmap" src="{data_uri(self.pixels)}" width="{width}" height="{height}" '
            f'alt="{escape(label)}">'
        )

    def data(self) -> dict[str, Any]:
        return strip([self.pixels], [0], smooth=True)


def strip(frames: Sequence[Pixels], at: Sequence[int], *, smooth: bool) -> dict[str, Any]:
    """Frames of one size as one picture, side by side in lines; frame i is what there is after step at[i]."""
    height, width = frames[0].shape[:2]
    columns = math.ceil(math.sqrt(len(frames)))
    filled = [*frames, *[np.zeros_like(frames[0])] * (-len(frames) % columns)]
    lines = [np.concatenate(filled[i : i + columns], axis=1) for i in range(0, len(filled), columns)]
    size = {"width": width, "height": height, "columns": columns}
    return {"kind": "frames", "uri": data_uri(np.concatenate(lines)), "at": list(at), "smooth": smooth, **size}


@final
@dataclass(frozen=True)
class Numbers(Picture):
    """A vector as text."""

    values: tuple[float, ...]
    total: int
    """How many entries the vector has; only the first are held."""

    def html(self, label: str) -> str:
        text = " ".join(f"{value:+.2f}" for value in self.values)
        more = f" … ({self.total} in all)" if self.total > len(self.values) else ""
        return f'<p class="numbers" aria-label="{escape(label)}">{escape(text + more)}</p>'
