"""How rounds grow with the size of a board that is tiled with dominoes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drawahead import tilings
from drawahead.counting.matchings.planar import PlanarMatching
from drawahead.report import Report
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Sampler
from drawahead.samplers.separated import Separated
from drawahead.show import plots
from studies.estimates import Estimate, mean
from studies.growth.measure import Measurement, unmeasured
from studies.growth.slopes import slopes
from studies.growth.tables import Cell, exponent, number
from studies.study import Data, Stamp, Study, Watch, origin, quick_option
from studies.tables import table


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


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Every sampler on square boards. The time to build a board's matrix is not in it."""
    stamp, cells = Stamp(arguments), []
    sides = [side for side in SAMPLES if side <= (16 if arguments.quick else 128)]
    for done, side in enumerate(sides):
        target = tilings.dominoes("square", side)
        _ = target.separators
        cells += [_measure(row, target, side).to_dict() for row in ROWS if row.sampler is None or side <= row.side]
        watch(f"{side} x {side}", done + 1, len(sides))
    cells.sort(key=lambda cell: [row.name for row in ROWS].index(cell["sampler"]))
    return stamp.made() | {"measurements": cells, "slopes": slopes(cells)}


def _measure(row: Row, target: PlanarMatching, side: int) -> Measurement:
    labels: dict[str, Any] = {"target": "dominoes", "sampler": row.name, "order": "random", "n": side**2}
    if row.sampler is None:
        return unmeasured(labels, "by definition", float(side**2), "one step a round")
    # One at a time: what a single tiling takes.
    reports = [sample(target, sampler=row.sampler, seed=seed).report for seed in range(SAMPLES[side])]

    def over(quantity: Callable[[Report], float]) -> Estimate:
        return mean(map(quantity, reports))

    rounds, queries = over(lambda report: report.rounds), over(lambda report: report.queries)
    return Measurement(
        **labels,
        samples=len(reports),
        finished=len(reports),
        rounds=rounds.value,
        rounds_error=rounds.error,
        queries=queries.value,
        queries_error=queries.error,
        acceptance=over(lambda report: report.acceptance).value,
        candidates=None,
        seconds=over(lambda report: report.seconds).value,
        status="measured",
    )


def values(data: Data) -> dict[str, str]:
    """What the page says."""
    cells = data["measurements"]
    later = slopes([cell for cell in cells if cell["n"] >= 16**2])
    overall, from_16 = (
        {slope["sampler"]: slope for slope in found if slope["quantity"] == "rounds"}
        for found in (slopes(cells), later)
    )
    fits = [[name, exponent(slope), exponent(from_16.get(name))] for name, slope in overall.items()]
    return origin(data, "matchings") | {
        "rounds": _by_board(cells, ROWS, lambda cell: number(cell, "rounds")),
        "queries": _by_board(cells, ROWS, lambda cell: number(cell, "queries")),
        "times": _by_board(cells, ROWS[1:], lambda cell: "-" if cell is None else f"{cell['seconds']:.2f}"),
        "slopes": table(["sampler", "all sizes", "from 16 x 16"], fits),
    }


def _by_board(cells: Sequence[Cell], rows: Sequence[Row], shown: Callable[[Cell | None], str]) -> str:
    sizes = sorted({cell["n"] for cell in cells})
    found = {(cell["sampler"], cell["n"]): cell for cell in cells}
    lines = [[row.name, *(shown(found.get((row.name, n))) for n in sizes)] for row in rows]
    return table(["sampler", *(f"{round(n**0.5)} x {round(n**0.5)}" for n in sizes)], lines)


def figure(data: Data, path: Path) -> None:
    """Rounds against squares."""
    cells = data["measurements"]
    sizes = sorted({cell["n"] for cell in cells})
    with plots.canvas(path, 6.4, 4.2) as canvas:
        axes = canvas.add_subplot()
        low, high = sizes[0], sizes[-1]
        for power, name in ((1 / 2, "n$^{1/2}$"), (1 / 4, "n$^{1/4}$")):
            ends = [3 * n**power * 8 ** (0.5 - power * 2) for n in (low, high)]
            axes.plot([low, high], ends, color="#aaaaaa", linewidth=1, linestyle=(0, (1, 2)))
            axes.annotate(name, (high, ends[1]), xytext=(5, -3), textcoords="offset points", color="#666666")
        for row in ROWS:
            own = [cell for cell in cells if cell["sampler"] == row.name]
            n, rounds = [cell["n"] for cell in own], [cell["rounds"] for cell in own]
            axes.plot(n, rounds, color=row.colour, marker=row.marker, markersize=5, linewidth=1.5, label=row.name)
        axes.set(xscale="log", yscale="log", xlabel="squares n", ylabel="rounds per tiling")
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:g}")
        canvas.legend(loc="outside right center")


def diamond(data: Data, path: Path) -> None:
    """A tiling of an Aztec diamond, drawn anew: it is not among the data. After a quick run a small one."""
    quick = max(cell["n"] for cell in data["measurements"]) <= 16**2
    target = tilings.dominoes("aztec", 8 if quick else 60)
    target.view().draw(sample(target, sampler=Separated(), seed=0).samples, path)


STUDY = Study(
    "matchings",
    measure,
    values,
    {"matchings": figure, "aztec": diamond},
    options=quick_option("small boards, few tilings"),
)
