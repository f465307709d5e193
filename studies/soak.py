"""Jobs of all kinds for as long as one likes, interrupted in all ways: is memory flat, are files closed, hashes right?

One process draws tokens, images and tilings in turn. Each job is begun by a child that is killed at a random moment and
gone on with here, where it is stopped, fails, and runs out of memory before it is complete; then every shard must have
the hash it has in a job that was left alone. After each job memory and open files are counted.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead import networks, tilings
from drawahead.oracles.tokens import TokenOracle, WrappedOracle
from studies.jobs import values
from studies.study import DOCS, Data, Stamp, Study, Watch

Chance = Callable[[int], None]
"""What happens before a model answers so many items."""
ROOM = 6  # items for which there is memory, when there is little


class Trouble:
    """Things that happen to a model, once each when they are ordered."""

    def __init__(self) -> None:
        self.ordered = ""
        self.counts = {"out_of_memory": 0}

    def __call__(self, items: int) -> None:
        if self.ordered == "fail":
            self.ordered = ""
            raise RuntimeError("the model is in a mood")
        if self.ordered == "crowd" and items > ROOM:
            self.ordered = ""
            self.counts["out_of_memory"] += 1
            raise torch.OutOfMemoryError("out of memory, as ordered")


class TroubledOracle(WrappedOracle):
    """An oracle to which things happen."""

    def __init__(self, oracle: TokenOracle, trouble: Chance) -> None:
        super().__init__(oracle)
        self.trouble = trouble

    def rows(self, tokens: Tensor) -> Tensor:
        self.trouble(len(tokens))
        return self.oracle.rows(tokens)

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        self.trouble(len(tokens))
        return self.oracle.rows_at(tokens, context, position)


def tokens(trouble: Chance) -> da.TokenChain:
    return da.TokenChain(TroubledOracle(da.targets.named("markov", 32), trouble))


def images(trouble: Chance) -> da.GaussianChain:
    """The shipped network, one state at a time: so its numbers do not depend on the batch, and hashes are compared."""
    chain = networks.fashion(3, device="cpu", dtype=torch.float64)
    inner = chain.denoiser

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        trouble(len(x))
        return torch.cat([inner(x[i : i + 1], k[i : i + 1]) for i in range(len(x))])

    return chain.replace(denoiser=denoiser)


def boards(trouble: Chance) -> da.TokenChain:
    """Tilings are asked for their pieces, which nothing can come before."""
    return da.TokenChain(tilings.dominoes("square", 8))


KINDS: dict[str, tuple[Callable[[Chance], Any], da.Sampler, int, int]] = {
    "tokens": (tokens, da.Coupled(), 480, 40),
    "images": (images, da.Coupled(window=2), 6, 2),
    "tilings": (boards, da.Separated(), 24, 4),
}
"""By name: what is drawn, how, samples, and samples of a shard."""


def draw(folder: Path, kind: str, chain: Any, stop: Any = None) -> da.jobs.Job:
    _, sampler, num, size = KINDS[kind]
    return da.jobs.draw(
        folder, chain, num, name=kind, seed=3, sampler=sampler, shard_size=size, resume=True, stop=stop, graphs=False
    )


class After:
    """Stops a job once some more shards are there."""

    def __init__(self, folder: Path, more: int) -> None:
        self.folder = folder
        self.wanted = more + self._there()

    def _there(self) -> int:
        return len([*self.folder.glob("shards/0*")])

    def is_set(self) -> bool:
        return self._there() >= self.wanted


def killed(folder: Path, kind: str, chain: Any, seconds: float) -> bool:
    """Draw in a child that is killed after so long. -> whether it was still alive."""
    child = os.fork()
    if child == 0:
        draw(folder, kind, chain)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def cycle(
    folder: Path, kind: str, chain: Any, trouble: Trouble, dice: random.Random, counts: dict[str, int]
) -> list[str]:
    """One job, and what happens to it. -> the hashes of its shards."""
    counts["kills"] += killed(folder, kind, chain, dice.uniform(0.0, 0.6))
    for order in ("", "fail", "crowd"):
        trouble.ordered = order
        try:
            job = draw(folder, kind, chain, After(folder, 1) if not order else None)
            counts["stops"] += not job.complete
        except da.JobError:
            counts["errors"] += 1
    trouble.ordered = ""
    job = draw(folder, kind, chain)
    counts["jobs"] += 1
    job.verify()
    assert job.complete and sorted(path.name for path in folder.iterdir()) == ["lock", "manifest.json", "shards"]
    return [shard.sha256 for shard in job.shards]


def resident() -> float:
    """Megabytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def handles() -> int:
    return len(os.listdir("/proc/self/fd"))


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """For so many seconds."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    stamp, dice, trouble = Stamp(arguments), random.Random(0), Trouble()
    chains = {kind: make(trouble) for kind, (make, *_) in KINDS.items()}
    counts = dict.fromkeys(("jobs", "kills", "stops", "errors"), 0)
    seen: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=DOCS) as name:
        expected = {kind: [s.sha256 for s in draw(Path(name) / kind, kind, chains[kind]).shards] for kind in KINDS}
        began = time.perf_counter()
        while (taken := time.perf_counter() - began) < arguments.seconds:
            kind = list(KINDS)[len(seen) % len(KINDS)]
            with tempfile.TemporaryDirectory(dir=name) as place:
                found = cycle(Path(place) / "job", kind, chains[kind], trouble, dice, counts)
            assert found == expected[kind], f"a shard of {kind} has another hash"
            gc.collect()
            seen.append({"megabytes": resident(), "handles": handles(), "threads": threading.active_count()})
            watch(f"{counts['jobs']} jobs, {seen[-1]['megabytes']:.0f} MB", int(taken), arguments.seconds)
    return stamp.made() | {"counts": counts | trouble.counts, **flatness(seen)}


def flatness(seen: list[dict[str, Any]]) -> Data:
    """Memory and open files of the second quarter of all jobs, and of the last."""
    quarter = max(1, len(seen) // 4)
    early, late = seen[quarter : 2 * quarter] or seen, seen[-quarter:]
    return {
        f"{name}_{when}": statistics.median(row[name] for row in rows)
        for name in ("megabytes", "handles", "threads")
        for when, rows in (("early", early), ("late", late))
    }


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=int, default=3600, help="for how long (an hour)")


STUDY = Study("soak", measure, values, {}, page="jobs", sources=("jobs", "soak"), options=options)
