"""Means and straight lines, with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy


@dataclass(frozen=True)
class Estimate:
    """A value and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        """Three digits."""
        digits = max(0, 2 - math.floor(math.log10(abs(self.value)))) if self.value else 3
        return self.rounded(digits)

    def rounded(self, digits: int) -> str:
        """So many digits after the point."""
        return f"{round(self.value, digits) + 0.0:.{digits}f} ± {self.error:.{digits}f}"  # + 0.0: never "-0.00"


def mean(values: Iterable[float]) -> Estimate:
    """Of one value the error is not known, and given as 0."""
    array = numpy.array([float(value) for value in values])
    error = array.std(ddof=1) / math.sqrt(len(array)) if len(array) > 1 else 0.0
    return Estimate(float(array.mean()), float(error))


def slope(x: Sequence[float] | numpy.ndarray, y: Sequence[float] | numpy.ndarray) -> Estimate:
    """Of the straight line through points, by least squares."""
    x_, y_ = (numpy.asarray(values, dtype=float) - numpy.mean(values) for values in (x, y))
    spread = float(x_ @ x_)
    value = float(x_ @ y_) / spread
    residual = y_ - value * x_
    return Estimate(value, float(numpy.sqrt(residual @ residual / max(1, len(x_) - 2) / spread)))
