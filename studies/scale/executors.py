"""What executors cost and what they survive: a sleeping oracle makes it measurable on a machine with few cores.

The oracle's law is uniform and costs nothing; it sleeps for a latency and for every item, as an accelerator would work
while the CPU waits. So 16 workers need no 16 cores, and what is lost beside the sleeping is what executors cost: taking
a round apart, sending, waiting, putting it together. Every run's samples are compared with those of `Local`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead.oracles.tokens import TokenOracle
from drawahead.rounds.threads import Executor
from studies.scale.page import SOURCES, figure, values
from studies.study import Data, Study, Watch, data_path, save

LATENCY, EACH = 0.010, 0.002  # seconds: for a batch, and for every item of it
STEPS, SAMPLES = 32, 64  # rounds of a run, and items of a round
WORKERS = (1, 2, 4, 8, 16)
ENTRIES = (16, 1024, 16384)  # of a state, float64: what is sent and comes back
REPEATS = 5


class Sleepy(TokenOracle):
    """Fair coins, told slowly."""

    def __init__(self, latency: float, each: float, slower: float = 1.0) -> None:
        self.length, self.vocab_size = STEPS, 2
        self.latency, self.each, self.slower = latency, each, slower

    def rows(self, tokens: Tensor) -> Tensor:
        time.sleep(self.slower * (self.latency + self.each * len(tokens)))
        return torch.full((*tokens.shape, 2), 0.5, dtype=torch.float64).log()


def sleepy() -> TokenOracle:
    return Sleepy(LATENCY, EACH)


def awake() -> TokenOracle:
    return Sleepy(0.0, 0.0)


def one_slow(folder: str) -> TokenOracle:
    """Of all workers the first to be built is ten times slower than the others."""
    try:
        (Path(folder) / "taken").touch(exist_ok=False)
    except FileExistsError:
        return sleepy()
    return Sleepy(LATENCY, EACH, slower=10.0)


def still(x: Tensor, k: Tensor) -> Tensor:
    return x


def vectors(entries: int) -> da.GaussianChain:
    return da.GaussianChain(still, da.StochasticLocalization(STEPS), (entries,), dtype=torch.float64)


def drawn(chain: Any, executor: Executor | None, on_round: Callable[[da.Report], None] | None = None) -> da.Result:
    return da.sample(
        chain, SAMPLES, sampler=da.Sequential(), seed=0, executor=executor, on_round=on_round, graphs=False
    )


def timed(chain: Any, executor: Executor | None, repeats: int = REPEATS) -> dict[str, Any]:
    """Milliseconds that a round spends in the executor, over a few runs after one that warms up: the median, and what
    the quickest tenth of rounds took, which other work on the machine disturbed least."""
    first = drawn(chain, executor).samples
    each: list[float] = []
    for _ in range(repeats):
        so_far = [0.0]
        result = drawn(chain, executor, lambda report, so_far=so_far: so_far.append(report.oracle_seconds))
        assert torch.equal(result.samples, first)
        each += [(after - before) * 1e3 for before, after in itertools.pairwise(so_far)]
    quick = statistics.quantiles(each, n=10)[0]
    return {"ms": statistics.median(each), "quick_ms": quick, "rounds": len(each), "samples": first}


def checked(found: dict[str, Any], reference: Tensor) -> dict[str, Any]:
    """Compare the samples, and keep the verdict instead."""
    return {**found, "samples": bool(torch.equal(found["samples"], reference))}


@contextmanager
def pool(make: Callable[[], Any], workers: int, **options: Any) -> Iterator[da.Ray]:
    with da.Ray(make, workers, cpus=0.01, **{"hedge": None, **options}) as executor:
        yield executor


def ideal(workers: int, latency: float = LATENCY, each: float = EACH) -> float:
    """Milliseconds of a round if executors cost nothing."""
    return (latency + each * -(-SAMPLES // workers)) * 1e3


def efficiency(results: dict[str, Any]) -> None:
    """Sleeping workers, more and more of them; and workers that do not sleep, which shows what a round costs beside."""
    reference = drawn(sleepy(), None).samples
    local = {"sleepy": timed(sleepy(), None), "awake": timed(awake(), None)}
    results["local"] = {name: checked(found, reference) for name, found in local.items()}
    results["ray"], results["replicas"] = [], []
    for workers in WORKERS:
        row: dict[str, Any] = {"workers": workers, "ideal_ms": ideal(workers)}
        for name, make in (("sleepy", sleepy), ("awake", awake)):
            with pool(make, workers) as executor:
                row[name] = checked(timed(executor.chain, executor), reference)
        results["ray"].append(row)
        _show("ray", row)
        row = {"workers": workers, "ideal_ms": ideal(workers)}
        for name, make in (("sleepy", sleepy), ("awake", awake)):
            with da.Replicas([make() for _ in range(workers)]) as replicas:
                row[name] = checked(timed(replicas.chain, replicas), reference)
        results["replicas"].append(row)
        _show("replicas", row)


def _show(kind: str, row: dict[str, Any]) -> None:
    found = {name: (round(row[name]["ms"], 2), round(row[name]["quick_ms"], 2)) for name in ("sleepy", "awake")}
    print(kind, row["workers"], found, flush=True)


def payload(results: dict[str, Any], workers: int = 4) -> None:
    """Larger and larger states: what sending them adds to a round."""
    results["payload"] = []
    for entries in ENTRIES:
        make = functools.partial(vectors, entries)
        local = timed(make(), None)
        with pool(make, workers) as executor:
            found = checked(timed(executor.chain, executor), local["samples"])
        megabytes = 2 * 8 * entries * SAMPLES / 1e6  # there and back
        row = {"entries": entries, "workers": workers, "megabytes": megabytes, **found}
        row["adds_ms"], row["quick_adds_ms"] = found["ms"] - local["ms"], found["quick_ms"] - local["quick_ms"]
        results["payload"].append(row)
        print(
            "payload", entries, f"{megabytes:.1f} MB, {row['adds_ms']:.1f} ms, {row['quick_adds_ms']:.1f}", flush=True
        )


def troubles(results: dict[str, Any], workers: int = 8) -> None:
    """The same rounds with workers killed from outside, and with one worker that is ten times slower."""
    import ray

    reference = drawn(sleepy(), None).samples
    rows = results["troubles"] = []

    def note(what: str, executor: da.Ray, result: da.Result) -> None:
        report = result.report
        rows.append(
            {
                "what": what,
                "workers": workers,
                "rounds": report.rounds,
                "ms": report.oracle_seconds / report.rounds * 1e3,
                "ideal_ms": ideal(workers),
                "replaced": executor.replaced,
                "resent": executor.resent,
                "samples": bool(torch.equal(result.samples, reference)),
            }
        )
        print(rows[-1], flush=True)

    for every in (0, 8, 4):
        with pool(sleepy, workers) as executor:
            drawn(executor.chain, executor)

            def kill(report: da.Report, every: int = every, executor: da.Ray = executor) -> None:
                if every and report.rounds % every == 0:
                    ready = [slot for slot in executor._pool._slots if slot.ready]
                    ray.kill(ready[report.rounds // every % len(ready)].worker)

            note(
                f"a worker killed every {every} rounds" if every else "nothing",
                executor,
                drawn(executor.chain, executor, kill),
            )
    for hedge in (None, 3.0):
        with (
            tempfile.TemporaryDirectory() as folder,
            pool(functools.partial(one_slow, folder), workers, hedge=hedge) as executor,
        ):
            drawn(executor.chain, executor)
            words = "one worker 10 times slower, " + ("not hedged" if hedge is None else f"hedged at {hedge:g} times")
            note(words, executor, drawn(executor.chain, executor))


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All of it, with Ray on this machine."""
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    machine = {
        "cores": os.cpu_count(),
        "ray": ray.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }
    oracle = {"latency_ms": LATENCY * 1e3, "each_ms": EACH * 1e3, "items": SAMPLES, "rounds": STEPS}
    results: Data = {"machine": machine, "oracle": oracle}
    for part in (efficiency, payload, troubles):
        part(results)
        machine["load_after"] = os.getloadavg()[0]
        save(results, data_path(arguments.out, "executors"))
    ray.shutdown()
    return results


STUDY = Study("executors", measure, values, {"scale": figure}, page="scale", sources=SOURCES)
