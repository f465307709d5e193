"""The page of the RTK benchmark: its data as tables and, by comparing numbers, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from drawahead.bench import rtk_words
from drawahead.bench.page import exponent, origin, table
from drawahead.bench.rtk_compared import (
    SIGNS,
    SURE,
    Row,
    balance,
    filled,
    find,
    findings,
    in_short,
    indistinguishable,
    listed,
    signs,
)
from drawahead.bench.rtk_figures import QUANTITIES
from drawahead.bench.rtk_methods import CORRECTIONS, LEAPS
from drawahead.bench.rtk_ring import MODES, VARIANCE
from drawahead.bench.rtk_scaling import DIMENSION, EPSILON, THEORY


def page(bench: dict[str, Any]) -> str:
    """The whole page, from the data that `rtk.json` holds."""
    scaling = bench["scaling"]
    parts = [
        "# Reverse transition kernels (RTK)",
        _origin(bench),
        rtk_words.WHAT,
        f"![{len(bench['pictures'])} sets of samples](figures/rtk-samples.png)",
        "## Using it",
        rtk_words.EXAMPLE,
        "### Kernels",
        rtk_words.KERNELS,
        "### A learned score, and energies from it",
        rtk_words.LEARNED,
        "## The ring of Gaussians",
        "![Three distances against calls for DDPM, RTK-ULD and RTK-MALA](figures/rtk.png)",
        _how(bench),
        "### What was found",
        _BY,
        in_short(bench),
        "\n".join(findings(bench)),
        "### How many calls make samples that cannot be told from exact ones",
        indistinguishable(bench),
        "### RTK-ULD and RTK-MALA against DDPM at equal calls",
        SIGNS,
        *(signs(bench, grid) for grid in ("even", "geometric")),
        "### Every method",
        "![Marginal accuracy against calls for every method](figures/rtk-methods.png)",
        "### The theorem's segments",
        _segments(bench),
        "## ULD in parallel rounds",
        rtk_words.PARALLEL.format(samples=bench["parallel"]["samples"]),
        _parallel(bench["parallel"]["rows"]),
        "## How calls grow",
        "![Calls against d and 1 / eps](figures/rtk-scaling.png)",
        filled(rtk_words.SCALING.format(number=scaling["number"])),
        _scaling(scaling),
        "### The theorem's settings for ULD",
        "What `Segments.from_theory` and `ULD.from_theory` give for the same target, and their exact error.",
        _constructors(scaling["theory"]),
        "## What was decided after looking",
        rtk_words.AFTER_LOOKING.format(first=bench["first"], truncation=bench["truncation"]),
        "## Every measurement",
        "Marginal accuracy / total variation / sliced W1, and the step size c that was chosen.",
        *_every(bench),
    ]
    return "\n\n".join(parts) + "\n"


def _origin(bench: dict[str, Any]) -> str:
    text = origin(bench, "rtk").replace("its figure.", "its figures.")
    return f"{text.removesuffix('.')}: {bench['processor_seconds']:.0f} seconds of one core."


_BY = f"""\
At equal calls and by marginal accuracy; a difference counts if it exceeds {SURE:g} standard deviations of the same
quantity between sets of exact samples."""


def _how(bench: dict[str, Any]) -> str:
    sizes = [f"{number} samples for d = {d}" for d, number in bench["samples"].items()]
    return filled(
        rtk_words.RING.format(
            modes=MODES,
            variance=VARIANCE,
            first=bench["first"],
            corrections=CORRECTIONS,
            leaps=LEAPS,
            floors=bench["floor_sets"],
            samples=listed(sizes),
            step_sizes=listed([f"{c:g}" for c in bench["step_sizes"]]),
            tuning=", ".join(f"{number} (d = {d})" for d, number in bench["tuning"].items()),
        )
    )


def _segments(bench: dict[str, Any]) -> str:
    given = bench["smoothness"]
    better, same, worse = balance(bench, "even", "from L")
    return filled(rtk_words.FROM_L.format(**given, better=better, same=same, worse=worse))


def _parallel(rows: Sequence[Row]) -> str:
    """Rounds, with the drafts' default; and queries of `Coupled`."""
    lines = []
    shown = [row for row in rows if row["spread"] == 1]
    samplers = list(dict.fromkeys(row["sampler"] for row in shown))
    for key in dict.fromkeys((row["target"], row["d"], row["segments"], row["steps"]) for row in shown):
        own = {row["sampler"]: row for row in shown if (row["target"], row["d"], row["segments"], row["steps"]) == key}
        target, d, segments, steps = key
        rounds = [f"{own[sampler]['rounds']:.1f} ± {own[sampler]['error']:.1f}" for sampler in samplers]
        lines.append([f"{target}, d = {d}", f"{segments} x {steps}", *rounds, f"{own['coupled']['queries']:.0f}"])
    return table(["target", "one by one", *samplers, "queries of coupled"], lines)


