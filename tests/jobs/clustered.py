"""Jobs on a Ray cluster of several nodes on this machine, to which all sorts of things happen.

Run as a script: `clustered.py FOLDER PART...`, with parts nodes, designs, kills=N, hangs, complains, head. It prints
one JSON object. Whatever happens, the folder of the job must be the one that a single process makes.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
import torch
from ray.cluster_utils import Cluster
from torch import Tensor

import drawahead as da
from drawahead.jobs import Job
from tests.design.structures import folder_of, save_weights

NUM, SHARD = 240, 8
SETTINGS: dict[str, Any] = {"name": "clustered", "seed": 7, "sampler": da.Coupled(window=3), "shard_size": SHARD}
ROOM = 80 * 2**20  # bytes of a node's object store


class Recorded:
    """A denoiser that says which process it lives in, takes its time, and does what files in its folder tell it."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds, self.asked = folder, seconds, 0
        (folder / f"{os.getpid()}.pid").touch()
        (folder / f"{os.getpid()}.started").touch()

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        time.sleep(self.seconds)
        self.asked += 1
        while self.asked > 60 and (self.folder / "hold").exists():
            time.sleep(0.05)
        if (self.folder / "complain").exists():
            raise ValueError("the model is in a mood")
        with suppress(FileNotFoundError):
            (self.folder / "hang").unlink()
            time.sleep(1e6)
        return 0.8 * torch.sin(2 * x)


def recorded(folder: Path, seconds: float) -> da.GaussianChain:
    folder.mkdir(exist_ok=True)
    schedule = da.DDPM(timesteps=range(900, -1, -100))
    return da.GaussianChain(Recorded(folder, seconds), schedule, (4,), dtype=torch.float64)


def draw(home: Path, pids: Path, seconds: float, workers: da.RayWorkers, stop: Any = None) -> Job:
    make = functools.partial(recorded, pids, seconds)
    return da.jobs.draw(home, make, NUM, **SETTINGS, resume=True, workers=workers, stop=stop)


def same(job: Job, folder: Path) -> None:
    """Nothing lost, nothing twice, every hash as in a job of one process."""
    whole = da.jobs.draw(folder / "alone", recorded(folder / "pids", 0.0), NUM, **SETTINGS, resume=True)
    assert job.complete and [shard.sha256 for shard in job.shards] == [shard.sha256 for shard in whole.shards]
    assert torch.equal(job.samples(), whole.samples()) and job.config == whole.config


def killed(pids: Path, dice: random.Random) -> int:
    """Kill one of the workers with -9. -> how many that was."""
    for path in dice.sample(sorted(pids.glob("*.pid")), min(1, len([*pids.glob("*.pid")]))):
        path.unlink(missing_ok=True)
        with suppress(ProcessLookupError):
            os.kill(int(path.stem), signal.SIGKILL)
            return 1
    return 0


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, over)
        try:
            yield
        finally:
            over.set()
        working.result()


class Enough:
    """Stops a job once eight shards are there, and three workers have started."""

    def __init__(self, home: Path, pids: Path) -> None:
        self.home, self.pids = home, pids

    def is_set(self) -> bool:
        return len([*self.home.glob("shards/0*")]) >= 8 and len([*self.pids.glob("*.started")]) >= 3


def nodes(cluster: Cluster, folder: Path) -> dict[str, int]:
    """A worker killed, a node taken away, another added; stopped on the way, and gone on with here, without Ray."""
    home, pids, dice = folder / "nodes", folder / "pids", random.Random(0)
    pids.mkdir()
    (pids / "hold").touch()  # or a quick worker is through before another has started
    killed_one = [0]
    node = sorted(cluster.worker_nodes, key=lambda node: node.unique_id)[0]

    def trouble(over: threading.Event) -> None:
        while len([*pids.glob("*.pid")]) < 2 and not over.wait(0.05):
            pass
        killed_one[0] += killed(pids, dice)
        cluster.remove_node(node)
        cluster.add_node(num_cpus=1, object_store_memory=ROOM)
        while len([*pids.glob("*.started")]) < 3 and not over.wait(0.05):
            pass
        (pids / "hold").unlink()

    with meanwhile(trouble):
        begun = draw(home, pids, 0.05, da.RayWorkers(2, retries=20), Enough(home, pids))
    started = len([*pids.glob("*.started")])
    begun.verify()
    job = da.jobs.draw(home, recorded(pids, 0.0), NUM, **SETTINGS, resume=True)
    kept = {shard.first: shard for shard in begun.shards}
    assert kept.items() <= {shard.first: shard for shard in job.shards}.items(), "a finished shard was drawn again"
    same(job, folder)
    return {"begun": begun.finished, "num": NUM, "killed": killed_one[0], "started": started}


