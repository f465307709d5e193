"""The rounds benchmark: how rounds and queries grow with the length, for every sampler on every scalable target."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from drawahead import plots
from drawahead.bench.measure import Measurement, measure
from drawahead.bench.page import page
from drawahead.bench.settings import FULL, QUICK, Plan, Setting, settings
from drawahead.bench.slopes import slopes
from drawahead.bench.versions import versions

Watch = Callable[[str, int, int], None]
"""Called with what was measured last, how much is done, and how much there is."""


def run(folder: Path, *, quick: bool = False, watch: Watch | None = None, workers: int = 1) -> list[Path]:
    """Measure, then write `data/rounds.json`, `figures/rounds.png` and `rounds.md` under `folder`. -> their paths."""
    plots.check()  # before minutes are spent
    bench = measured(QUICK if quick else FULL, list(settings()), watch, workers)
    bench["command"] = f"drawahead bench rounds{' --quick' if quick else ''} --out {folder}"
    return write(folder, "rounds", bench, page(bench))


def write(folder: Path, name: str, bench: dict[str, Any], text: str) -> list[Path]:
    """Write a benchmark's data, figure and page. -> their paths."""
    paths = [folder / "data" / f"{name}.json", folder / "figures" / f"{name}.png", folder / f"{name}.md"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    paths[0].write_text(json.dumps(bench, indent=1) + "\n")
    plots.scaling(bench, paths[1])
    paths[2].write_text(text)
    return paths


def measured(plan: Plan, chosen: Sequence[Setting], watch: Watch | None = None, workers: int = 1) -> dict[str, Any]:
    """All measurements and slopes, as plain values. Several `workers` are processes of one thread each."""
    began = time.perf_counter()
    measurements: list[Measurement] = []
    for i, row in enumerate(_rows(plan, chosen, workers)):
        measurements += row
        if watch is not None:
            watch(f"{row[0].target}, {row[0].sampler}", i + 1, len(chosen))
    return {
        "versions": versions(),
        "seconds": round(time.perf_counter() - began, 1),
        "sizes": list(plan.sizes),
        "recursive_seconds": plan.recursive_seconds,
        "measurements": [m.to_dict() for m in measurements],
        "slopes": [slope.to_dict() for slope in slopes(measurements)],
    }


def _rows(plan: Plan, chosen: Sequence[Setting], workers: int) -> Iterator[list[Measurement]]:
    """The measurements of every setting, in order."""
    if workers == 1:
        yield from (_row(setting, plan) for setting in chosen)
        return
    # Fresh processes: a fork would inherit torch's threads in an unknown state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.map(_row, chosen, itertools.repeat(plan))


def _row(setting: Setting, plan: Plan) -> list[Measurement]:
    """One setting at every length, short ones first: where one takes too long, longer ones are not tried."""
    row: list[Measurement] = []
    for n in plan.sizes:
        row.append(measure(setting, n, row[-1] if row else None, plan))
    return row
