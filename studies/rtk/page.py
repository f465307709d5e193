"""The page: the data as tables and, by comparing numbers, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from studies.estimates import Estimate
from studies.rtk.compared import SURE, Row, balance, find, findings, in_short, indistinguishable, signs
from studies.rtk.figures import QUANTITIES
from studies.rtk.methods import CORRECTIONS, LEAPS
from studies.rtk.ring import MODES, VARIANCE
from studies.rtk.scaling import DIMENSION, EPSILON, THEORY
from studies.study import Data, origin
from studies.tables import listed, table
from studies.template import filled

_COUNTS = ("calls", "segments", "steps")


def values(data: Data) -> dict[str, str]:
    """What the page says."""
    return (
        origin(data, "rtk")
        | _ring(data)
        | _segments(data)
        | _scaling(data["scaling"])
        | {
            "processor_seconds": f"{data['processor_seconds']:.0f}",
            "pictures": str(len(data["pictures"])),
            "sure": f"{SURE:g}",
            "in_short": in_short(data),
            "findings": filled("\n".join(f"* {finding}" for finding in findings(data))),
            "indistinguishable": indistinguishable(data),
            "beside_even_steps": signs(data, "even"),
            "beside_geometric_steps": signs(data, "geometric"),
            "parallel_samples": str(data["parallel"]["samples"]),
            "parallel": _parallel(data["parallel"]["rows"]),
            "truncation": f"{data['truncation']:.2g}",
            "every": "\n\n".join(_every(data)),
        }
    )


def _ring(data: Data) -> dict[str, str]:
    """How the ring is drawn and measured."""
    return {
        "modes": str(MODES),
        "variance": str(VARIANCE),
        "first": f"{data['first']:g}",
        "corrections": str(CORRECTIONS),
        "leaps": str(LEAPS),
        "floors": str(data["floor_sets"]),
        "samples": listed([f"{number} samples for d = {d}" for d, number in data["samples"].items()]),
        "step_sizes": listed([f"{c:g}" for c in data["step_sizes"]]),
        "tuning": ", ".join(f"{number} (d = {d})" for d, number in data["tuning"].items()),
    }


def _segments(data: Data) -> dict[str, str]:
    """The theorem's segments, and five even ones beside them."""
    given = data["smoothness"]
    better, same, worse = balance(data, "even", "from L")
    return {
        "largest": f"{given['largest']:.0f}",
        "eta": f"{given['eta']:.2g}",
        "segments": str(given["segments"]),
        "segments_of_each_time": str(given["segments_of_each_time"]),
        "better": str(better),
        "same": str(same),
        "worse": str(worse),
    }


def _parallel(rows: Sequence[Row]) -> str:
    """Rounds, with the drafts' default; and queries of `Coupled`."""
    lines = []
    shown = [row for row in rows if row["spread"] == 1]
    samplers = list(dict.fromkeys(row["sampler"] for row in shown))
    for key in dict.fromkeys((row["target"], row["d"], row["segments"], row["steps"]) for row in shown):
        own = {row["sampler"]: row for row in shown if (row["target"], row["d"], row["segments"], row["steps"]) == key}
        target, d, segments, steps = key
        rounds = [Estimate(own[sampler]["rounds"], own[sampler]["error"]).rounded(1) for sampler in samplers]
        lines.append([f"{target}, d = {d}", f"{segments} x {steps}", *rounds, f"{own['coupled']['queries']:.0f}"])
    return table(["target", "one by one", *samplers, "queries of coupled"], lines)


def _scaling(scaling: dict[str, Any]) -> dict[str, str]:
    fits = {
        (fit["method"], fit["quantity"], fit["against"]): Estimate(fit["slope"], fit["error"])
        for fit in scaling["fits"]
    }
    keys = [(quantity, against) for quantity in ("calls", "1 / step size") for against in ("d", "1 / eps")]
    lines = [[method, theory, *(fits[method, *key].rounded(2) for key in keys)] for method, theory in THEORY.items()]
    heading = ["", "theorem: calls", "calls: power of d", "of 1 / eps", "1 / step size: power of d", "of 1 / eps"]
    mala = fits["RTK-MALA", "steps", "log(1 / eps)"]
    points = [
        [row["method"], str(row["d"]), f"{row['eps']:g}", *(str(row[key]) for key in _COUNTS)]
        for row in scaling["rows"]
    ]
    return {
        "number": str(scaling["number"]),
        "epsilon": f"{EPSILON:g}",
        "dimension": str(DIMENSION),
        "slopes": table(heading, lines),
        "cheapest": " ".join(fewest_calls(scaling["rows"])),
        "slope": f"{mala.value:.1f}",
        "error": f"{mala.error:.1f}",
        "points": table(["", "d", "eps", *_COUNTS], points),
        "constructors": _constructors(scaling["theory"]),
    }


def fewest_calls(rows: Sequence[Row]) -> Iterator[str]:
    """In how many of the cells that all methods have each one needs the fewest calls."""
    cells: dict[tuple[int, float], dict[str, int]] = {}
    for row in rows:
        cells.setdefault((row["d"], row["eps"]), {})[row["method"]] = row["calls"]
    full = [cell for cell in cells.values() if len(cell) == len(THEORY)]
    for method in THEORY:
        wins = sum(cell[method] == min(cell.values()) for cell in full)
        yield f"{method} needs the fewest calls in {wins} of the {len(full)} cells that all three have."


def _constructors(rows: Sequence[Row]) -> str:
    lines = [
        [f"d = {row['d']}, eps = {row['eps']:g}", *(str(row[key]) for key in _COUNTS), f"{row['distance']:.4f}"]
        for row in rows
    ]
    return table(["target", *_COUNTS, "total variation"], lines)


def _every(data: dict[str, Any]) -> Iterator[str]:
    budgets = sorted({row["budget"] for row in data["rows"]})
    for d in map(int, data["samples"]):
        yield f"### d = {d}"
        floor = data["floors"][str(d)]
        exact = " / ".join(_digits(quantity, floor[quantity]["mean"]) for quantity in QUANTITIES)
        lines = [["exact samples", *([exact] + [""] * (len(budgets) - 1))]]
        for method, grid in dict.fromkeys((row["method"], row["grid"]) for row in data["rows"]):
            found = [find(data, d, method, grid, budget) for budget in budgets]
            lines.append([f"{method}, {grid}", *map(_cell, found)])
        yield table(["calls at most", *map(str, budgets)], lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    values = " / ".join(_digits(quantity, row[quantity]) for quantity in QUANTITIES)
    return values if row["c"] is None else f"{values} ({row['c']:g})"


def _digits(quantity: str, value: float) -> str:
    return f"{value:.4f}" if quantity == "wasserstein" else f"{value:.3f}"
