"""What it costs to draw samples shard by shard into a folder, instead of all in one call that keeps them in memory.

Both are timed in one process, in turn, in processor seconds of one thread, and the best of five counts: a busy machine
disturbs the ratio little. What is waited for while a shard is written and synced takes no processor, so that is timed
by the clock, apart.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

import drawahead as da
from studies.study import DOCS, Data, Study, Watch
from studies.tables import table

NUM = 8192
SIZES = (8192, 2048, 1024, 256)
REPEATS = 5
TARGETS: dict[str, tuple[Callable[[], Any], da.Sampler]] = {
    "Markov chain, 32 tokens, `Sequential`": (lambda: da.targets.named("markov", 32), da.Sequential()),
    "Markov chain, 32 tokens, `Coupled`": (lambda: da.targets.named("markov", 32), da.Coupled()),
    "hypercube, 16 numbers, 20 steps, `Coupled`": (
        lambda: da.GaussianChain(da.targets.Hypercube(16), da.DDPM(timesteps=range(950, -1, -50))),
        da.Coupled(),
    ),
}


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Processor seconds, seconds by the clock, and what came of it."""
    began = time.process_time(), time.perf_counter()
    result = work()
    return time.process_time() - began[0], time.perf_counter() - began[1], result


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All targets."""
    torch.set_num_threads(1)
    rows = {}
    for done, (name, (make, sampler)) in enumerate(TARGETS.items()):
        rows[name] = measured(make, sampler)
        watch(name, done + 1, len(TARGETS))
    about = {"num": NUM, "repeats": REPEATS, "torch": torch.__version__, "python": platform.python_version()}
    return {**about, "rows": rows}


def measured(make: Callable[[], Any], sampler: da.Sampler) -> list[dict[str, Any]]:
    """A row for every size of shard, as ratios to one call of `sample`."""
    target = make()
    spent: dict[int, list[float]] = {size: [] for size in (0, *SIZES)}
    writing: dict[int, list[float]] = {size: [] for size in SIZES}
    reports: dict[int, da.Report] = {}
    for _ in range(REPEATS):
        seconds, _, result = timed(lambda: da.sample(target, NUM, sampler=sampler, seed=0))
        spent[0].append(seconds)
        reports[0] = result.report
        for size in SIZES:
            with tempfile.TemporaryDirectory(dir=DOCS) as folder:  # on a disk, not in memory
                seconds, clock, job = timed(lambda: drawn(folder, target, sampler, size))  # noqa: B023
                assert torch.equal(job.samples(), result.samples)
                spent[size].append(seconds)
                writing[size].append((clock - job.report.seconds) / len(job.shards))
                reports[size] = job.report
    return [
        {
            "shard_size": size,
            "processor_seconds": min(spent[size]),
            "processor_seconds_in_one_call": min(spent[0]),
            "rounds": reports[size].rounds / reports[0].rounds,
            "queries": reports[size].queries / reports[0].queries,
            "writing_seconds": sorted(writing[size])[REPEATS // 2],
        }
        for size in SIZES
    ]


def drawn(folder: str, target: Any, sampler: da.Sampler, size: int) -> da.jobs.Job:
    return da.jobs.draw(folder, target, NUM, name="benchmark", sampler=sampler, seed=0, shard_size=size)


def values(data: Data, soak: Data) -> dict[str, str]:
    """What the page says."""
    lines = []
    for name, rows in data["rows"].items():
        for row in rows:
            ratio = row["processor_seconds"] / row["processor_seconds_in_one_call"]
            costs = [f"{value:.2f}x" for value in (ratio, row["rounds"], row["queries"])]
            size, writing = row["shard_size"], 1000 * row["writing_seconds"]
            lines.append([name, str(size), str(data["num"] // size), *costs, f"{writing:.0f} ms"])
    heading = ["target", "samples per shard", "shards", "processor time", "rounds", "queries", "writing a shard"]
    return {"table": table(heading, lines, right=False)} | _soaked(soak)


def _soaked(data: Data) -> dict[str, str]:
    found = {name: str(number) for name, number in data["counts"].items()}
    rounded = {name: f"{data[name]:.0f}" for name in data if name.endswith(("_early", "_late"))}
    return found | rounded | {"soak_minutes": f"{data['seconds'] / 60:.0f}"}


STUDY = Study("jobs", measure, values, {}, sources=("jobs", "soak"))
