"""The tables of the page, from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from studies.estimates import Estimate, mean
from studies.tables import table

Row = dict[str, Any]
KINDS = ("auto-regressive", "joint")


def shapes(rows: Sequence[Row]) -> str:
    """A line for each task, budget and model."""
    lines = []
    for task in ("across", "within"):
        for steps in sorted({row["steps"] for row in rows}):
            for model in dict.fromkeys(row["model"] for row in rows):
                own = [row for row in rows if (row["task"], row["steps"], row["model"]) == (task, steps, model)]
                loss, bound, error, broken = (
                    mean(row[key] for row in own) for key in ("loss", "bound", "relation_error", "broken")
                )
                furthest = max(max(row["disc_distance"], row["bar_distance"]) for row in own)
                lines.append(
                    [
                        f"{task}, {steps} steps, {model}",
                        str(own[0]["parameters"]),
                        f"{loss.value:.3f}",
                        bound.rounded(0),
                        str(error),
                        f"{100 * broken.value:.0f} %",
                        f"{furthest:.2f}",
                    ]
                )
    heading = ["task and model", "parameters", "training loss", "bound, nats", "relation error", "broken", "distance"]
    return table(heading, lines)


def exact_pairs(rows: Sequence[Row]) -> str:
    """Chains with exact answers."""
    lines = []
    for row in rows:
        cells = [
            f"{own['kl']:.2g} / {own['spread']:.3f} / {Estimate(own['drawn_spread'], own['standard_error']).rounded(3)}"
            for own in (row[kind] for kind in KINDS)
        ]
        lines.append([f"e = {row['width']:g}, {row['calls']} calls", *cells])
    return table(["exact: KL / spread / drawn spread", *KINDS], lines)


def trained_pairs(rows: Sequence[Row]) -> str:
    """Trained networks."""
    lines = []
    for width in dict.fromkeys(row["width"] for row in rows):
        own = [row for row in rows if row["width"] == width]
        cells = [" / ".join(str(mean(row[kind][key] for row in own)) for key in ("kl", "spread")) for kind in KINDS]
        lines.append([f"e = {width:g}", *cells])
    return table(["trained: KL of a Gaussian fit / spread", *KINDS], lines)


def lemma(rows: Sequence[Row]) -> str:
    """The pair of the lemma."""
    lines = [
        [
            f"eps = {row['eps']:g}, M = {row['M']:g}",
            f"{row['joint_kl']:.4g}",
            f"{row['joint_kl_drawn']:.4g} ± {row['joint_kl_error']:.1g}",
            f"{row['conditional_kl_per_x2']:g} x^2",
            f"{row['M'] ** 2:g} x^2",
            f"{row['deviation_of_x']:.2g}",
        ]
        for row in rows
    ]
    return table(["pair", "joint KL", "from draws", "KL(y given x)", "must exceed", "deviation of x"], lines)


def bound(sweeps: Sequence[Row]) -> str:
    """Exponents, and how far below the bound."""
    lines = []
    for sweep in sweeps:
        fits = (sweep["exponents"][key] for key in ("bound", "path", "kl"))
        exponents = [Estimate(*fit).rounded(2) for fit in fits]
        last = sweep["rows"][-1]
        ratios = [f"{last[key] / last['bound']:.2g}" for key in ("path", "kl")]
        lines.append([f"{sweep['term']}: {sweep['name']}", *exponents, *ratios])
    return table(["term: what is varied", "bound", "path KL", "KL", "path KL / bound", "KL / bound"], lines)


def rounds(rows: Sequence[Row]) -> str:
    """A column for each number of parts."""
    numbers = sorted({row["number"] for row in rows})
    kinds = dict.fromkeys((row["inner"], row["dependence"], row["sampler"]) for row in rows)
    lines = []
    for kind in kinds:
        own = {row["number"]: row for row in rows if (row["inner"], row["dependence"], row["sampler"]) == kind}
        cells = [f"{own[number]['rounds']:.1f} / {own[number]['queries']:.0f}" for number in numbers]
        lines.append([", ".join(kind), *cells])
    return table(["rounds / queries, K =", *map(str, numbers)], lines)


def timed(rows: Sequence[Row]) -> str:
    """One image of a trained model."""
    lines = [
        [
            f"K = {row['number']}, {row['inner']}, {row['sampler']}",
            Estimate(row["rounds"], row["rounds_error"]).rounded(1),
            f"{row['queries']:.0f}",
            f"{1000 * row['seconds']:.0f}",
            f"{row['ratio']:.1f}",
        ]
        for row in rows
    ]
    return table(["model and sampler", "rounds", "queries", "ms", "times less"], lines)
