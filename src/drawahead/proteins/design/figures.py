"""The pictures of a design page, as SVG: logos, recovery, scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from drawahead.proteins.design.folder import Part

_COLOURS = {  # by chemistry, told apart with any kind of colour vision
    **dict.fromkeys("DE", "#D55E00"),
    **dict.fromkeys("KRH", "#0072B2"),
    **dict.fromkeys("STNQ", "#009E73"),
    **dict.fromkeys("FWY", "#CC79A7"),
    **dict.fromkeys("AVLIM", "#8b9197"),
    **dict.fromkeys("GPC", "#E69F00"),
}
_LINE = 60  # places in a line of a logo
_BITS = math.log2(20)
_WIDE, _HIGH = 10.0, 40.0  # of a place


def logo(sequences: Sequence[str], label: str) -> str:
    """What stands at each place of sequences of one length."""
    places = list(zip(*sequences, strict=True))
    lines = [places[i : i + _LINE] for i in range(0, len(places), _LINE)]
    shapes = []
    for row, line in enumerate(lines):
        floor = (row + 1) * (_HIGH + 10) - 8
        shapes += [shape for column, letters in enumerate(line) for shape in _stack(letters, column * _WIDE, floor)]
        shapes += [
            f'<text class="place" x="{column * _WIDE:g}" y="{floor + 6:g}">{row * _LINE + column + 1}</text>'
            for column in range(0, len(line), 10)
        ]
    box = f"0 0 {_WIDE * min(_LINE, len(places)):g} {len(lines) * (_HIGH + 10):g}"
    return f'<svg class="logo" viewBox="{box}" role="img" aria-label="{escape(label)}">{"".join(shapes)}</svg>'


def _stack(letters: Sequence[str], left: float, floor: float) -> list[str]:
    """The letters of a place above each other, the most frequent at the top."""
    shares = {letter: count / len(letters) for letter, count in Counter(letters).items() if letter in _COLOURS}
    information = _BITS + sum(share * math.log2(share) for share in shares.values())
    shapes = []
    for letter, share in sorted(shares.items(), key=lambda item: (item[1], item[0])):
        high = _HIGH * share * information / _BITS
        if high >= 0.5:  # a monospaced capital is about 0.6 wide and 0.72 high
            shapes.append(
                f'<text fill="{_COLOURS[letter]}" transform="translate({left:g} {floor:.1f}) '
                f'scale({_WIDE / 0.6:.2f} {high / 0.72:.2f})">{letter}</text>'
            )
        floor -= high
    return shapes


def recovery(parts: Mapping[str, Part], most: int = 30) -> str:
    """A bar for each of the first structures, from the least to the most."""
    rows = []
    for i, (name, part) in enumerate(list(parts.items())[:most]):
        found = [each.recovery for each in part.designed]
        low, mean, high = min(found), part.mean("recovery"), max(found)
        y, span = 20 * i + 14, 260 * (high - low) + 1
        rows.append(
            f'<text x="0" y="{y}">{escape(name[:22])}</text>'
            f'<rect class="light" x="{160 + 260 * low:.1f}" y="{y - 9}" width="{span:.1f}" height="10"/>'
            f'<rect class="main" x="{159 + 260 * mean:.1f}" y="{y - 11}" width="3" height="14"/>'
            f'<text x="470" y="{y}" text-anchor="end">{mean:.0%}</text>'
        )
    return f'<svg viewBox="0 0 470 {20 * len(rows) + 6}" role="img" aria-label="recovery">{"".join(rows)}</svg>'


def scores(parts: Mapping[str, Part]) -> str:
    """A dot for each sequence, by temperature, and a line at their mean."""
    by_heat: dict[float, list[float]] = {}
    for part in parts.values():
        for each in part.designed:
            by_heat.setdefault(each.temperature, []).append(each.score)
    everything = [score for found in by_heat.values() for score in found]
    low, high = min(everything), max(everything)
    span = (high - low) or 1.0
    shapes = [f'<text x="0" y="{y}">{value:.2f}</text>' for y, value in ((14, high), (214, low))]
    for i, (heat, found) in enumerate(sorted(by_heat.items())):
        x = 60 + (i + 0.5) * 400 / len(by_heat)
        for j, score in enumerate(found[:400]):
            y = 210 - 200 * (score - low) / span
            shapes.append(f'<circle class="light" cx="{x - 12 + 24 * (j * 0.618 % 1):.1f}" cy="{y:.1f}" r="2.5"/>')
        y = 210 - 200 * (sum(found) / len(found) - low) / span
        shapes.append(f'<rect class="main" x="{x - 20:.1f}" y="{y - 1:.1f}" width="40" height="2"/>')
        shapes.append(f'<text x="{x:.1f}" y="232" text-anchor="middle">T = {heat:g}</text>')
    return f'<svg viewBox="0 0 470 236" role="img" aria-label="score against temperature">{"".join(shapes)}</svg>'
