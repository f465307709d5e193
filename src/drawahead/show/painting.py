"""Pictures as pixels, by Pillow, which matplotlib brings along: pip install 'drawahead[plots]'.

It paints what a page shows, from the same data (`Drawing.data`), whole or as far as it had come after some round: for
files, and frame by frame for films.
"""

from __future__ import annotations

import base64
import functools
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from drawahead.show import plots
from drawahead.show.pictures import Drawing

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

PAPER, CARD, INK, SOFT, EMPTY, FRESH = "#faf9f6", "#ffffff", "#1d2226", "#5a6168", "#e9e6de", "#ffe2a8"
ACCENT, GREY, WARNING = "#0b6e64", "#8b9197", "#d59a1c"
_FINER = 3  # painted so many times larger, then made smaller: edges are smooth
_SIDE = 320
_SHEET, _UNIT, _IMAGE = 1600, 40, 144  # pixels of all pictures in a file; of a square or a step of a grid; of an image
_LETTER = (9, 17)  # the room of a letter

State = Callable[[int], str]
"""Of part i: "missing", "fresh" or "there"."""


def whole(part: int) -> str:
    """Every part is there."""
    return "there"


def draw(pictures: Sequence[Drawing], path: str | Path) -> None:
    """Write pictures, as a grid as square as their number allows, in the format that the file's name tells."""
    data = [picture.data() for picture in pictures]
    painted = [paint(picture, _size(picture, len(data))) for picture in data]
    columns = math.ceil(math.sqrt(len(painted)))
    tiled([painted[i : i + columns] for i in range(0, len(painted), columns)]).save(path)


def _size(picture: Mapping[str, Any], number: int) -> int:
    """Of one of so many pictures in a file, so that its finest parts can be seen."""
    room = round(_SHEET / math.sqrt(number))
    if picture["kind"] == "frames":
        return max(_IMAGE, min(room, int(max(picture["width"], picture["height"]))))
    return max(_SIDE, min(room, max(2 * _SIDE, int(_UNIT * max(picture["box"][2:])))))


def animated(frames: Sequence[Image], milliseconds: int | Sequence[int], colours: int = 128) -> bytes:
    """Images one after another as a GIF that begins anew when it ends."""
    from PIL import Image

    # Most colours are those of the end; the others those of an earlier frame, where fresh parts stand out, or noise.
    few = colours // 4
    end, early = frames[-1].quantize(colours - few), frames[len(frames) // 3].quantize(few)
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(end.getpalette() or ()), *(early.getpalette() or ())][: 3 * colours])
    shown = [frame.quantize(colours, palette=palette, dither=Image.Dither.NONE) for frame in frames]
    file, times = io.BytesIO(), milliseconds if isinstance(milliseconds, int) else list(milliseconds)
    shown[0].save(file, "GIF", save_all=True, append_images=shown[1:], duration=times, loop=0, optimize=True)
    return file.getvalue()


def tiled(rows: Sequence[Sequence[Image]], gap: int = 12) -> Image:
    """Images side by side and one below the other."""
    from PIL import Image

    width = max(image.width for row in rows for image in row)
    height = max(image.height for row in rows for image in row)
    columns = max(map(len, rows))
    sheet = Image.new("RGB", (columns * (width + gap) + gap, len(rows) * (height + gap) + gap), CARD)
    for i, row in enumerate(rows):
        for j, image in enumerate(row):
            sheet.paste(image, (gap + j * (width + gap), gap + i * (height + gap)))
    return sheet


