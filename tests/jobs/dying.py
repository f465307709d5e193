"""A process that draws a job in children which die: killed at random moments, or at every step of writing a file.

Run as a script: `dying.py KILLS FOLDER`. It prints one JSON object. Children are forked from a process that has
imported everything, so that a life costs milliseconds and most of it is drawing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import drawahead as da
from drawahead.jobs import files, runner
from drawahead.jobs.model import Drawn, Model
from drawahead.jobs.shards import file_name

NUM, SHARD = 120, 8
FEW, FEW_SHARD = 7, 4


def chain() -> da.GaussianChain:
    """Exact and in float64."""
    return da.GaussianChain(da.targets.Hypercube(4), da.DDPM(timesteps=range(900, -1, -100)))


def draw(folder: Path, num: int, size: int) -> da.jobs.Job:
    return da.jobs.draw(
        folder, chain(), num, name="dying", seed=7, sampler=da.Coupled(window=3), shard_size=size, resume=True
    )


def life(work: Callable[[], object], seconds: float | None) -> bool:
    """Do the work in a child, for so many seconds at most. -> whether it ended by itself."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), f"a child failed with status {status}"
    return status == 0


def seen(folder: Path) -> dict[str, str]:
    """What is finished, after its checksums were compared."""
    if not (folder / "manifest.json").exists():
        return {}
    job = da.jobs.read(folder)
    job.verify()
    return {shard.file: shard.sha256 for shard in job.shards}


def at_random(kills: int, seed: int, folder: Path) -> dict[str, int]:
    """Draw one job after another, each killed at random moments, until there were so many kills."""
    began = time.perf_counter()
    assert life(lambda: draw(folder / "whole", NUM, SHARD), None)
    a_shard = (time.perf_counter() - began) / (NUM // SHARD)
    whole = da.jobs.read(folder / "whole")
    moments = random.Random(seed)
    total = {"jobs": 0, "kills": 0, "progressed": 0}
    while total["kills"] < kills:
        home = folder / str(total["jobs"])
        died, progressed = until_complete(home, lambda: a_shard * moments.uniform(0.0, 5.0))
        job = da.jobs.read(home)
        assert job.complete and torch.equal(job.samples(), whole.samples())
        assert [shard.sha256 for shard in job.shards] == [shard.sha256 for shard in whole.shards]
        total = {
            "jobs": total["jobs"] + 1,
            "kills": total["kills"] + died,
            "progressed": total["progressed"] + progressed,
        }
    return total


def until_complete(folder: Path, moment: Callable[[], float]) -> tuple[int, int]:
    """Draw a job in lives cut short. Shards that are begun leave lines in a log. -> kills, lives with progress."""
    log = folder.with_suffix(".log")
    shard = Model.shard

    def logged(self: Model, config: object, index: int, *rest: object) -> object:
        with log.open("a") as file:
            file.write(f"{index}\n")
        return shard(self, config, index, *rest)  # type: ignore[arg-type]

    def work() -> None:
        Model.shard = logged  # type: ignore[method-assign,assignment]
        draw(folder, NUM, SHARD)

    before: dict[str, str] = {}
    died = progressed = 0
    patience = 1.0  # the machine may be busier than it was when the moments were chosen
    while len(before) < NUM // SHARD:
        died += not life(work, patience * moment())
        after = seen(folder)
        assert before.items() <= after.items(), "a finished shard was lost, or drawn twice"
        progressed += len(after) > len(before)
        patience = 1.0 if len(after) > len(before) else 1.2 * patience
        before = after
    begun = log.read_text().split()
    assert len(begun) <= NUM // SHARD + died, "more than the shard under way was drawn again"
    return died, progressed


def at_every_point(folder: Path) -> dict[str, int]:
    """Die before the first step of writing, before the second, and so on; each time in a new folder, and resume."""
    expected = da.sample(chain(), FEW, seed=7, sampler=da.Coupled(window=3)).samples
    points = 0
    while True:
        home = folder / str(points)

        def work(home: Path = home, count: int = points) -> None:
            dying(count)
            draw(home, FEW, FEW_SHARD)

        ended = life(work, None)
        kept = seen(home)
        assert life(lambda home=home: draw(home, FEW, FEW_SHARD), None)
        assert kept.items() <= seen(home).items()
        assert torch.equal(da.jobs.read(home).samples(), expected)
        assert sorted(path.name for path in home.iterdir()) == ["lock", "manifest.json", "shards"]
        assert sorted(path.name for path in (home / "shards").iterdir()) == ["000000.safetensors", "000001.safetensors"]
        if ended:
            return {"points": points}
        points += 1


def dying(count: int) -> None:
    """Kill this process at the call with this number to one of the system's functions that write files."""
    left = count

    def deadly(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **given: object) -> object:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return function(*args, **given)

        return call

    class Os:
        """The module `os`, but deadly; a file is written in two halves, so that it can be cut between them."""

        def __getattr__(self, name: str) -> object:
            found = getattr(os, name)
            return deadly(found) if name in ("open", "fsync", "replace") else found

    class Halves:
        def __init__(self, file: object) -> None:
            self.file = file

        def __enter__(self) -> Halves:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()  # type: ignore[attr-defined]

        def write(self, data: bytes) -> None:
            for half in (data[: len(data) // 2], data[len(data) // 2 :]):
                deadly(self.file.write)(half)  # type: ignore[attr-defined]
                self.file.flush()  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    def opened(handle: int, mode: str) -> object:
        file = os.fdopen(handle, mode)
        return Halves(file) if "w" in mode else file

    files.os = Os()  # type: ignore[assignment]
    files.open = opened  # type: ignore[attr-defined]


def write_in_place(path: Path, data: bytes) -> None:
    """A mutant: the file is there before it is whole."""
    handle = files.os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with getattr(files, "open", os.fdopen)(handle, "wb") as file:
        file.write(data)


def named_first(self: runner.JobRunner, drawn: Drawn) -> None:
    """A mutant: a shard has its name before it is whole."""
    write_in_place(self.folder / "shards" / file_name(drawn.index), drawn.data)


def verdict(folder: Path) -> str:
    """Whether dying at every point is found out to be harmful."""
    folder.mkdir()
    try:
        return f"survives {at_every_point(folder)}"
    except (AssertionError, da.InputError) as error:
        return str(error)


if __name__ == "__main__":
    torch.set_num_threads(1)
    kills, where = int(sys.argv[1]), Path(sys.argv[2])
    found: dict[str, object] = {"random": at_random(kills, kills, where), "points": verdict(where / "points")}
    write, files.write = files.write, write_in_place
    found["write_in_place"] = verdict(where / "write_in_place")
    files.write, runner.JobRunner._keep = write, named_first  # type: ignore[method-assign]
    found["named_first"] = verdict(where / "named_first")
    sys.stdout.write(json.dumps(found))
