"""The matchings benchmark: how rounds grow with the size of a board that is tiled with dominoes."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import drawahead
from drawahead import plots, tilings
from drawahead.bench.measure import Measurement
from drawahead.bench.slopes import Slope, slopes
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Sampler
from drawahead.samplers.separated import Separated
from drawahead.targets.matchings import PlanarMatching

Watch = Callable[[str, int, int], None]
"""Called with what was measured last, how much is done, and how much there is."""


class Row(NamedTuple):
    """One sampler, up to the side of the largest board it is run on."""

    name: str
    sampler: Sampler | None
    side: int
    colour: str
    marker: str


ROWS = (
    Row("sequential", None, 0, "#555555", "o"),
    Row("block", Block(), 32, "#0072B2", "^"),
    Row("coupled", Coupled(), 32, "#009E73", "v"),
    Row("separated, block", Separated(Block()), 128, "#E69F00", "s"),
    Row("separated, coupled", Separated(), 128, "#D55E00", "P"),
)
SAMPLES = {8: 40, 16: 20, 32: 10, 64: 4, 128: 2}
"""How many tilings are drawn, by the side of the board."""


def run(folder: Path, *, quick: bool = False, watch: Watch | None = None) -> list[Path]:
    """Measure, then write `data/matchings.json`, `figures/matchings.png`, a picture of an Aztec diamond and
    `matchings.md` under `folder`. -> their paths."""
    plots.check()
    sides = [side for side in SAMPLES if side <= (16 if quick else 128)]
    began = time.perf_counter()
    measurements = measured(sides, watch)
    bench = {
        "command": f"drawahead bench matchings{' --quick' if quick else ''} --out {folder}",
        "versions": {
            "drawahead": drawahead.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "seconds": round(time.perf_counter() - began, 1),
        "measurements": [m.to_dict() for m in measurements],
        "slopes": [slope.to_dict() for slope in slopes(measurements)],
    }
    data, figure, picture, text = (
        folder / name for name in ("data/matchings.json", "figures/matchings.png", "figures/aztec.png", "matchings.md")
    )
    for path in (data, figure, text):
        path.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps(bench, indent=1) + "\n")
    _figure(measurements, figure)
    diamond = tilings.dominoes("aztec", 8 if quick else 60)
    tilings.draw(diamond, sample(diamond, sampler=Separated(), seed=0).samples[0], picture)
    text.write_text(page(bench, measurements))
    return [data, figure, picture, text]


def measured(sides: Sequence[int], watch: Watch | None = None) -> list[Measurement]:
    """Every sampler on square boards of these sides. The time to build a board's matrix is not in it."""
    found = []
    for done, side in enumerate(sides):
        target = tilings.dominoes("square", side)
        _ = target.separators
        found += [_measure(row, target, side) for row in ROWS if row.sampler is None or side <= row.side]
        if watch is not None:
            watch(f"{side} x {side}", done + 1, len(sides))
    return sorted(found, key=lambda m: [row.name for row in ROWS].index(m.sampler))


def _measure(row: Row, target: PlanarMatching, side: int) -> Measurement:
    samples = SAMPLES.get(side, 2) if row.sampler is not None else 0
    means: list[tuple[float, float | None]] = [(float(side**2), None)] * 2
    seconds, acceptance = 0.0, None
    if row.sampler is not None:
        # One at a time: what a single tiling takes.
        reports = [sample(target, sampler=row.sampler, seed=seed).report for seed in range(samples)]
        counts = np.array([(report.rounds, report.queries) for report in reports], dtype=float)
        errors = counts.std(0, ddof=1) / np.sqrt(samples)
        means = [(float(mean), float(error)) for mean, error in zip(counts.mean(0), errors, strict=True)]
        seconds = float(np.mean([report.seconds for report in reports]))
        acceptance = float(np.mean([report.acceptance for report in reports]))
    return Measurement(
        target="dominoes",
        sampler=row.name,
        order="random",
        n=side**2,
        samples=samples,
        finished=samples,
        rounds=means[0][0],
        rounds_error=means[0][1],
        queries=means[1][0],
        queries_error=means[1][1],
        acceptance=acceptance,
        candidates=None,
        seconds=seconds,
        status="by definition" if row.sampler is None else "measured",
        note="one step a round" if row.sampler is None else "",
    )


