"""`Replicas` on a CPU, with replicas that answer when a heavy network on a GPU would have.

The answers are those of a mixture of Gaussians, drawn by the steps of DDPM; each call then sleeps until it has taken
what the measured curve says for its number of states. So eight replicas need no eight GPUs, and what a run takes
beyond its sleeping is what threads, cutting, joining and the sampler cost.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead.schedules import Schedule
from studies.scale.curve import Curve
from studies.study import Watch

ENTRIES, REPEATS = 16, 3
RUNS: tuple[tuple[int, da.Sampler, int], ...] = (
    (1, da.Sequential(), 1),
    *((1, da.Coupled(16), replicas) for replicas in (1, 2, 4, 8)),
    *((1, da.Coupled(64), replicas) for replicas in (1, 2, 4, 8)),
    (8, da.Sequential(), 1),
    (8, da.Coupled(8), 1),
    (8, da.Coupled(16), 8),
)
"""Samples, how they are drawn, and on how many replicas."""


def replica(curve: Curve, schedule: Schedule) -> da.GaussianChain:
    """A mixture whose answers take as long as a pass of the network."""
    mixture = da.targets.GaussianMixture.random(ENTRIES)
    denoise = mixture.denoiser(schedule)

    def slow(x: Tensor, k: Tensor) -> Tensor:
        until = time.perf_counter() + curve(len(x))
        answer = denoise(x, k)
        time.sleep(max(0.0, until - time.perf_counter()))
        return answer

    return da.GaussianChain(slow, schedule, mixture.shape, dtype=torch.float64)


def run(curve: Curve, samples: int, sampler: da.Sampler, replicas: int, steps: int = 1000) -> dict[str, Any]:
    """Seconds of a run, everything included, and of those the seconds in the executor: medians over repeats."""
    schedule = da.DDPM(timesteps=da.schedules.spaced(steps, 1000))
    chains = [replica(curve, schedule) for _ in range(replicas)]
    reports, seconds = [], []
    with da.Replicas(chains) as executor:
        for _ in range(REPEATS):
            began = time.perf_counter()
            found = da.sample(executor.chain, samples, sampler=sampler, seed=0, executor=executor, graphs=False)
            seconds.append(time.perf_counter() - began)
            reports.append(found.report)
    return {
        "samples": samples,
        "window": sampler.window if isinstance(sampler, da.Coupled) else 0,
        "replicas": replicas,
        "rounds": reports[0].rounds,
        "queries": reports[0].queries,
        "seconds": statistics.median(seconds),
        "executor_seconds": statistics.median(report.oracle_seconds for report in reports),
    }


def simulate(curve: Curve, watch: Watch) -> dict[str, Any]:
    """All runs, and how busy the machine was."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    before, rows = os.getloadavg()[0], []
    for done, asked in enumerate(RUNS):
        rows.append(run(curve, *asked))
        print(rows[-1], flush=True)
        watch(repr(asked[1]), done + 1, len(RUNS))
    torch.set_num_threads(threads)
    return {
        "cores": os.cpu_count(),
        "repeats": REPEATS,
        "load_before": before,
        "load_after": os.getloadavg()[0],
        "rows": rows,
    }
