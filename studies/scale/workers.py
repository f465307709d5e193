"""Whole shards on more and more workers, with an oracle that sleeps; and the head's work for a million shards.

As in `executors`, sleeping makes it measurable on few cores: what is lost beside it is what workers and head cost.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

import drawahead as da
from drawahead.jobs.config import Config
from drawahead.jobs.job import LAYOUT, Manifest
from drawahead.jobs.model import JobRequest
from drawahead.jobs.runner import JobRunner
from drawahead.jobs.shards import SHARDS, file_name
from drawahead.jobs.store import Store
from drawahead.jobs.workers import drawing
from drawahead.oracles.tokens import TokenOracle
from studies.scale.page import SOURCES, figure, values
from studies.study import DOCS, Data, Stamp, Study, Watch

WORKERS = (1, 2, 4, 8, 16)
LATENCY, EACH = 0.010, 0.002  # seconds: for a batch, and for every item of it
STEPS, SAMPLES = 32, 64  # of a sample, and of a shard
EACH_WORKER = 4  # shards
MILLION, SINGLE = 10**6, 300


class Sleepy(TokenOracle):
    """Fair coins, told slowly."""

    def __init__(self, awake: bool = False) -> None:
        self.length, self.vocab_size, self.awake = STEPS, 2, awake

    def rows(self, tokens: Tensor) -> Tensor:
        if not self.awake:
            time.sleep(LATENCY + EACH * len(tokens))
        return torch.full((*tokens.shape, 2), 0.5, dtype=torch.float64).log()


def asked(shards: int) -> JobRequest:
    return JobRequest("sleepy", {}, shards * SAMPLES, da.Sequential(), 0, SAMPLES, None, None, False)


def timed(workers: int) -> Data:
    """Seconds that so many workers take, from the moment they all are ready."""
    shards = EACH_WORKER * workers
    with tempfile.TemporaryDirectory(dir=DOCS) as name:
        alone = da.jobs.draw(
            Path(name) / "alone",
            Sleepy(awake=True),
            shards * SAMPLES,
            name="sleepy",
            seed=0,
            sampler=da.Sequential(),
            shard_size=SAMPLES,
            graphs=False,
        )
        folder = Path(name) / "job"
        folder.mkdir()
        pool = da.RayWorkers(workers, least=workers, cpus=0.01, hedge=None)
        opened = Store.opened(folder, LAYOUT, resume=True)
        with opened as store, drawing(pool, Sleepy, folder, store.token) as drawer:
            runner = JobRunner(store, asked(shards), drawer, False)
            began = time.perf_counter()
            runner.run(runner.missing())
            seconds = time.perf_counter() - began
        job = da.jobs.read(folder)
    same = [shard.sha256 for shard in job.shards] == [shard.sha256 for shard in alone.shards]
    return {
        "workers": workers,
        "shards": shards,
        "ideal_seconds": EACH_WORKER * shard_seconds(),
        "seconds": seconds,
        "same": same,
    }


def shard_seconds() -> float:
    """Of sleeping."""
    return STEPS * (LATENCY + EACH * SAMPLES)


def million(folder: Path) -> Data:
    """A folder with the files of a million shards: made, and read in a process of its own."""
    sampler = da.jobs.SamplerRecord(repr(da.Sequential()), da.Sequential())
    config = Config("million", {}, MILLION * 1000, 0, sampler, 1000, "cpu", None, 1024, None, 32, (32,), "int64")
    versions = {"drawahead": da.__version__, "torch": torch.__version__, "python": "3", "shard": 0}
    with Store.opened(folder, LAYOUT, resume=False) as store:
        store.make(SHARDS)
        Manifest(config, "now", [versions]).write(store)
        began = time.perf_counter()
        for index in range(SINGLE):
            store.write(store.part(file_name(index)), b"")
        single = (time.perf_counter() - began) / SINGLE
        for index in range(SINGLE, MILLION):
            store.part(file_name(index)).touch()
    reading = [sys.executable, "-m", "studies.scale.workers", str(folder)]
    found = json.loads(subprocess.run(reading, capture_output=True, text=True, check=True).stdout)
    return {"shards": MILLION, "write_ms": single * 1e3, "load": os.getloadavg()[0], **found}


def read(folder: Path) -> Data:
    """Seconds and memory of reading such a job."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    job = da.jobs.read(folder)
    seconds = time.perf_counter() - began
    assert job.complete and len(job.shards) == MILLION
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"read_seconds": seconds, "read_bytes": 1024 * (after - before)}


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All of it, with Ray on this machine."""
    import ray

    stamp = Stamp(arguments)
    with tempfile.TemporaryDirectory(dir=DOCS) as name:
        long = million(Path(name))
    print("million", long, flush=True)
    about = {"samples": SAMPLES, "shard_seconds": shard_seconds(), "load_before": os.getloadavg()[0]}
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    rows = []
    for done, workers in enumerate(WORKERS):
        rows.append(timed(workers))
        print(rows[-1], flush=True)
        watch(f"{workers} workers", done + 1, len(WORKERS))
    ray.shutdown()
    return stamp.made() | about | {"rows": rows, "million": long, "load_after": os.getloadavg()[0]}


STUDY = Study("workers", measure, values, {"scale": figure}, page="scale", sources=SOURCES)

if __name__ == "__main__":
    sys.stdout.write(json.dumps(read(Path(sys.argv[1]))))
