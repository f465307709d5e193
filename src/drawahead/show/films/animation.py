"""A film as an animated GIF: what a page plays, for slides. It needs Pillow, which the extra `plots` brings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drawahead import validate
from drawahead.errors import InputError
from drawahead.show import painting, plots
from drawahead.show.films.film import Film, Reel
from drawahead.show.painting import ACCENT, CARD, EMPTY, GREY, INK, PAPER, SOFT
from drawahead.validate import short

if TYPE_CHECKING:
    from PIL.Image import Image

_SIDES = {"sequential": "One by one", "drawahead": "drawahead"}
_SIDE, _GAP, _HEAD, _FOOT = 300, 16, 34, 34
_AHEAD, _REST = 60, 24  # frames until drawahead has finished, and after it
_SLOWEST, _QUICKEST, _SECONDS, _HOLD = 500, 40, 4.0, 2500  # milliseconds a frame; how long drawahead takes; the last
_FEW = 100  # parts of a picture, if several fit side by side


def animation(film: Film, path: str | Path | None = None) -> bytes:
    """A film as an animated GIF: one by one on the left, drawahead on the right, with a frame for each round if there
    are few. Written to `path` unless that is None."""
    plots.check()
    file = None if path is None else validate.path("path", path)
    reels = film.reels if _together(film.reels) else film.reels[:1]
    ahead, last = max(len(reel.progress) - 1 for reel in reels), max(reel.steps for reel in reels)
    rounds = frame_rounds(ahead, last)
    frames = [_frame(reels, now, last) for now in rounds]
    pace = round(min(_SLOWEST, max(_QUICKEST, 1000 * _SECONDS / max(1, sum(now <= ahead for now in rounds)))))
    times = [pace if now <= ahead else max(_QUICKEST, pace // 3) for now in rounds[:-1]] + [_HOLD]
    gif = painting.animated(frames, times)
    if file is not None:
        try:
            file.write_bytes(gif)
        except (OSError, ValueError) as error:
            raise InputError(f"the film cannot be written to {short(str(file))}: {error}") from None
    return gif


def frame_rounds(ahead: int, last: int) -> list[int]:
    """After which rounds to show where both sides stand: closely until drawahead has finished, then in larger steps."""
    first = {round(i * ahead / min(ahead, _AHEAD)) for i in range(min(ahead, _AHEAD) + 1)} if ahead else {0}
    left = max(0, last - ahead)
    more = min(left, _REST)
    return sorted(first | {ahead + round((i + 1) * left / more) for i in range(more)})


def _together(reels: Sequence[Reel]) -> bool:
    """Whether all fit side by side: images do, and pictures of few parts."""
    sizes = [reel.picture.get("tiles", reel.picture.get("lines")) for reel in reels]
    return all(
        reel.picture["kind"] == "frames" or (size is not None and len(size) <= _FEW)
        for reel, size in zip(reels, sizes, strict=True)
    )


def _frame(reels: Sequence[Reel], now: int, last: int) -> Image:
    """Where both sides stand after a round."""
    from PIL import Image, ImageDraw

    sides = [_side(reels, side, name, now) for side, name in _SIDES.items()]
    width = 3 * _GAP + sum(side.width for side in sides)
    sheet = Image.new("RGB", (width, 2 * _GAP + sides[0].height + _FOOT), PAPER)
    for i, side in enumerate(sides):
        sheet.paste(side, (_GAP + i * (side.width + _GAP), _GAP))
    pen, low = ImageDraw.Draw(sheet), sides[0].height + 2 * _GAP
    pen.text((_GAP, low), f"round {now:,} of {last:,}", font=painting.font(14, mono=False), fill=SOFT)
    pen.rectangle((_GAP, low + 22, width - _GAP, low + 25), fill=EMPTY)
    pen.rectangle((_GAP, low + 22, _GAP + (width - 2 * _GAP) * now / max(1, last), low + 25), fill=GREY)
    return sheet


def _side(reels: Sequence[Reel], side: str, name: str, now: int) -> Image:
    """One side: its name, how far it is, its pictures, and a bar."""
    from PIL import Image, ImageDraw

    made, total = sum(_reached(reel, side, now) for reel in reels), sum(reel.steps for reel in reels)
    done = made >= total
    each = _SIDE if len(reels) == 1 else (_SIDE - 8) // 2
    pictures = [_picture(reel, side, each, now, done) for reel in reels]
    rows = [pictures[i : i + 2] for i in range(0, len(pictures), 2)]
    body = pictures[0] if len(pictures) == 1 else painting.tiled(rows, 8)
    sheet = Image.new("RGB", (max(_SIDE, body.width) + 24, _HEAD + body.height + 28), CARD)
    pen = ImageDraw.Draw(sheet)
    sheet.paste(body, ((sheet.width - body.width) // 2, _HEAD + 4))
    pen.text((12, 9), name, font=painting.font(15, bold=True, mono=False), fill=INK)
    rounds = max((reel.steps if side == "sequential" else len(reel.progress) - 1) for reel in reels)
    steps = f"{made // len(reels):,} of {total // len(reels):,} steps"
    message = f"finished in {rounds:,} round{'s' * (rounds != 1)}" if done else steps
    font = painting.font(13, mono=False)
    pen.text((sheet.width - 12 - pen.textlength(message, font), 10), message, font=font, fill=ACCENT if done else SOFT)
    low = sheet.height - 14
    pen.rectangle((12, low, sheet.width - 12, low + 3), fill=EMPTY)
    colour = GREY if side == "sequential" else ACCENT
    if made:
        pen.rectangle((12, low, 12 + (sheet.width - 24) * made / max(1, total), low + 3), fill=colour)
    return sheet


def _reached(reel: Reel, side: str, now: int) -> int:
    """How many steps of a reel a side has made after so many rounds."""
    return min(now, reel.steps) if side == "sequential" else reel.progress[min(now, len(reel.progress) - 1)]


def _picture(reel: Reel, side: str, size: int, now: int, done: bool) -> Image:
    """What a side has of a reel after a round."""
    times = reel.picture.get(side, ())

    def state(part: int) -> str:
        return "missing" if times[part] > now else "fresh" if times[part] == now > 0 and not done else "there"

    return painting.paint(reel.picture, size, state, _reached(reel, side, now))
