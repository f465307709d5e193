"""The target built to be hard, and a fixed order, beside what no sampler can beat."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drawahead.show import plots
from studies.growth.figure import draw_line, log_axes
from studies.growth.grid import measured
from studies.growth.settings import FIXED_ORDER, HARD_IN_ORDER, Plan, TokenSetting
from studies.growth.slopes import slopes
from studies.growth.tables import Cell, by_length, exponent
from studies.study import Data, Stamp, Study, Watch, origin, quick_option
from studies.tables import listed, table

FULL = Plan(sizes=(64, 128, 256, 512, 1024, 2048, 4096), most_samples=8, recursive_seconds=0.0)
QUICK = Plan(sizes=(64, 128, 256), most_samples=2, recursive_seconds=0.0)
CASES = (("hard", "random"), (HARD_IN_ORDER, "random"), ("pairs", "left to right"), ("pairs", "random"))
"""Targets and orders; the last is there to compare with."""
Slopes = dict[tuple[str, ...], dict[str, Any]]
"""By target, order, sampler and quantity."""


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All samplers on all cases."""
    stamp = Stamp(arguments)
    chosen = [TokenSetting(target, sampler, order) for target, order in CASES for sampler in FIXED_ORDER]
    found = measured(QUICK if arguments.quick else FULL, chosen, watch)
    return stamp.made() | found


def values(data: Data) -> dict[str, str]:
    """What the page says."""
    cells, sizes = data["measurements"], data["sizes"]
    middle = sizes[len(sizes) // 2]
    overall, later = _by_key(data["slopes"]), _by_key(slopes([cell for cell in cells if cell["n"] >= middle]))
    hard = [exponent(later.get(("hard", "random", sampler, "rounds"))) for sampler in ("stepwise", "block")]
    return origin(data, "lower-bound") | {
        "best": listed(list(dict.fromkeys(hard))),
        "middle": str(middle),
        "largest": str(sizes[-1]),
        "exponents": _exponents(cells, overall, later, middle),
        "hard": by_length(_of(cells, "hard", "random"), sizes),
        "in_order": by_length(_of(cells, HARD_IN_ORDER, "random"), sizes),
        "left_to_right": by_length(_of(cells, "pairs", "left to right"), sizes),
        "random_order": by_length(_of(cells, "pairs", "random"), sizes),
    }


def _of(cells: Sequence[Cell], *wanted: str) -> list[Cell]:
    """Those of a target, an order, and perhaps a sampler."""
    return [cell for cell in cells if wanted == (cell["target"], cell["order"], cell["sampler"])[: len(wanted)]]


def _by_key(found: Sequence[dict[str, Any]]) -> Slopes:
    return {tuple(slope[key] for key in ("target", "order", "sampler", "quantity")): slope for slope in found}


def _name(target: str, order: str) -> str:
    return f"{target}, {order}{' order' * (order == 'random')}"


def _exponents(cells: Sequence[Cell], overall: Slopes, later: Slopes, middle: int) -> str:
    rows = []
    for target, order in CASES:
        for sampler in FIXED_ORDER:
            last, key = _of(cells, target, order, sampler)[-1], (target, order, sampler)
            rows.append(
                [
                    f"{_name(target, order)}: {sampler}",
                    exponent(overall.get((*key, "rounds"))),
                    exponent(later.get((*key, "rounds"))),
                    exponent(overall.get((*key, "queries"))),
                    f"{last['rounds'] / last['n'] ** (1 / 3):.1f}",
                ]
            )
    return table(["target and sampler", "rounds", f"rounds, n >= {middle}", "queries", "beside the guide"], rows)


def figure(data: Data, path: Path) -> None:
    """A panel for each case, all with the guide."""
    sizes: list[int] = data["sizes"]
    ends = [sizes[0], sizes[-1]]
    with plots.canvas(path, 3.4 * len(CASES), 3.7) as canvas:
        panels: Any = canvas.subplots(1, len(CASES), sharex=True, sharey=True)
        for axes, (target, order) in zip(panels, CASES, strict=True):
            guide = [n ** (1 / 3) for n in ends]
            axes.plot(ends, guide, color="#888888", linewidth=1.6, linestyle=(0, (1, 1.5)), label="guide, n$^{1/3}$")
            for sampler in FIXED_ORDER:
                draw_line(axes, _of(data["measurements"], target, order, sampler), sampler)
            axes.set(xlabel="length n", title=_name(target, order))
            log_axes(axes, sizes)
        panels[0].set_ylabel("rounds per sample")
        lines, labels = panels[0].get_legend_handles_labels()
        canvas.legend(lines, labels, loc="outside lower center", ncols=len(labels))


STUDY = Study(
    "lower-bound",
    measure,
    values,
    {"lower-bound": figure},
    options=quick_option("up to 256 steps only: seconds instead of minutes"),
)
