"""How close to a ring of Gaussians every method comes with how many calls, and how calls grow."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drawahead import rtk
from drawahead.rtk.segments import longest
from studies.rtk import scaling
from studies.rtk.figures import FIGURES, PICTURED
from studies.rtk.methods import FIRST, STEP_SIZES, Method, Run, methods
from studies.rtk.page import values
from studies.rtk.parallel import rounds_of_parallel_uld
from studies.rtk.ring import Distances, Ring, from_smoothness, smoothness, truncation
from studies.study import Data, Stamp, Study, Watch, quick_option

SEED, TUNING_SEED = 0, 1
FLOORS = 8
"""Sets of exact samples by which the floor of a distance and its noise are measured."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    dimensions: tuple[tuple[int, int, int], ...]
    """d, how many samples, and how many of another seed for every step size that is tried."""
    budgets: tuple[int, ...]
    most: int
    """Steps of DDPM at the far right: 0.001 T each."""
    step_sizes: tuple[float, ...]
    """Those that are tried."""
    parallel: tuple[tuple[int, ...], int]
    """Steps in a segment, and samples, of ULD in rounds."""
    scaling: scaling.Plan


FULL = Plan(
    dimensions=((2, 10_000, 2_000), (10, 5_000, 1_000), (50, 2_000, 500)),
    budgets=(20, 40, 80, 160, 320),
    most=1000,
    step_sizes=STEP_SIZES,
    parallel=((16, 64, 256), 16),
    scaling=scaling.FULL,
)
QUICK = Plan(
    dimensions=((2, 1_000, 200), (10, 500, 100)),
    budgets=(20, 40),
    most=100,
    step_sizes=STEP_SIZES[1:4],
    parallel=((16,), 4),
    scaling=scaling.QUICK,
)


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All of it, as plain values."""
    stamp = Stamp(arguments)
    found = measured(QUICK if arguments.quick else FULL, watch)
    return stamp.made() | found


def measured(plan: Plan, watch: Watch) -> Data:
    """All measurements of a plan."""
    processor, chosen = time.process_time(), list(methods())
    total = len(plan.dimensions) * len(chosen) + 2
    rows: list[Data] = []
    floors: Data = {}
    for i, (d, number, tuning) in enumerate(plan.dimensions):
        distances = Distances(Ring(d))
        floors[str(d)] = _floor(distances, number)
        for j, method in enumerate(chosen):
            rows += _curve(plan, method, distances, number, tuning)
            watch(f"{method.label}, d = {d}", i * len(chosen) + j + 1, total)
    parallel = rounds_of_parallel_uld(steps=plan.parallel[0], samples=plan.parallel[1])
    watch("ULD in rounds", total - 1, total)
    growth = scaling.study(plan.scaling)
    watch("scaling", total, total)
    return {
        "processor_seconds": round(time.process_time() - processor, 1),
        "first": FIRST,
        "step_sizes": list(plan.step_sizes),
        "floor_sets": FLOORS,
        "budgets": list(plan.budgets),
        "most": plan.most,
        "samples": {str(d): number for d, number, _ in plan.dimensions},
        "tuning": {str(d): tuning for d, _, tuning in plan.dimensions},
        "smoothness": _smoothness(),
        "truncation": max(truncation(FIRST, d) for d, _, _ in plan.dimensions),
        "floors": floors,
        "rows": rows,
        "pictures": _pictures(rows),
        "parallel": {"samples": plan.parallel[1], "rows": parallel},
        "scaling": {**growth, "number": plan.scaling.number},
    }


def _curve(plan: Plan, method: Method, distances: Distances, number: int, tuning: int) -> Iterator[Data]:
    """One method at every number of calls that it can do something with."""
    d = distances.ring.d
    step_sizes = plan.step_sizes
    for budget in (*plan.budgets, *_FAR.get(method.grid, ()), *([plan.most] if method.name == "DDPM" else ())):
        c = _tuned(step_sizes, method, budget, distances, tuning) if method.tuned else None
        if c is not None:  # with more calls, steps as long, half or a quarter as long
            step_sizes = (c, c / 2, c / 4)
        run = method.plan(budget, c or 0.0, d)
        if run is not None:
            samples, report = _drawn(distances.ring, run, number, SEED)
            yield {
                "d": d,
                "method": method.name,
                "grid": method.grid,
                "budget": budget,
                "calls": report.calls + report.energy_calls,
                "segments": report.segments,
                "c": c,
                "acceptance": sum(report.acceptance) / report.segments,
                **distances(samples),
            }


_FAR = {"from L": (480,)}
"""More calls than the others get: the fewest with which MALA makes a step in each segment."""


def _tuned(step_sizes: Sequence[float], method: Method, budget: int, distances: Distances, number: int) -> float | None:
    """The step size with the best marginal accuracy, on other samples than those that are measured."""
    found = {}
    for c in step_sizes:
        run = method.plan(budget, c, distances.ring.d)
        if run is not None:
            found[c] = -distances.marginal(_drawn(distances.ring, run, number, TUNING_SEED)[0])
    return max(found, key=found.__getitem__) if found else None


def _drawn(ring: Ring, run: Run, number: int, seed: int) -> tuple[Tensor, rtk.RTKReport]:
    result = rtk.sample(ring, kernel=run.kernel, segments=run.segments, num_samples=number, seed=seed)
    return result.samples, result.report


def _floor(distances: Distances, number: int) -> dict[str, dict[str, float]]:
    """The mean and standard deviation of each distance for exact samples."""
    found = [distances(distances.ring.draw(number, seed)) for seed in range(1, FLOORS + 1)]
    values = {name: torch.tensor([one[name] for one in found], dtype=torch.float64) for name in found[0]}
    return {name: {"mean": float(value.mean()), "noise": float(value.std())} for name, value in values.items()}


def _smoothness() -> dict[str, float]:
    """L at time 0, the theorem's segments for it, and how many segments L of each time gives."""
    largest = smoothness(0.0)
    return {
        "largest": largest,
        "eta": longest(largest),
        "segments": len(rtk.Segments.from_smoothness(largest, FIRST)),
        "segments_of_each_time": len(from_smoothness(FIRST)),
    }


PICTURE_CALLS, PICTURE_POINTS = 40, 600


def _pictures(rows: list[Data]) -> list[Data]:
    """A few samples of the methods in question, all with about the same number of calls, and exact ones."""
    ring = Ring(2)
    exact = ring.draw(PICTURE_POINTS, seed=0)
    shown = [{"label": "exact samples", "points": exact.round(decimals=3).tolist()}]
    step_size = {
        (row["method"], row["grid"]): row["c"] for row in rows if (row["d"], row["budget"]) == (2, PICTURE_CALLS)
    }
    known = {(method.name, method.grid): method for method in methods()}
    for key in PICTURED:
        run = known[key].plan(PICTURE_CALLS, step_size[key] or 0.0, 2)
        assert run is not None  # 40 calls are enough for each of them
        samples, report = _drawn(ring, run, PICTURE_POINTS, SEED)
        label = f"{known[key].label}: {report.calls + report.energy_calls} calls"
        shown.append({"label": label, "points": samples.round(decimals=3).tolist()})
    return shown


STUDY = Study("rtk", measure, values, FIGURES, options=quick_option("few samples and calls, up to d = 10"))
