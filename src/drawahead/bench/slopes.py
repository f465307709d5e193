"""Growth exponents: straight lines through log-log measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy

from drawahead.bench.measure import Measurement

FEWEST = 3  # lengths for a slope and its error


@dataclass(frozen=True)
class Slope:
    """`rounds` (or `queries`) grow like n ** exponent."""

    target: str
    sampler: str
    order: str
    quantity: str
    exponent: float
    error: float
    """The standard error of the fit: how far from a straight line the points are."""
    lengths: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return asdict(self) | {"lengths": list(self.lengths)}


def slopes(measurements: Sequence[Measurement]) -> list[Slope]:
    """The slopes of rounds and of queries of every setting that was measured often enough. Cut runs are left out."""
    settings = dict.fromkeys((m.target, m.sampler, m.order) for m in measurements)
    found = []
    for setting in settings:
        points = [m for m in measurements if (m.target, m.sampler, m.order) == setting]
        points = [m for m in points if m.status in ("measured", "by definition")]
        if len(points) < FEWEST:
            continue
        lengths = tuple(m.n for m in points)
        for quantity in ("rounds", "queries"):
            exponent, error = _fit(lengths, [getattr(m, quantity) for m in points])
            found.append(Slope(*setting, quantity, exponent, error, lengths))
    return found


def _fit(n: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Least squares on logarithms -> the slope and its standard error."""
    x, y = numpy.log(n), numpy.log(values)
    x = x - x.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    residual = y - y.mean() - slope * x
    return slope, float(numpy.sqrt(residual @ residual / max(1, len(x) - 2) / spread))
