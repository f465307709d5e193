"""The benchmark of auto-regressive diffusion: what it learns, how wrong it is, and what it costs."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from drawahead import plots
from drawahead.bench import ardiffusion_pairs as pairs
from drawahead.bench import ardiffusion_parallel as parallel
from drawahead.bench import ardiffusion_shapes_study as shapes
from drawahead.bench import ardiffusion_sweeps as sweeps
from drawahead.bench.ardiffusion_figures import figures
from drawahead.bench.ardiffusion_page import page
from drawahead.bench.ardiffusion_shapes import Shapes
from drawahead.bench.rounds import Watch
from drawahead.bench.versions import versions
from drawahead.errors import InputError


@dataclass(frozen=True)
class Task:
    """Something to measure: `make(*args)`, under a heading of the data."""

    heading: str
    make: Callable[..., Any]
    args: tuple[Any, ...]


def run(
    folder: Path, *, quick: bool = False, device: str = "cpu", workers: int = 1, watch: Watch | None = None
) -> list[Path]:
    """Measure, then write `data/ardiffusion.json`, its figures and `ardiffusion.md` under `folder`. -> their paths."""
    plots.check()
    options = f"{' --quick' if quick else ''}{'' if device == 'cpu' else f' --device {device}'}"
    bench = measured(quick=quick, device=device, workers=workers, watch=watch)
    bench["command"] = f"drawahead bench ardiffusion{options} --workers {workers} --out {folder}"
    return write(folder, bench)


def rewrite(folder: Path, data: Path) -> list[Path]:
    """Figures and page again, from data that were measured before."""
    try:
        bench = json.loads(data.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{data} cannot be read as the data of this benchmark: {error}") from None
    return write(folder, bench)


def write(folder: Path, bench: dict[str, Any]) -> list[Path]:
    """Data, figures and page, from what `measured` gave."""
    data, text = folder / "data" / "ardiffusion.json", folder / "ardiffusion.md"
    for path in (data, folder / "figures" / "any", text):
        path.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps(bench, separators=(",", ":")) + "\n")
    drawn = figures(bench, folder / "figures")
    text.write_text(page(bench))
    return [data, *drawn, text]


def measured(
    *, quick: bool = False, device: str = "cpu", workers: int = 1, watch: Watch | None = None
) -> dict[str, Any]:
    """All measurements, as plain values. What takes seconds to the clock is measured last, with nothing beside it."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tasks = list(_tasks(quick, device, folder))
        results: list[Any] = [None] * len(tasks)
        for done, (index, result) in enumerate(_results(tasks, workers)):
            results[index] = result
            if watch is not None:
                watch(tasks[index].heading, done + 1, len(tasks))
        found: dict[str, list[Any]] = {}
        for task, result in zip(tasks, results, strict=True):  # by what was asked, not by what finished first
            found.setdefault(task.heading, []).append(result)
        plan = parallel.QUICK if quick else parallel.FULL
        trained = found.pop("trained")
        timed = [row for model in trained for row in parallel.timed(model, plan, device)]
        agreed = parallel.agreed(trained[0], plan, device)  # the one with fewest parts
    return {
        "versions": versions(),
        "machine": torch.cuda.get_device_name() if device.startswith("cuda") else "CPU",
        "seconds": round(time.perf_counter() - began, 1),
        "quick": quick,
        "plan": asdict(shapes.QUICK if quick else shapes.FULL),
        "real": [_real(across=True), _real(across=False)],
        **{heading: rows for heading, rows in found.items() if heading != "rounds"},
        "rounds": [row for rows in found["rounds"] for row in rows],
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