def designs(cluster: Cluster, folder: Path) -> dict[str, int]:
    """Structures designed on workers, by the command: the files are those of one process."""
    folder_of(folder / "in")
    save_weights(folder / "weights")
    words = ["design", str(folder / "in"), "--weights", str(folder / "weights"), "--num", "2", "--quiet"]
    command = [sys.executable, "-c", "from drawahead.cli import main; main()", *words]
    alone, many = folder / "one", folder / "many"
    subprocess.run([*command, "--out", str(alone)], check=True)
    subprocess.run([*command, "--out", str(many), "--workers", "ray:2", "--address", cluster.address], check=True)
    compared = [path.relative_to(alone) for path in alone.rglob("*") if path.suffix in (".fa", ".csv")]
    assert len(compared) == 5 and all((alone / name).read_bytes() == (many / name).read_bytes() for name in compared)
    return {"files": len(compared)}


def kills(cluster: Cluster, folder: Path, number: int) -> dict[str, int]:
    """Workers killed at random moments, while they start as well, in one job after another."""
    pids, dice, died, done = folder / "killed", random.Random(1), [0], 0
    pids.mkdir()

    def trouble(over: threading.Event) -> None:
        while not over.wait(dice.uniform(0.0, 1.0)):
            died[0] += killed(pids, dice)

    while died[0] < number:
        with meanwhile(trouble):
            same(draw(folder / f"kills{done}", pids, 0.05, da.RayWorkers(4, cpus=0.5, retries=1000)), folder)
        done += 1
    return {"killed": died[0], "jobs": done}


def hangs(cluster: Cluster, folder: Path) -> dict[str, int]:
    """The pulse of one worker stops: it is replaced."""
    pids = folder / "hangs_pids"
    pids.mkdir()
    (pids / "hang").touch()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        same(draw(folder / "hangs", pids, 0.02, da.RayWorkers(2, timeout=4.0)), folder)
    return {"replaced": sum("no answer in" in str(warning.message) for warning in told)}


def complains(cluster: Cluster, folder: Path) -> dict[str, str]:
    """An error of the model ends the job."""
    pids = folder / "complains_pids"
    pids.mkdir()
    (pids / "complain").touch()
    try:
        draw(folder / "complains", pids, 0.0, da.RayWorkers(1))
    except da.JobError as error:
        return {"error": str(error)}
    return {"error": ""}


def head(cluster: Cluster, folder: Path) -> dict[str, int]:
    """The command killed with -9, twice; then with other workers, to the end."""
    words = ["sample", "markov", "--size", "16", "--num", "8000", "--shard-size", "40", "--sampler", "sequential"]
    command = [sys.executable, "-c", "from drawahead.cli import main; main()", *words, "--resume"]
    home, done = folder / "head", 0
    for number, workers in enumerate(("ray:2", "ray:1", "ray:2")):
        there = ["--out", str(home), "--workers", workers, "--address", cluster.address, "--quiet"]
        process = subprocess.Popen([*command, *there])
        while number < 2 and (not (home / "manifest.json").exists() or da.jobs.read(home).finished <= done):
            assert process.poll() is None
            time.sleep(0.02)
        if number < 2:
            process.kill()
        assert process.wait(300) == (0 if number == 2 else -signal.SIGKILL)
        job = da.jobs.read(home)
        job.verify()
        done = job.finished
        assert job.complete == (number == 2)
    whole = da.sample(da.targets.named("markov", 16), 8000, seed=0, sampler=da.Sequential())
    assert torch.equal(job.samples(), whole.samples)
    return {"killed": 2}


PARTS: dict[str, Callable[..., Any]] = {
    "nodes": nodes,
    "designs": designs,
    "kills": kills,
    "hangs": hangs,
    "complains": complains,
    "head": head,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "", RuntimeWarning)
    where = Path(sys.argv[1])
    # The first node has no room for workers. Hooks at exit could not be set from the thread that adds a node.
    nodes_ = Cluster(True, head_node_args={"num_cpus": 0, "include_dashboard": False}, shutdown_at_exit=False)
    found = {}
    try:
        for _ in range(2):
            nodes_.add_node(num_cpus=1, object_store_memory=ROOM)
        ray.init(address=nodes_.address, include_dashboard=False, log_to_driver=False)
        for part in sys.argv[2:]:
            name, _, number = part.partition("=")
            found[name] = PARTS[name](nodes_, where, *([int(number)] if number else []))
    finally:
        ray.shutdown()
        nodes_.shutdown()
    sys.stdout.write(json.dumps(found) + "\n")
