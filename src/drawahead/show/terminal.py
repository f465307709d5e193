"""Samples on a terminal, by rich, which the core does without: pip install 'drawahead[cli]'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from drawahead.show.pictures import Letters
from drawahead.words import counted, printable

PRINTED = 6
"""Samples on a terminal, at most; texts are all printed."""
_SPINS = ("·", "●")
_SHADES = " ░▒▓█"
_WAYS = {(-1, 0): 1, (0, 1): 2, (1, 0): 4, (0, -1): 8}  # up, right, down, left
_JOINTS = " ╹╺┗╻┃┏┣╸┛━┻┓┫┳╋"  # by the ways that lines go from there
_WIDE = 16  # images with more columns are shown small: two rows of pixels a line


def titled(title: str, first: str, padding: int = 1) -> Table:
    """An empty table, its first column the names."""
    table = Table(title=title, title_justify="left", caption_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding, table.show_edge = (0, padding, 0, 0), False
    table.add_column(first, style="bold", no_wrap=True)
    return table


def yes_or_no(value: bool) -> Text:
    """In green or red."""
    return Text("yes", style="green") if value else Text("no", style="red")


def lines(texts: Sequence[str], total: int, width: int) -> Text:
    """Samples line by line, cut where a line ends, and how many more there are."""
    whole = map(printable, texts)
    shown = [text if len(text) <= width else text[: width - 1] + "…" for text in whole]
    rest = total - len(shown)
    return _plain("\n".join([*shown, f"… and {rest} more"] if rest > 0 else shown))


def texts(rows: Iterable[tuple[Letters, int]], blanks: Iterable[int]) -> Table:
    """Texts and the rounds each took; what stands at the positions `blanks` stands out."""
    outstanding = frozenset(blanks)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True, justify="right")
    grid.add_column()
    for number, (picture, rounds) in enumerate(rows):
        if number:
            grid.add_row()
        shown = Text()
        for i, letter in enumerate(picture.letters):
            shown.append("" if picture.tight or not i else " ")
            lines_of_it = "\n".join(map(printable, letter.split("\n")))
            shown.append(lines_of_it, "bold green" if i in outstanding else None)
        grid.add_row(counted(rounds, "round"), shown)
    return grid


def spins(samples: Tensor, width: int) -> Text:
    """Square grids of spins (number, side, side) side by side, as many as fit."""
    side = samples.shape[1]
    grids = samples[: _fitting(width + 5, 2 * side + 4)].tolist()
    rows = ("     ".join(" ".join(_SPINS[v] for v in grid[row]) for grid in grids) for row in range(side))
    return _plain("\n".join(rows))


def images(samples: Tensor, console: Console) -> Text:
    """Images (number, height, width), or (number, 1 or 3, height, width), with values around -1 ... 1 side by side, as
    many as fit."""
    planes = samples[:, None] if samples.dim() == 3 else samples
    samples, columns = planes.mean(1), planes.shape[3]
    if columns <= _WIDE:
        return _plain(_shades(samples[: _fitting(console.width + 3, 2 * columns + 3)]))
    number = _fitting(console.width + 2, columns + 2)
    if console.color_system:
        return _colours(planes[:number])
    return _plain(_shades(_halved(samples[:number]), wide=1, gap=2))


def grid_lines(
    edges: Iterable[tuple[Any, Any]], console: Console, colours: Mapping[tuple[int, int], str] | None = None
) -> Text | None:
    """Edges between neighbouring nodes (row, column) as lines, two characters a node, on these colours where a console
    has any; None, if there are other edges, or more than fit."""
    ways: dict[tuple[int, int], int] = defaultdict(int)
    for u, v in edges:
        if not all(isinstance(node, tuple) and list(map(type, node)) == [int, int] for node in (u, v)):
            return None
        step = v[0] - u[0], v[1] - u[1]
        if step not in _WAYS:
            return None
        ways[u] |= _WAYS[step]
        ways[v] |= _WAYS[-step[0], -step[1]]
    if not ways:
        return None
    (top, bottom), (left, right) = ((min(at), max(at)) for at in zip(*ways, strict=True))
    if 2 * (right - left + 1) > console.width:
        return None
    picture = Text(no_wrap=True)
    for i in range(top, bottom + 1):
        for j in range(left, right + 1):
            joined = ways.get((i, j), 0)
            shown = _JOINTS[joined] + ("━" if joined & _WAYS[0, 1] else " ")
            coloured = colours is not None and console.color_system and (i, j) in colours
            picture.append(shown, f"#ffffff on {colours[i, j]}" if colours and coloured else "")
        picture.append("\n")
    picture.rstrip()
    return picture


def _shades(samples: Tensor, wide: int = 2, gap: int = 3) -> str:
    level = ((samples + 1) / 2 * (len(_SHADES) - 1)).round().clamp(0, len(_SHADES) - 1).long().tolist()
    return "\n".join(
        (" " * gap).join("".join(_SHADES[v] * wide for v in image[row]) for image in level)
        for row in range(len(level[0]))
    )


def _colours(planes: Tensor) -> Text:
    """Images (number, 1 or 3, height, width): each character the colour of two pixels, one above the other."""
    level = ((planes + 1) * 127.5).round().clamp(0, 255).long().expand(-1, 3, -1, -1).movedim(1, -1).tolist()
    picture = Text(no_wrap=True)
    for row in range(0, len(level[0]), 2):
        for image in level:
            below = image[row + 1] if row + 1 < len(image) else [[0, 0, 0]] * len(image[row])
            for (r, g, b), under in zip(image[row], below, strict=True):
                picture.append("▀", f"rgb({r},{g},{b}) on rgb({under[0]},{under[1]},{under[2]})")
            picture.append("  ")
        picture.append("\n")
    picture.rstrip()
    return picture


def _halved(samples: Tensor) -> Tensor:
    """Two rows of pixels as one, for a character is about twice as high as wide."""
    even = samples[:, : samples.shape[1] // 2 * 2]
    return (even[:, ::2] + even[:, 1::2]) / 2


def _fitting(width: int, each: int) -> int:
    return max(1, min(PRINTED, width // each))


def _plain(text: str) -> Text:
    return Text(text, no_wrap=True)