def _scaling(scaling: dict[str, Any]) -> str:
    fits = {(fit["method"], fit["quantity"], fit["against"]): fit for fit in scaling["fits"]}
    lines = []
    for method, theory in THEORY.items():
        line = [method, theory]
        for quantity in ("calls", "1 / step size"):
            line += [_slope(fits[method, quantity, against]) for against in ("d", "1 / eps")]
        lines.append(line)
    heading = ["", "theorem: calls", "calls: power of d", "of 1 / eps", "1 / step size: power of d", "of 1 / eps"]
    mala = fits["RTK-MALA", "steps", "log(1 / eps)"]
    cheapest = " ".join(fewest_calls(scaling["rows"]))
    points = [
        [row["method"], str(row["d"]), f"{row['eps']:g}", *(str(row[key]) for key in _COUNTS)]
        for row in scaling["rows"]
    ]
    return "\n\n".join(
        [
            f"Slopes of logarithms, with standard errors of the fits, at eps = {EPSILON:g} and at d = {DIMENSION}:",
            table(heading, lines),
            filled(_READING.format(slope=mala["slope"], error=mala["error"], cheapest=cheapest)),
            table(["", "d", "eps", *_COUNTS], points),
        ]
    )


_COUNTS = ("calls", "segments", "steps")
_READING = """\
{cheapest} A theorem bounds the worst target with such an L, so none of this contradicts it. Slopes of calls contain
logarithms, which the theorems' notation leaves out: the segments and the steps a chain needs to forget its start both
grow like log(d / eps^2). The step sizes have no such factor. MALA has no step size that must shrink with eps: its steps
a segment grow by {slope:.1f} ± {error:.1f} for every factor e in 1 / eps, a straight line in log(1 / eps)."""


def fewest_calls(rows: Sequence[Row]) -> Iterator[str]:
    """In how many of the cells that all methods have each one needs the fewest calls."""
    cells: dict[tuple[int, float], dict[str, int]] = {}
    for row in rows:
        cells.setdefault((row["d"], row["eps"]), {})[row["method"]] = row["calls"]
    full = [cell for cell in cells.values() if len(cell) == len(THEORY)]
    for method in THEORY:
        wins = sum(cell[method] == min(cell.values()) for cell in full)
        yield f"{method} needs the fewest calls in {wins} of the {len(full)} cells that all three have."


def _slope(fit: dict[str, Any]) -> str:
    return exponent({"exponent": fit["slope"], "error": fit["error"]})


def _constructors(rows: Sequence[Row]) -> str:
    lines = [
        [f"d = {row['d']}, eps = {row['eps']:g}", *(str(row[key]) for key in _COUNTS), f"{row['distance']:.4f}"]
        for row in rows
    ]
    return table(["asked for", *_COUNTS, "total variation"], lines)


def _every(bench: dict[str, Any]) -> Iterator[str]:
    budgets = sorted({row["budget"] for row in bench["rows"]})
    for d in map(int, bench["samples"]):
        yield f"### d = {d}"
        floor = bench["floors"][str(d)]
        exact = " / ".join(_digits(quantity, floor[quantity]["mean"]) for quantity in QUANTITIES)
        lines = [["exact samples", *([exact] + [""] * (len(budgets) - 1))]]
        for method, grid in dict.fromkeys((row["method"], row["grid"]) for row in bench["rows"]):
            found = [find(bench, d, method, grid, budget) for budget in budgets]
            lines.append([f"{method}, {grid}", *map(_cell, found)])
        yield table(["calls at most", *map(str, budgets)], lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    values = " / ".join(_digits(quantity, row[quantity]) for quantity in QUANTITIES)
    return values if row["c"] is None else f"{values} ({row['c']:g})"


def _digits(quantity: str, value: float) -> str:
    return f"{value:.4f}" if quantity == "wasserstein" else f"{value:.3f}"
