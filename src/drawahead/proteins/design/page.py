"""The page of a design job: tables and pictures of the designs, and a film of how one of them was sampled."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

import torch

from drawahead.errors import InputError
from drawahead.proteins.design import sources
from drawahead.proteins.design.designer import Designer
from drawahead.proteins.design.folder import Part
from drawahead.proteins.design.job import DesignJob, settings
from drawahead.proteins.design.options import Options
from drawahead.proteins.design.problem import sample_numbers
from drawahead.sample import sample
from drawahead.samplers import Coupled
from drawahead.show.films.film import Film, film, filmable
from drawahead.show.pages.document import assembled, figure, row
from drawahead.show.summary import Figure, short

_SCRIPTS = ("draw.js", "pictures.js", "film.js", "design.js")
_LOGOS = 12  # structures whose logo is shown: a page with more would be slow
_COLUMNS = ("structure", "steps", "passes", "best score", "recovery")
_LONGEST = 600  # places of a logo
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


def page(job: DesignJob) -> str:
    """The page. For the film one sequence is drawn again, which takes a few passes."""
    options, paths = settings(job.folder)
    parts = job.parts
    if not parts:
        raise InputError("a page needs at least one structure that was designed")
    sequences = [each for part in parts.values() for each in part.designed]
    rounds = short(sum(each.rounds for each in sequences) / len(sequences))
    steps = short(sum(part.steps * len(part.designed) for part in parts.values()) / len(sequences))
    shown = [
        Figure(f"{len(parts):,}", "structure" + "s" * (len(parts) != 1)),
        Figure(f"{len(sequences):,}", "sequence" + "s" * (len(sequences) != 1), f"{steps} steps each, on average"),
        Figure(rounds, "passes per sequence", f"{steps} one by one"),
        Figure(f"{sum(each.recovery for each in sequences) / len(sequences):.0%}", "recovery"),
    ]
    logos = "".join(_logo(name, part) for name, part in list(parts.items())[:_LOGOS])
    return assembled(
        "design.html",
        _SCRIPTS,
        {},
        _film(next(iter(parts)), options, paths),
        title="Designed sequences",
        eyebrow=escape(", ".join(list(parts)[:5]) + (" ..." if len(parts) > 5 else "")),
        headline=escape(f"{steps} steps in {rounds} passes per sequence."),
        sentences="Exact: the sequences have the same distribution as when decoded one by one.",
        note=escape("; ".join(f"{name}: {why}" for name, why in job.failed.items())),
        figures="".join(map(figure, shown)),
        recovery=_recovery(parts),
        scores=_scores(parts),
        logos=f'<div class="logos">{logos}</div>',
        logos_note=escape(f"The first {_LOGOS} of {len(parts)} structures." if len(parts) > _LOGOS else ""),
        table=_table(parts),
        about="".join(row(name, value) for name, value in _about(options).items()),
    )


def _logo(name: str, part: Part) -> str:
    sequences = [each.sequence.replace("/", "")[:_LONGEST] for each in part.designed]
    picture = _letters(sequences, f"the logo of {name}")
    return f"<figure><figcaption>{escape(name)}</figcaption>{picture}</figure>"


def _table(parts: Mapping[str, Part]) -> str:
    rows = ["".join(f"<th scope=col>{name}</th>" for name in _COLUMNS)]
    for name, part in parts.items():
        best = min(each.score for each in part.designed)
        cells = [name, part.steps, short(part.mean("rounds")), f"{best:.3f}", f"{part.mean('recovery'):.0%}"]
        rows.append("".join(f"<td>{escape(str(cell))}</td>" for cell in cells))
    return "".join(f"<tr>{cells}</tr>" for cells in rows)


def _about(options: Options) -> dict[str, object]:
    import drawahead

    usual = Options().to_dict()
    own = {name: value for name, value in options.to_dict().items() if value != usual[name] or name in ("num", "seed")}
    versions = f"drawahead {drawahead.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    return {"model": options.model, **own, "page made with": versions}


def _film(name: str, options: Options, paths: Sequence[str]) -> Film | None:
    """How the first sequence of a structure was sampled; it is drawn again, on the CPU."""
    heat = options.temperature[0]
    designer = Designer.of(options, torch.device("cpu"))
    problem = designer.problem(name, designer.read(sources.find(paths)[0][name]))
    chain = problem.chain(sample_numbers(name, heat, 1), torch.tensor([heat]))
    result = sample(chain, 1, sampler=Coupled(), seed=options.seed)
    return film(chain, result, 1) if filmable(chain, result, None) else None


def _letters(sequences: Sequence[str], label: str) -> str:
    """What stands at each place of sequences of one length."""
    places = list(zip(*sequences, strict=True))
    lines = [places[i : i + _LINE] for i in range(0, len(places), _LINE)]
    shapes = []
    for i, line in enumerate(lines):
        floor = (i + 1) * (_HIGH + 10) - 8
        shapes += [shape for column, letters in enumerate(line) for shape in _stack(letters, column * _WIDE, floor)]
        shapes += [
            f'<text class="place" x="{column * _WIDE:g}" y="{floor + 6:g}">{i * _LINE + column + 1}</text>'
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


def _recovery(parts: Mapping[str, Part], most: int = 30) -> str:
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


def _scores(parts: Mapping[str, Part]) -> str:
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
