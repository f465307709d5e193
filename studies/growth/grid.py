"""Every setting at every length."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch

from studies.growth.measure import Measurement, measure
from studies.growth.settings import Plan, Setting
from studies.growth.slopes import slopes
from studies.study import Watch


def measured(plan: Plan, chosen: Sequence[Setting], watch: Watch, workers: int = 1) -> dict[str, Any]:
    """All measurements and slopes, as plain values. Several `workers` are processes of one thread each."""
    cells: list[dict[str, Any]] = []
    for i, row in enumerate(_rows(plan, chosen, workers)):
        cells += [measurement.to_dict() for measurement in row]
        watch(f"{row[0].target}, {row[0].sampler}", i + 1, len(chosen))
    return {
        "sizes": list(plan.sizes),
        "recursive_seconds": plan.recursive_seconds,
        "measurements": cells,
        "slopes": slopes(cells),
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
