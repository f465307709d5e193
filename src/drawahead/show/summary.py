"""A report in words and figures, and the numbers that a page draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from drawahead.report import Report

_TIMES = "\N{MULTIPLICATION SIGN}"
BARS = 240
"""The most bars of a chart: where there are more rounds, a bar stands for several."""


@final
@dataclass(frozen=True)
class Figure:
    """A number that a page shows large."""

    value: str
    name: str
    remark: str = ""


def headline(report: Report) -> str:
    """The outcome in one sentence."""
    if not report.sample_rounds:
        return "No sample was finished."
    if not report.mean_rounds or not report.steps:
        return "There was nothing to draw: every position was known."
    fewer, rounds = times_fewer(report), short(report.mean_rounds)
    opening = f"{report.steps:,} step{'s' * (report.steps != 1)} in {rounds} round{'s' * (rounds != '1')}"
    if fewer < 1.05:
        return f"{opening} per sample: as many as one by one."
    return f"{opening} per sample, {short(fewer)} times fewer."


def sentences(report: Report) -> list[str]:
    """What the outcome means, and what it cost."""
    law = (
        "the samples have the same distribution as when drawn one by one"
        if report.exact
        else "these samples have another distribution"
    )
    if not report.sample_rounds:
        return []
    said = [f"{'Exact' if report.exact else 'Not exact'}: {law}."]
    if not report.mean_rounds or not report.steps:
        return said
    more = report.queries_per_sample / report.steps
    asked = f"The model answered {short(report.queries_per_sample)} queries per sample"
    if more > 1.005:
        said.append(f"{asked}, where one by one needs {report.steps:,}: {short(more)} times as many.")
    else:
        said.append(f"{asked}, no more than one by one.")
    if report.passes < report.queries:
        passes = short(report.passes / report.num_samples)
        said.append(f"One pass evaluates a whole path, so this took {passes} passes per sample.")
    return said


def figures(report: Report) -> list[Figure]:
    """The numbers to look at first."""
    if not report.sample_rounds:
        return [Figure("0", "samples finished"), Figure(f"{report.rounds:,}", "rounds")]
    shown = [
        Figure(f"{report.num_samples:,}", f"sample{'s' * (report.num_samples != 1)}", f"{report.steps:,} steps each"),
        Figure(short(report.mean_rounds), "rounds per sample", f"{report.rounds:,} in all"),
    ]
    if report.steps:
        more = report.queries_per_sample / report.steps
        shown.append(Figure(f"{short(more)}{_TIMES}", "queries", f"{report.queries:,} in all"))
    if times_fewer(report) >= 1.05:
        shown.insert(
            2, Figure(f"{short(times_fewer(report))}{_TIMES}", "fewer rounds", f"than {report.steps:,} one by one")
        )
    if report.drafted:
        shown.append(Figure(f"{report.acceptance:.0%}", "of drafts kept", f"{report.drafted:,} drafted"))
    shown.append(Figure(seconds(report.seconds), "wall-clock", f"{seconds(report.oracle_seconds)} in the model"))
    return shown


def charts(report: Report) -> dict[str, Any]:
    """The numbers behind the charts, ready for json.dumps."""
    return {
        "steps": report.steps,
        "traced": [_trace(number, steps) for number, steps in report.progress.items() if len(steps) > 1],
        "rounds": rounds(report, BARS),
        "compared": _compared(report),
        "spread": spread(report.sample_rounds) if len(report.sample_rounds) > 1 else None,
    }


def times_fewer(report: Report) -> float:
    """How many times fewer rounds a sample took than steps (NaN if there is none)."""
    return report.steps / report.mean_rounds if any(report.sample_rounds) else math.nan


def short(value: float) -> str:
    """A number as people write it: no digits that say nothing."""
    if not math.isfinite(value):
        return "?"
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 2 else 2
    return f"{value:,.{digits}f}"


def seconds(value: float) -> str:
    """A time as people write it."""
    return f"{short(value)} s" if value >= 1 else f"{1000 * value:.0f} ms"


def _trace(number: int, steps: Sequence[int]) -> dict[str, Any]:
    """Steps committed after every `every` rounds, the last round always among them."""
    every = -(-(len(steps) - 1) // BARS)
    kept = [*steps[:-1:every], steps[-1]]
    return {"number": number, "every": every, "rounds": len(steps) - 1, "committed": kept}


def rounds(report: Report, bars: int) -> dict[str, Any]:
    """Queries, committed steps, judged drafts and those kept, mean a round, of every `every` rounds."""
    counts = {"queries": report.widths, "committed": report.committed, "drafts": report.drafts, "kept": report.kept}
    count = min(map(len, counts.values()))
    every = max(1, -(-count // bars))
    parts = [slice(i, min(i + every, count)) for i in range(0, count, every)]
    means = {name: [sum(of[part]) / (part.stop - part.start) for part in parts] for name, of in counts.items()}
    return {"every": every, "count": count} | means


def _compared(report: Report) -> list[dict[str, Any]]:
    if not report.sample_rounds or not report.steps:
        return []
    pairs = [("rounds per sample", report.mean_rounds), ("queries per sample", report.queries_per_sample)]
    return [
        {"name": name, "sequential": report.steps, "drawahead": value, "told": [f"{report.steps:,}", short(value)]}
        for name, value in pairs
    ]


def spread(taken: Sequence[int]) -> dict[str, Any]:
    """How many samples took how many rounds."""
    low, high = min(taken), max(taken)
    size = -(-(high - low + 1) // 40)
    counted = Counter((each - low) // size for each in taken)
    counts = [counted[i] for i in range((high - low) // size + 1)]
    mean = sum(taken) / len(taken)
    return {"low": low, "size": size, "counts": counts, "mean": mean, "told": short(mean)}