def paint(picture: Mapping[str, Any], side: int = _SIDE, state: State = whole, step: float = math.inf) -> Image:
    """A picture as `Drawing.data` tells it, no wider or higher than `side`: its parts in these states, or the frame
    that shows this step."""
    plots.check()
    if picture["kind"] == "frames":
        return _frame(picture, side, step)
    if picture["kind"] == "letters":
        return _letters(picture, side, state)
    from PIL import Image, ImageDraw

    left, top, width, height = picture["box"]
    scale = _FINER * side / max(width, height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    sheet = Image.new("RGB", size, CARD)
    brush = _Brush(ImageDraw.Draw(sheet), scale, left, top)
    (_tiles if picture["kind"] == "tiles" else _strokes)(brush, picture, state)
    return sheet.resize((max(1, size[0] // _FINER), max(1, size[1] // _FINER)), Image.Resampling.BOX)


@final
@dataclass(frozen=True)
class _Brush:
    """Paints in the units of a picture."""

    sheet: ImageDraw
    scale: float
    left: float
    top: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (x - self.left) * self.scale, (y - self.top) * self.scale

    def box(self, x: float, y: float, width: float, height: float, colour: str, gap: float = 0.035) -> None:
        if 2 * gap * self.scale < 1:  # too fine to be seen
            gap = 0
        (a, b), (c, d) = self.at(x + gap, y + gap), self.at(x + width - gap, y + height - gap)
        self.sheet.rectangle((a, b, max(a, c - 1), max(b, d - 1)), fill=colour)

    def line(self, ends: Sequence[float], colour: str, width: float) -> None:
        first, last, radius = self.at(ends[0], ends[1]), self.at(ends[2], ends[3]), width * self.scale / 2
        self.sheet.line((first, last), fill=colour, width=max(1, round(2 * radius)))
        for x, y in (first, last):
            self.sheet.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)


def _tiles(brush: _Brush, picture: Mapping[str, Any], state: State) -> None:
    for i, (x, y, width, height, colour) in enumerate(picture["tiles"]):
        now = state(i)
        if now == "fresh":
            brush.box(x, y, width, height, INK, 0.0)
        shown = EMPTY if now == "missing" else picture["colours"][colour]
        brush.box(x, y, width, height, shown, 0.1 if now == "fresh" else 0.035)


def _strokes(brush: _Brush, picture: Mapping[str, Any], state: State) -> None:
    for ends in picture["ground"]:
        brush.line(ends, EMPTY, picture["faint"])
    for i, (*ends, colour) in enumerate(picture["lines"]):
        now = state(i)
        if now != "missing":
            brush.line(ends, WARNING if now == "fresh" else picture["colours"][colour], picture["width"])


def _letters(picture: Mapping[str, Any], side: int, state: State) -> Image:
    """Letters line by line; words are kept whole where there are words."""
    from PIL import Image, ImageDraw

    across = max(8, side // _LETTER[0])
    places, column, line = [], 0, 0
    for letter in picture["letters"]:
        room = max(1, len(letter)) + (not picture["tight"])
        if column and column + room > across:
            column, line = 0, line + 1
        places.append((column, line))
        column += room
    sheet = Image.new("RGB", (across * _LETTER[0], (line + 1) * _LETTER[1]), CARD)
    pen = ImageDraw.Draw(sheet)
    for i, (letter, (column, line)) in enumerate(zip(picture["letters"], places, strict=True)):
        now, (x, y) = state(i), (column * _LETTER[0], line * _LETTER[1])
        shown = "·" * max(1, len(letter)) if now == "missing" else letter
        if now == "fresh":
            pen.rectangle((x, y, x + len(shown) * _LETTER[0] - 1, y + _LETTER[1] - 1), fill=FRESH)
        pen.text((x, y), shown, font=font(15), fill=GREY if now == "missing" else INK)
    return sheet


def _frame(picture: Mapping[str, Any], side: int, step: float) -> Image:
    """The last frame that is not after a step."""
    from PIL import Image

    width, height, columns = picture["width"], picture["height"], picture["columns"]
    number = max(i for i, at in enumerate(picture["at"]) if i == 0 or at <= step)
    left, top = number % columns * width, number // columns * height
    way = Image.Resampling.BICUBIC if picture["smooth"] else Image.Resampling.NEAREST
    scale = side / max(width, height)
    image = _strip(picture["uri"]).crop((left, top, left + width, top + height))
    return image.resize((round(width * scale), round(height * scale)), way)


@functools.lru_cache(8)
def _strip(uri: str) -> Image:
    """All frames of a film of vectors."""
    from PIL import Image

    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGB")


@functools.cache
def font(size: int, bold: bool = False, mono: bool = True) -> FreeTypeFont:
    """One of the typefaces that come with matplotlib."""
    import matplotlib
    from PIL import ImageFont

    name = f"DejaVuSans{'Mono' if mono else ''}{'-Bold' if bold else ''}.ttf"
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size)
