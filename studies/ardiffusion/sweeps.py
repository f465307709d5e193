"""The terms of the bound, each varied alone: exponents of the KL, of the path KL and of the bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from studies.ardiffusion.bound import Case, measured
from studies.estimates import slope


@dataclass(frozen=True)
class Sweep:
    """One thing varied. Exponents are of KL ~ x^exponent, or of KL ~ exp(exponent x) where `exponential`."""

    name: str
    term: str
    cases: tuple[tuple[float, Case], ...]
    exponential: bool = False


def sweeps(quick: bool = False) -> list[Sweep]:
    """What is varied, and over what."""
    fine = 100 if quick else 500
    durations = (0.5, 0.75, 1.0, 1.25)  # long enough to be small, short enough to outweigh the discretisation
    steps = (12, 24, 48, 96) if quick else (30, 60, 120, 240, 480)
    score = Case(duration=6.0, steps=60)

    def each(values: Sequence[float], make: Callable[[float], Case]) -> tuple[tuple[float, Case], ...]:
        return tuple((value, make(value)) for value in values)

    return [
        Sweep(
            "duration T, data off centre",
            "truncation",
            each(durations, lambda t: Case(shift=2.0, duration=t, steps=fine)),
            exponential=True,
        ),
        Sweep(
            "duration T, data centred",
            "truncation",
            each(durations, lambda t: Case(variance=4.0, duration=t, steps=fine)),
            exponential=True,
        ),
        Sweep("step length eta", "discretisation", each([6 / n for n in steps], lambda x: Case(steps=round(6 / x)))),
        Sweep(
            "dimension d, K = 2",
            "discretisation",
            each([4, 8, 16], lambda d: Case(size=int(d) // 2)),
        ),
        Sweep(
            "number of parts K, d = 16",
            "discretisation",
            each([1, 2, 4, 8, 16], lambda k: Case(number=int(k), size=16 // int(k))),
        ),
        Sweep(
            "smoothness L, steps of 0.01",
            "discretisation",
            each([2, 4, 8, 16], lambda smooth: Case(variance=1 / smooth, steps=600)),
        ),
        Sweep("score error eps", "score", each([0.05, 0.1, 0.2, 0.4], lambda e: replace(score, error=e))),
        Sweep(
            "number of parts K, eps = 0.2 each",
            "score",
            each([1, 2, 4, 8], lambda k: Case(number=int(k), size=2, error=0.2)),
        ),
        Sweep(
            "duration T, eps = 0.2",
            "score",
            each([4.0, 6.0, 8.0, 12.0], lambda t: Case(duration=t, steps=round(10 * t), error=0.2)),
        ),
    ]


def study(sweep: Sweep) -> dict[str, Any]:
    """One sweep, measured: the term's own share of the KL, of the path KL and of the bound. Plain values."""
    rows = []
    for x, case in sweep.cases:
        found = measured(case)
        # A constant error of the score moves the mean alone, and errors of the covariance and the mean add up.
        other = measured(replace(case, error=0.0))["kl"] if sweep.term == "score" else 0.0
        rows.append(
            {
                "x": x,
                "kl": found["kl"] - other,
                "path": found[f"path {sweep.term}"],
                "bound": found[f"bound {sweep.term}"],
            }
        )
    return {
        "name": sweep.name,
        "term": sweep.term,
        "exponential": sweep.exponential,
        "rows": rows,
        "exponents": {key: _exponent(rows, key, sweep.exponential) for key in ("kl", "path", "bound")},
    }


def _exponent(rows: Sequence[dict[str, float]], key: str, exponential: bool) -> tuple[float, float]:
    """The slope of log y against x, or log x, and the standard error of the fit."""
    x = [row["x"] for row in rows]
    fit = slope(x if exponential else numpy.log(x), numpy.log([row[key] for row in rows]))
    return fit.value, fit.error
