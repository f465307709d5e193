"""The page of the rounds benchmark: its data as Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from drawahead.bench.settings import RECURSIVE_SIZE, SEQUENTIAL_SIZE

Cell = dict[str, Any]


class Goal(NamedTuple):
    """A cost that the library was built to reach."""

    target: str
    sampler: str
    n: int
    quantity: str
    most: int


GOALS = (
    Goal("pairs", "coupled, window n", 1024, "rounds", 4),
    Goal("pairs", "block", 1024, "rounds", 22),
    Goal("dense", "block", 2048, "rounds", 28),
    Goal("dense", "block", 2048, "queries", 5000),
)


_FIGURE = "![Rounds against length for every sampler and target](figures/rounds.png)"

_HOW_TO_READ = """\
A *round* is one batch of oracle queries that waits for the batch before; a *query* is one conditioning. Cells are means
over samples with their standard errors, every sample in its own random order; all samplers here are exact. *Slanted*
numbers hold by definition: a sequential run takes n rounds, measured up to n = {sequential}. The recursion has heavy
tails: it is run up to n = {recursive} and for {seconds:g} seconds of processor time a cell. ≥ marks a run that was
stopped there, its unfinished samples counted with what they had used so far; - marks one that was not tried."""

_FIXED_ORDER = """\
The same *pairs*, x1 = x2, x3 = x4, ..., drawn left to right instead of in a random order. A draft made before a pair
cannot know that its two tokens agree, so half of all pairs are drafted wrongly. Samplers that keep the part of a draft
before its first fault stop after a few steps, however long the window: rounds grow like n. Refining guesses (coupled)
mends all pairs of its window at once and does not mind."""

_CANDIDATES = """\
A rejected segment draws candidates until one is accepted: 1 / TV of them on average, with a heavy tail. Numbers are per
sample; nothing is capped, only stopped where it says so."""


def page(bench: dict[str, Any]) -> str:
    """The whole page, from the data that `rounds.json` holds."""
    cells: list[Cell] = bench["measurements"]
    usual = [cell for cell in cells if cell["order"] == "random"]
    fixed = [cell for cell in cells if cell["order"] != "random"]
    recursive = [cell for cell in usual if cell["sampler"] == "recursive" and cell["status"] != "skipped"]
    targets = list(dict.fromkeys(cell["target"] for cell in usual))
    how_to_read = _HOW_TO_READ.format(
        sequential=SEQUENTIAL_SIZE, recursive=RECURSIVE_SIZE, seconds=bench["recursive_seconds"]
    )
    parts = ["# Rounds and queries against length", origin(bench, "rounds"), _FIGURE, how_to_read]
    goals = _goals(usual)
    if goals:
        parts += ["## What was aimed at", goals]
    for quantity in ("rounds", "queries"):
        parts += [f"## How {quantity} grow", _slopes(bench["slopes"], quantity, targets)]
    parts.append("## Every measurement")
    for target in targets:
        own = [cell for cell in usual if cell["target"] == target]
        parts += [f"### {target}", _by_length(own, bench["sizes"])]
    parts += ["## In a fixed order", _FIXED_ORDER, _by_length(fixed, bench["sizes"])]
    parts += ["## The recursion's candidates", _CANDIDATES, candidates(recursive)]
    return "\n\n".join(parts) + "\n"


def origin(bench: dict[str, Any], name: str) -> str:
    """Where a page comes from."""
    versions = ", ".join(f"{name} {version}" for name, version in bench["versions"].items())
    return (
        f"This page is generated: `{bench['command']}` writes it, [its data](data/{name}.json) and its figure.\n"
        f"Made with {versions} in {bench['seconds']:.0f} seconds."
    )


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; numbers stand to the right."""
    lines = [heading, ["---", *["---:"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(cell: Cell | None, quantity: str) -> str:
    """A measurement with its error, or what stands for it."""
    if cell is None or cell[quantity] is None:
        return "-"
    value, error = cell[quantity], cell[f"{quantity}_error"]
    digits = 1 if quantity == "rounds" else 0
    if cell["status"] == "by definition":
        return f"*{value:.0f}*"
    if cell["status"] == "stopped":
        return f"≥ {value:.{digits}f}"
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def _by_length(cells: Sequence[Cell], sizes: Sequence[int]) -> str:
    rows = []
    for quantity in ("rounds", "queries"):
        for sampler in dict.fromkeys(cell["sampler"] for cell in cells):
            own = {cell["n"]: cell for cell in cells if cell["sampler"] == sampler}
            rows.append([f"{quantity}, {sampler}", *(number(own.get(n), quantity) for n in sizes)])
    return table(["n", *map(str, sizes)], rows)


def _slopes(slopes: Sequence[dict[str, Any]], quantity: str, targets: Sequence[str]) -> str:
    """Exponents: a line for each sampler, a column for each target."""
    usual = [slope for slope in slopes if slope["quantity"] == quantity and slope["order"] == "random"]
    rows = []
    for sampler in dict.fromkeys(slope["sampler"] for slope in usual):
        own = {slope["target"]: slope for slope in usual if slope["sampler"] == sampler}
        rows.append([sampler, *(exponent(own.get(target)) for target in targets)])
    text = f"The slope of log {quantity} against log n, with the standard error of the fit."
    return f"{text}\n\n{table(['sampler', *targets], rows)}"


def exponent(slope: dict[str, Any] | None) -> str:
    """A slope with its error."""
    if slope is None:
        return "-"
    return f"{round(slope['exponent'], 2) + 0.0:.2f} ± {slope['error']:.2f}"  # + 0.0: never "-0.00"


def _goals(cells: Sequence[Cell]) -> str:
    rows = []
    for goal in GOALS:
        for cell in cells:
            if (cell["target"], cell["sampler"], cell["n"]) == goal[:3]:
                met = "yes" if cell[goal.quantity] <= goal.most else "no"
                label = f"{goal.target}, n = {goal.n}, {goal.sampler}: {goal.quantity}"
                rows.append([label, f"at most {goal.most}", number(cell, goal.quantity), met])
    return table(["cost", "aim", "measured", "reached"], rows) if rows else ""


def candidates(cells: Sequence[Cell]) -> str:
    """What the recursion cost."""
    rows = [
        [
            f"{cell['target']}, n = {cell['n']}",
            number(cell, "rounds"),
            number(cell, "queries"),
            f"{'≥ ' if cell['status'] == 'stopped' else ''}{cell['candidates']:.1f}",
            f"{cell['finished']} of {cell['samples']}",
        ]
        for cell in cells
    ]
    return table(["target", "rounds", "queries", "candidates", "samples finished"], rows)
