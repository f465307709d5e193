"""Measured numbers, and what may be said of two of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

_RATIO, _ERRORS = 1.2, 2.0  # a difference is called one from this ratio on, and beyond so many standard errors


@dataclass(frozen=True)
class Value:
    """A mean over seeds with its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        digits = max(0, 2 - math.floor(math.log10(abs(self.mean)))) if self.mean else 3
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


def mean_of(values: Iterable[float]) -> Value:
    """Of one value the error is not known, and given as 0."""
    numbers = list(values)
    error = statistics.stdev(numbers) / math.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return Value(statistics.fmean(numbers), error)


def compared(ours: Value, other: Value) -> str:
    """In words, where smaller is better: parts one by one against jointly."""
    apart = abs(ours.mean - other.mean) > _ERRORS * math.hypot(ours.error, other.error)
    ratio = other.mean / ours.mean
    if not apart or 1 / _RATIO < ratio < _RATIO:
        return "no difference worth a choice"
    return f"parts are {ratio:.1f} times closer" if ratio > 1 else f"the joint model is {1 / ratio:.1f} times closer"
