"""Growth exponents: straight lines through log-log measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from studies.estimates import slope

FEWEST = 3  # lengths for a slope and its error


def slopes(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """`rounds` (and `queries`) grow like n ** exponent: for every setting measured often enough. Plain values.

    `error` is the standard error of the fit: how far from a straight line the points are. Cut runs are left out."""
    found = []
    for setting in dict.fromkeys((cell["target"], cell["sampler"], cell["order"]) for cell in cells):
        points = [cell for cell in cells if (cell["target"], cell["sampler"], cell["order"]) == setting]
        points = [cell for cell in points if cell["status"] in ("measured", "by definition")]
        if len(points) < FEWEST:
            continue
        lengths = [cell["n"] for cell in points]
        for quantity in ("rounds", "queries"):
            fit = slope(numpy.log(lengths), numpy.log([cell[quantity] for cell in points]))
            names = dict(zip(("target", "sampler", "order"), setting, strict=True))
            found.append(names | {"quantity": quantity, "exponent": fit.value, "error": fit.error, "lengths": lengths})
    return found
