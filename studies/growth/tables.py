"""Measurements against the length as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from studies.estimates import Estimate
from studies.tables import table

Cell = dict[str, Any]
"""A `Measurement`, as plain values."""


def number(cell: Cell | None, quantity: str) -> str:
    """A measurement with its error, or what stands for it."""
    if cell is None or cell[quantity] is None:
        return "-"
    value, digits = cell[quantity], 1 if quantity == "rounds" else 0
    if cell["status"] == "by definition":
        return f"*{value:.0f}*"
    if cell["status"] == "stopped":
        return f"≥ {value:.{digits}f}"
    return Estimate(value, cell[f"{quantity}_error"]).rounded(digits)


def by_length(cells: Sequence[Cell], sizes: Sequence[int]) -> str:
    """Rounds, then queries: a line for each sampler, a column for each length."""
    rows = []
    for quantity in ("rounds", "queries"):
        for sampler in dict.fromkeys(cell["sampler"] for cell in cells):
            own = {cell["n"]: cell for cell in cells if cell["sampler"] == sampler}
            rows.append([f"{quantity}, {sampler}", *(number(own.get(n), quantity) for n in sizes)])
    return table(["n", *map(str, sizes)], rows)


def exponent(slope: dict[str, Any] | None) -> str:
    """A slope with its error."""
    return "-" if slope is None else Estimate(slope["exponent"], slope["error"]).rounded(2)


def exponents(slopes: Sequence[dict[str, Any]], quantity: str, lines: str, columns: str) -> str:
    """The slopes of one quantity in random order; `lines` and `columns` are `sampler` and `target`, or the reverse."""
    usual = [slope for slope in slopes if slope["quantity"] == quantity and slope["order"] == "random"]
    found = {(slope[lines], slope[columns]): slope for slope in usual}
    heading = list(dict.fromkeys(column for _, column in found))
    rows = [
        [line, *(exponent(found.get((line, column))) for column in heading)]
        for line in dict.fromkeys(line for line, _ in found)
    ]
    return table([lines, *heading], rows)


def recursion(cells: Sequence[Cell]) -> str:
    """What the recursion cost, wherever it was run."""
    rows = [
        [
            f"{cell['target']}, n = {cell['n']}",
            number(cell, "rounds"),
            number(cell, "queries"),
            f"{cell['finished']} of {cell['samples']}",
        ]
        for cell in cells
        if cell["sampler"] == "recursive" and cell["status"] != "skipped"
    ]
    return table(["target", "rounds", "queries", "samples finished"], rows)
