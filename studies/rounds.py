"""How rounds and queries grow with the length, for every sampler on every scalable target."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from drawahead.targets import TARGETS
from studies.growth.figure import scaling
from studies.growth.grid import measured
from studies.growth.settings import FIXED_ORDER, RECURSIVE_SIZE, SAMPLERS, SEQUENTIAL_SIZE, Plan, TokenSetting
from studies.growth.tables import Cell, by_length, exponents, number, recursion
from studies.study import Data, Stamp, Study, Watch, origin
from studies.tables import table

FULL = Plan(sizes=(64, 128, 256, 512, 1024, 2048, 4096), most_samples=32, recursive_seconds=8.0)
QUICK = Plan(sizes=(64, 128, 256), most_samples=4, recursive_seconds=0.5)


class Goal(NamedTuple):
    """A cost that the library was built to reach."""

    target: str
    sampler: str
    n: int
    quantity: str
    most: int


GOALS = (
    Goal("pairs", "coupled, window n", 1024, "rounds", 4),
    Goal("pairs", "block", 1024, "rounds", 22),
    Goal("dense", "block", 2048, "rounds", 28),
    Goal("dense", "block", 2048, "queries", 5000),
)


def options(parser: argparse.ArgumentParser) -> None:
    """Of this study, and of that of diffusions."""
    parser.add_argument("--quick", action="store_true", help="few samples, short lengths: seconds instead of minutes")
    parser.add_argument("--workers", type=int, default=2, help="processes that measure side by side (2)")


def settings() -> Iterator[TokenSetting]:
    """Every setting, target by target; the fixed order last."""
    for target in TARGETS.values():
        if target.scalable:
            yield from (TokenSetting(target.name, sampler) for sampler in SAMPLERS)
    yield from (TokenSetting("pairs", sampler, "left to right") for sampler in FIXED_ORDER)


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All settings at all lengths."""
    stamp = Stamp(arguments)
    found = measured(QUICK if arguments.quick else FULL, list(settings()), watch, arguments.workers)
    return stamp.made() | found


def values(data: Data) -> dict[str, str]:
    """What the page says."""
    cells: list[Cell] = data["measurements"]
    usual = [cell for cell in cells if cell["order"] == "random"]
    return origin(data, "rounds") | {
        "sequential_size": str(SEQUENTIAL_SIZE),
        "recursive_size": str(RECURSIVE_SIZE),
        "recursive_seconds": f"{data['recursive_seconds']:g}",
        "goals": _goals(usual),
        "rounds_exponents": exponents(data["slopes"], "rounds", "sampler", "target"),
        "queries_exponents": exponents(data["slopes"], "queries", "sampler", "target"),
        "every": _every(usual, data["sizes"]),
        "fixed_order": by_length([cell for cell in cells if cell["order"] != "random"], data["sizes"]),
        "recursion": recursion(usual),
    }


def _every(cells: Sequence[Cell], sizes: Sequence[int]) -> str:
    parts = []
    for target in dict.fromkeys(cell["target"] for cell in cells):
        parts += [f"### {target}", by_length([cell for cell in cells if cell["target"] == target], sizes)]
    return "\n\n".join(parts)


def _goals(cells: Sequence[Cell]) -> str:
    """A quick run is too short for most of them."""
    found = {(cell["target"], cell["sampler"], cell["n"]): cell for cell in cells}
    rows = []
    for goal in GOALS:
        cell = found.get(goal[:3])
        reached = "-" if cell is None else "yes" if cell[goal.quantity] <= goal.most else "no"
        label = f"{goal.target}, n = {goal.n}, {goal.sampler}: {goal.quantity}"
        rows.append([label, f"at most {goal.most}", number(cell, goal.quantity), reached])
    return table(["cost", "aim", "measured", "reached"], rows)


STUDY = Study("rounds", measure, values, {"rounds": scaling}, options=options)