def _figure(measurements: Sequence[Measurement], path: Path) -> None:
    with plots.canvas(path, 6.4, 4.2) as figure:
        axes = figure.add_subplot()
        low, high = min(m.n for m in measurements), max(m.n for m in measurements)
        for power, name in ((1 / 2, "n$^{1/2}$"), (1 / 4, "n$^{1/4}$")):
            ends = [3 * n**power * 8 ** (0.5 - power * 2) for n in (low, high)]
            axes.plot([low, high], ends, color="#aaaaaa", linewidth=1, linestyle=(0, (1, 2)))
            axes.annotate(name, (high, ends[1]), xytext=(5, -3), textcoords="offset points", color="#666666")
        for row in ROWS:
            own = [m for m in measurements if m.sampler == row.name]
            n, rounds = [m.n for m in own], [m.rounds or 0.0 for m in own]
            axes.plot(n, rounds, color=row.colour, marker=row.marker, markersize=5, linewidth=1.5, label=row.name)
        axes.set(xscale="log", yscale="log", xlabel="squares n", ylabel="rounds a tiling")
        axes.set_xticks(sorted({m.n for m in measurements}), [str(n) for n in sorted({m.n for m in measurements})])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:g}")
        figure.legend(loc="outside right center")


def page(bench: dict[str, Any], measurements: Sequence[Measurement]) -> str:
    """The benchmark as Markdown."""
    sizes = sorted({m.n for m in measurements})
    cell = {(m.sampler, m.n): m for m in measurements}
    head = "| sampler | " + " | ".join(f"{round(n**0.5)} x {round(n**0.5)}" for n in sizes) + " |"
    rule = "| --- |" + " ---: |" * len(sizes)
    tables = {
        "rounds": [_line(row.name, [_with_error(cell.get((row.name, n)), "rounds") for n in sizes]) for row in ROWS],
        "queries": [_line(row.name, [_with_error(cell.get((row.name, n)), "queries") for n in sizes]) for row in ROWS],
        "seconds": [_line(row.name, [_seconds(cell.get((row.name, n))) for n in sizes]) for row in ROWS[1:]],
    }
    from_16 = {slope.sampler: slope for slope in slopes([m for m in measurements if m.n >= 256]) if _of_rounds(slope)}
    fits = [
        _line(slope.sampler, [_fit(slope), _fit(from_16.get(slope.sampler))])
        for slope in slopes(measurements)
        if _of_rounds(slope)
    ]
    versions = ", ".join(f"{name} {version}" for name, version in bench["versions"].items())
    return _PAGE.format(
        command=bench["command"],
        versions=versions,
        seconds=bench["seconds"],
        rounds="\n".join([head, rule, *tables["rounds"]]),
        queries="\n".join([head, rule, *tables["queries"]]),
        times="\n".join([head, rule, *tables["seconds"]]),
        slopes="\n".join(["| sampler | all sizes | from 16 x 16 |", "| --- | ---: | ---: |", *fits]),
    )


def _of_rounds(slope: Slope) -> bool:
    return slope.quantity == "rounds"


def _fit(slope: Slope | None) -> str:
    return "-" if slope is None else f"{slope.exponent:.2f} ± {slope.error:.2f}"


def _line(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def _with_error(m: Measurement | None, quantity: str) -> str:
    if m is None:
        return "-"
    mean, error = getattr(m, quantity), getattr(m, f"{quantity}_error")
    if error is None:
        return f"*{mean:.0f}*"
    return f"{mean:.1f} ± {error:.1f}" if quantity == "rounds" else f"{mean:.0f} ± {error:.0f}"


def _seconds(m: Measurement | None) -> str:
    return "-" if m is None else f"{m.seconds:.2f}"


_PAGE = """\
# Planar matchings: rounds against size

This page is generated: `{command}` writes it, [its data](data/matchings.json) and its figures.
Made with {versions} in {seconds} seconds.

![Rounds against the number of squares](figures/matchings.png)

A uniformly random domino tiling of a square board is a perfect matching of its squares. *Sequential* draws the partner
of one square a round (by definition). *Block* and *coupled* draw the partners of all squares, in a random order.
*Separated* draws the partners of a separator first, O(sqrt n) squares, with the sampler that is named beside it; then
all parts of the board that are left, side by side. All are exact. Cells are means over tilings, drawn one at a time,
with their standard errors; - was not run.

## Rounds

{rounds}

The slope of log rounds against log n, with the standard error of the fit. A board of 8 x 8 is not cut yet, which
makes it cheap: separators begin at 16 x 16.

{slopes}

The slopes depend on where cutting stops and on how many cuts make one separator. Both constants, and the order in which
a separator is drawn, were chosen by trying about fifteen settings on boards of these sizes; cut down to smaller pieces
in uniformly random order, the slope from 8 x 8 to 64 x 64 was 0.4. *Coupled* refines every guess in every round, so on
dominoes it takes few rounds without separators too, fewer than with them on the small boards: there separators save
time and queries, not rounds. The largest boards have two tilings a cell.

## Queries

{queries}

## Seconds a tiling

Without the inverse of the board's matrix, which all tilings share.

{times}

## An Aztec diamond

Far from its middle a random tiling of the Aztec diamond is frozen; the border is close to a circle.

![A random tiling of an Aztec diamond](figures/aztec.png)
"""
