"""Executors on a real GPU: what a round costs that is not captured, and what happens when memory really runs out.

With an executor rounds are driven by the engine instead of captured as one graph, so that they can be cut and sent.
What that adds to a round is measured here with the shipped networks, beside captured rounds of the same windows, with
as many threads as torch takes by itself and with one. Two replicas on one GPU share it, so they show what cutting a
round costs, not what two GPUs gain.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import drawahead as da
from studies.scale.page import SOURCES, figure, values
from studies.study import Data, Study, Watch, data_path, read, save

HALF = torch.float16
SEEDS = range(200, 203)


def fashion() -> da.GaussianChain:
    return da.networks.fashion(device="cuda", dtype=HALF)


def text() -> da.TokenOracle:
    return da.networks.text(device="cuda", dtype=HALF, temperature=0.8)


def timed(target: Any, sampler: da.Sampler, num: int, **options: Any) -> dict[str, float]:
    """Milliseconds of a round, everything included: the median over seeds after one that warms up."""
    da.sample(target, num, sampler=sampler, seed=99, **options)
    rounds, each = [], []
    for seed in SEEDS:
        torch.cuda.synchronize()
        began = time.perf_counter()
        report = da.sample(target, num, sampler=sampler, seed=seed, **options).report
        rounds.append(report.rounds)
        each.append((time.perf_counter() - began) / report.rounds * 1e3)
    return {"ms": statistics.median(each), "rounds": statistics.fmean(rounds)}


def rounds(make: Callable[[], Any], cases: list[tuple[da.Sampler, int]]) -> list[dict[str, Any]]:
    found = []
    for sampler, num in cases:
        target = make()
        row: dict[str, Any] = {"sampler": repr(sampler), "num_samples": num}
        row["captured"] = timed(target, sampler, num)
        row["many_threads"] = timed(target, sampler, num, executor=da.Local())
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        row["local"] = timed(target, sampler, num, executor=da.Local())
        with da.Replicas([target, make()]) as executor:
            row["replicas"] = timed(target, sampler, num, executor=executor)
        torch.set_num_threads(threads)
        found.append(row)
        print(sampler, num, {key: round(row[key]["ms"], 3) for key in row if isinstance(row[key], dict)}, flush=True)
    return found


def same_texts() -> dict[str, float]:
    """Tokens of three replicas equal to those of one, in float32 and in float16."""
    found = {}
    for name, dtype in (("float32", torch.float32), ("float16", HALF)):
        models = [da.networks.text(device="cuda", dtype=dtype) for _ in range(3)]
        with da.Replicas(models) as executor:
            shared = da.sample(models[0], 16, sampler=da.Coupled(), seed=3, executor=executor).samples
        alone = da.sample(models[0], 16, sampler=da.Coupled(), seed=3, executor=da.Local()).samples
        found[name] = float((shared == alone).double().mean())
    return found


def memory(left_gib: float = 1.0, num: int = 4096) -> dict[str, Any]:
    """Draw a step of many images while nearly all of the GPU's memory is taken by something else."""
    chain = da.networks.fashion(device="cuda", dtype=torch.float32)
    fits = da.sample(chain, num, sampler=da.Sequential(), seed=0, executor=da.Local(64), stop=Stop(3), max_live=num)
    expected = fits.report.rounds
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    ballast = torch.empty(max(0, free - int(left_gib * 2**30)), dtype=torch.uint8, device="cuda")
    executor = da.Local(max_batch_size=100_000)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = da.sample(
            chain, num, sampler=da.Sequential(), seed=0, executor=executor, stop=Stop(3), max_live=num
        ).report
    del ballast
    return {
        "gib_left": left_gib,
        "items": num,
        "rounds": report.rounds,
        "as_many_as_expected": report.rounds == expected,
        "warnings": [str(warning.message) for warning in told],
        "notes": list(executor.notes),
    }


class Stop:
    """Set after so many looks."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


PARTS: dict[str, Callable[[], Any]] = {
    "text": lambda: rounds(text, [(da.Coupled(), 1), (da.Coupled(), 16)]),
    "fashion": lambda: rounds(fashion, [(da.Coupled(64), 1), (da.Coupled(256), 1)]),
    "same_texts": same_texts,
    "memory": memory,
}


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=[], help="measure these, and keep the others")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Part by part, saved after each: a part that fails leaves the others."""
    path = data_path(arguments.out, "executors-gpu")
    results: Data = read(path) if path.exists() else {}
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "threads": torch.get_num_threads()}
    results["machine"] = machine
    for name in arguments.parts or PARTS:
        try:
            results[name] = PARTS[name]()
        except Exception as error:
            results[name] = {"failed": repr(error)}
        print(name, results[name], flush=True)
        save(results, path)
    return results


STUDY = Study("executors-gpu", measure, values, {"scale": figure}, page="scale", sources=SOURCES, options=options)
