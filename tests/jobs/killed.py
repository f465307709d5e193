"""A job drawn by worker processes that are killed, hang and run out of disk; and whose head is killed too.

Run as a script: `killed.py KILLS FOLDER`. It prints one JSON object. Workers are forked from a process that imported
everything, so that a life costs milliseconds; all else is what Ray's workers do: `Pool`, `ShardWorker`, `JobRunner`.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

import drawahead as da
from drawahead.executors.backend import Died, Raised
from drawahead.executors.pool import Pool
from drawahead.jobs import files, store
from drawahead.jobs.job import LAYOUT
from drawahead.jobs.model import Drawn, JobRequest
from drawahead.jobs.runner import JobRunner
from drawahead.jobs.shards import file_name
from drawahead.jobs.workers import Pooled, ShardWorker

NUM, SHARD = 160, 8
WORKERS = 3


def chain() -> da.GaussianChain:
    """Exact and in float64."""
    return da.GaussianChain(da.targets.Hypercube(4), da.DDPM(timesteps=range(900, -1, -100)))


class Worker:
    """A process with a model, at the other end of a pipe."""

    def __init__(self, trouble: Callable[[Any], None], others: Sequence[Worker]) -> None:
        self.pulse = mmap.mmap(-1, 8)
        self.count, self.at = -1, 0.0
        self.pipe, there = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for worker in (self, *others):  # or nobody would notice that the head is gone
                worker.pipe.close()
            os._exit(_serve(there, self.pulse, trouble))
        there.close()

    def heard(self) -> float:
        count = struct.unpack("q", self.pulse[:])[0]
        if count != self.count:
            self.count, self.at = count, time.monotonic()
        return self.at


def _serve(pipe: Connection, pulse: mmap.mmap, trouble: Callable[[Any], None]) -> int:
    worker = ShardWorker()
    count = worker._count

    def counted(report: da.Report) -> None:
        count(report)
        pulse[:] = struct.pack("q", worker.pulse())

    worker._count = counted  # type: ignore[method-assign]
    with suppress(EOFError, OSError):  # the head is gone
        while True:
            task = pipe.recv()
            try:
                if isinstance(task, tuple):
                    trouble(task)
                answer = worker.build(chain) if task is None else worker.evaluate(task)
            except Exception as error:
                answer = error
            pipe.send(answer)
    return 0


class Forked:
    """The backend: a task is the worker that has it."""

    def __init__(self, trouble: Callable[[Any], None] = lambda task: None) -> None:
        self.trouble = trouble
        self.living: list[Worker] = []

    def start(self) -> Worker:
        self.living.append(Worker(self.trouble, self.living))
        return self.living[-1]

    def build(self, worker: Worker) -> Worker:
        return self.evaluate(worker, None)

    def evaluate(self, worker: Worker, shard: Any) -> Worker:
        with suppress(OSError):  # that it is dead shows when it is read from
            worker.pipe.send(shard)
        return worker

    def wait(self, tasks: Sequence[Worker], seconds: float) -> list[Worker]:
        ready = wait([worker.pipe for worker in tasks], seconds)
        return [worker for worker in tasks if worker.pipe in ready]

    def result(self, task: Worker) -> Any:
        try:
            answer = task.pipe.recv()
        except (EOFError, OSError) as error:
            raise Died("killed") from error
        if isinstance(answer, Exception):
            raise Raised from answer
        return answer

    def heard(self, worker: Worker) -> float:
        return worker.heard()

    def stop(self, worker: Worker) -> None:
        self.living.remove(worker)
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
        os.waitpid(worker.pid, 0)
        worker.pipe.close()

    def resources(self) -> str:
        return "processes"


def draw(folder: Path, backend: Forked, **settings: Any) -> Pool:
    """Draw what is missing of the job. -> the pool, closed."""
    asked = JobRequest("killed", {}, NUM, da.Coupled(window=3), 7, SHARD)
    given = {"retries": 1000, "hedge": None, "timeout": 60.0, "start_timeout": 60.0, "least": 1, **settings}
    pool = Pool(backend, WORKERS, **given)
    try:
        with store.Store.opened(folder, LAYOUT, resume=True) as opened:
            runner = JobRunner(opened, asked, Pooled(pool), False)
            runner.run(runner.missing())
    finally:
        pool.close()
    return pool


def check(folder: Path, whole: da.jobs.Job) -> None:
    """Nothing lost, nothing twice, nothing left over, and every hash as in a job that was left alone."""
    job = da.jobs.read(folder)
    assert job.complete and [shard.sha256 for shard in job.shards] == [shard.sha256 for shard in whole.shards]
    assert torch.equal(job.samples(), whole.samples())
    assert sorted(path.name for path in folder.iterdir()) == ["lock", "manifest.json", "shards"]
    left = sorted(path.name for path in (folder / "shards").iterdir() if not files.is_temporary(path))
    assert left == [shard.file for shard in job.shards]


@contextmanager
def killing(backend: Forked, dice: random.Random, shards: Path) -> Iterator[None]:
    """Kill one worker or another, again and again: more and more slowly, until there is another shard."""
    over = threading.Event()

    def kill() -> None:
        longest, seen = 0.08, 0
        while not over.wait(dice.uniform(0.0, longest)):
            for worker in dice.sample(backend.living, min(1, len(backend.living))):
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
            before, seen = seen, len(list(shards.glob("*.safetensors")))
            longest = 0.08 if seen > before else 1.2 * longest

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def workers_killed(kills: int, folder: Path, whole: da.jobs.Job) -> dict[str, int]:
    """One job after another, until so many workers were killed while they worked."""
    dice, done, replaced = random.Random(kills), 0, 0
    while replaced < kills:
        backend = Forked()
        with killing(backend, dice, folder / f"workers{done}" / "shards"):
            replaced += draw(folder / f"workers{done}", backend).replaced
        check(folder / f"workers{done}", whole)
        done += 1
    return {"kills": replaced, "jobs": done}


def head_killed(kills: int, folder: Path, whole: da.jobs.Job) -> dict[str, int]:
    """The process that keeps the manifest is killed at random moments, and another goes on, with other workers.

    A life may be the longer, the more lives have brought no shard: how busy the machine is matters to none of this.
    """
    dice, died, done = random.Random(kills), 0, 0
    while died < kills:
        home, seen, longest = folder / f"head{done}", 0, 0.4
        while not (home.exists() and (home / "manifest.json").exists() and da.jobs.read(home).complete):
            child = os.fork()
            if child == 0:
                draw(home, Forked())
                os._exit(0)
            time.sleep(dice.uniform(0.05, longest))
            os.kill(child, signal.SIGKILL)
            died += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
            before = seen
            if (home / "manifest.json").exists():
                job = da.jobs.read(home)
                job.verify()
                assert job.finished >= seen, "a finished shard was lost"
                seen = job.finished
            longest = 0.4 if seen > before else 1.5 * longest
        draw(home, Forked())  # complete: removes what the last one left half-written
        check(home, whole)
        done += 1
    return {"kills": died}


def one_hangs(folder: Path, whole: da.jobs.Job) -> dict[str, int]:
    """Its pulse stops while others go on: it is replaced."""
    hung = folder / "hung"

    def trouble(task: Any) -> None:
        if task[1] == 5 and not hung.exists():
            hung.write_text(str(os.getpid()))
            time.sleep(1e6)

    class Heard(Forked):
        """On a busy machine others may be silent for as long."""

        def heard(self, worker: Worker) -> float:
            hangs = hung.exists() and hung.read_text() == str(worker.pid)
            return super().heard(worker) if hangs else time.monotonic()

    pool = draw(folder / "hangs", Heard(trouble), timeout=0.5)
    check(folder / "hangs", whole)
    return {"replaced": pool.replaced}


def named_first(self: JobRunner, drawn: Drawn) -> None:
    """A mutant: shards have their names before they are whole; how long before, the killer decides."""
    (self.folder / "shards" / file_name(drawn.index)).touch()
    time.sleep(1e6)
    keep(self, drawn)


keep = JobRunner._keep


def verdict(work: Callable[[], object]) -> str:
    try:
        return f"survives: {work()}"
    except (AssertionError, da.InputError, da.JobError) as error:
        return f"found out: {error}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    number, where = int(sys.argv[1]), Path(sys.argv[2])
    alone = da.jobs.draw(
        where / "alone", chain(), NUM, name="killed", seed=7, sampler=da.Coupled(window=3), shard_size=SHARD
    )
    found: dict[str, object] = {
        "workers": workers_killed(number, where, alone),
        "head": head_killed(number // 4, where, alone),
        "hangs": one_hangs(where, alone),
    }
    JobRunner._keep = named_first  # type: ignore[method-assign]
    (where / "mutant").mkdir()
    found["named_first"] = verdict(lambda: head_killed(50, where / "mutant", alone))
    sys.stdout.write(json.dumps(found))
