"""Auto-regressive diffusion beside joint diffusion: what it learns, how wrong it is, and what it costs."""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

import torch

from studies.ardiffusion import pairs, parallel, sweeps
from studies.ardiffusion import shapes_study as shapes
from studies.ardiffusion.figures import FIGURES
from studies.ardiffusion.page import values
from studies.ardiffusion.shapes import Shapes
from studies.study import Data, Stamp, Study, Watch


@dataclass(frozen=True)
class Task:
    """Something to measure: `make(*args)`, under a heading of the data."""

    heading: str
    make: Callable[..., Any]
    args: tuple[Any, ...]


def options(parser: argparse.ArgumentParser) -> None:
    """How much, and where."""
    parser.add_argument("--quick", action="store_true", help="tiny models, few samples: a minute")
    parser.add_argument("--device", default="cpu", help="where networks are trained and asked: cpu or cuda (cpu)")
    parser.add_argument("--workers", type=int, default=1, help="processes that measure side by side (1)")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All of it, as plain values. What takes seconds to the clock is measured last, with nothing beside it."""
    stamp, quick, device = Stamp(arguments), arguments.quick, arguments.device
    with tempfile.TemporaryDirectory() as folder:
        tasks = list(_tasks(quick, device, folder))
        results: list[Any] = [None] * len(tasks)
        for done, (index, result) in enumerate(_results(tasks, arguments.workers)):
            results[index] = result
            watch(tasks[index].heading, done + 1, len(tasks))
        found: dict[str, list[Any]] = {}
        for task, result in zip(tasks, results, strict=True):  # by what was asked, not by what finished first
            found.setdefault(task.heading, []).append(result)
        plan = parallel.QUICK if quick else parallel.FULL
        trained = found.pop("trained")
        timed = [row for model in trained for row in parallel.timed(model, plan, device)]
        agreed = parallel.agreed(trained[0], plan, device)  # the one with fewest parts
    found["rounds"] = [row for rows in found["rounds"] for row in rows]
    return stamp.made() | {
        "machine": torch.cuda.get_device_name() if device.startswith("cuda") else "CPU",
        "quick": quick,
        "plan": asdict(shapes.QUICK if quick else shapes.FULL),
        "real": [_real(across=True), _real(across=False)],
        **found,
        "timed": timed,
        "agreed": agreed,
    }


def _real(*, across: bool) -> dict[str, Any]:
    """What is measured on the data themselves."""
    images = Shapes(2000, across=across, seed=1).images
    return {"task": "across" if across else "within", **shapes.judged(images, across=across)}


def _tasks(quick: bool, device: str, folder: str) -> Iterator[Task]:
    """The longest first."""
    learn, toys, draw = (
        (shapes.QUICK, pairs.QUICK, parallel.QUICK) if quick else (shapes.FULL, pairs.FULL, parallel.FULL)
    )
    for grid in sorted(draw.grids):
        yield Task("trained", parallel.trained, (grid, draw, folder, device))
    for steps in sorted(learn.budgets, reverse=True):
        for contender in shapes.contenders(learn.width):
            for across in (True, False):
                for seed in range(learn.seeds):
                    yield Task("shapes", shapes.study, (contender, across, seed, steps, learn, device))
    for width in toys.widths:
        for seed in range(toys.seeds):
            yield Task("trained pairs", pairs.trained, (width, seed, toys))
        for count in toys.steps:
            yield Task("exact pairs", pairs.exact, (width, count, toys.draws))
    for inner in parallel.INNER:
        for dependence in parallel.DEPENDENCE:
            for number in draw.numbers:
                yield Task("rounds", parallel.exact, (inner, dependence, number, draw.samples))
    for sweep in range(len(sweeps.sweeps(quick))):
        yield Task("bound", _sweep, (sweep, quick))
    for eps in (0.1, 0.001):
        for slope in (1.0, 10.0, 100.0):
            yield Task("lemma", pairs.lemma, (eps, slope, 10 * toys.draws))


def _sweep(index: int, quick: bool) -> dict[str, Any]:
    return sweeps.study(sweeps.sweeps(quick)[index])


def _results(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Any]]:
    """The number of each task and what it found, as they finish."""
    if workers == 1:
        yield from ((i, task.make(*task.args)) for i, task in enumerate(tasks))
        return
    # Fresh processes: a fork would inherit torch's threads in an unknown state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        waiting = {pool.submit(task.make, *task.args): i for i, task in enumerate(tasks)}
        yield from ((waiting[future], future.result()) for future in as_completed(waiting))


STUDY = Study("ardiffusion", measure, values, FIGURES, options=options, compact=True)
