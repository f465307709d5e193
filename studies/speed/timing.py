"""Seconds of the shipped networks by every sampler, window and batch.

The sequential side is the best we know how to make: every step one captured graph, network and all, no step waits for
the CPU, in the faster of the memory layouts that were tried. Times are medians after a warm-up, of `da.sample` as a
user calls it: noise, copies and the last transfer to the CPU included.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import drawahead as da
from studies.estimates import mean

WINDOWS = (64, 96, 128, 192, 256)
TEXT_BATCHES = (1, 4, 16, 64, 256)
FASHION_BATCHES = (1, 4, 16, 32, 64, 128)
SEEDS = range(100, 108)  # no window was tuned on these
HALF = torch.float16


def fashion(dtype: torch.dtype) -> da.GaussianChain:
    return da.networks.fashion(device="cuda", dtype=dtype)


def text(dtype: torch.dtype, temperature: float = 0.8) -> da.TokenOracle:
    return da.networks.text(device="cuda", dtype=dtype, temperature=temperature)


def clock(work: Callable[[int], Any], seeds: Any) -> tuple[list[float], list[Any]]:
    """Seconds and results, one for each seed, after one that warms up."""
    work(99)
    seconds, results = [], []
    for seed in seeds:
        torch.cuda.synchronize()
        began = time.perf_counter()
        results.append(work(seed))
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return seconds, results


def measured(target: Any, sampler: da.Sampler | None, num: int, seeds: Any, **options: Any) -> dict[str, Any]:
    """Draw `num` samples for each seed. -> median seconds, and what the reports counted."""
    seconds, results = clock(lambda seed: da.sample(target, num, sampler=sampler, seed=seed, **options), seeds)
    reports = [result.report for result in results]
    rounds = mean(r for report in reports for r in report.sample_rounds)
    return {
        "sampler": reports[-1].sampler,
        "choice": reports[-1].choice,
        "num_samples": num,
        "runs": len(seconds),
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "mean_rounds": rounds.value,
        "rounds_standard_error": rounds.error,
        "batch_rounds": statistics.fmean(report.rounds for report in reports),
        "queries_per_sample": statistics.fmean(report.queries_per_sample for report in reports),
    }


def one_sample(results: dict[str, Any], name: str, target: Any, windows: tuple[int | None, ...]) -> None:
    """Batch 1: sequential, hand-tuned windows, Auto."""
    here = results.setdefault(name, {})
    here["sequential"] = measured(target, da.Sequential(), 1, SEEDS[:4])
    here["coupled"] = [{"window": w, **measured(target, da.Coupled(w), 1, SEEDS)} for w in windows]
    here["auto"] = measured(target, None, 1, SEEDS)
    for row in (here["sequential"], *here["coupled"], here["auto"]):
        print(
            name,
            row["sampler"],
            f"{row['seconds'] * 1e3:.1f} ms, {row['mean_rounds']:.1f} rounds",
            row["choice"],
            flush=True,
        )


def many_samples(
    results: dict[str, Any],
    name: str,
    target: Any,
    batches: tuple[int, ...],
    window: int | None,
    save: Callable[[], None],
) -> None:
    """From which batch on speculation stops paying. Saved after every batch: the last ones take long."""
    rows = results.setdefault(name, {})["batches"] = []
    for batch in batches:
        runs = SEEDS[:2] if batch < 64 else SEEDS[:1]
        row: dict[str, Any] = {
            "batch": batch,
            "sequential": measured(target, da.Sequential(), batch, runs[:1]),
            "coupled": measured(target, da.Coupled(window), batch, runs),
            "auto": measured(target, None, batch, runs),
        }
        rows.append(row)
        print(
            name,
            batch,
            {key: round(row[key]["seconds"], 4) for key in ("sequential", "coupled", "auto")},
            row["auto"]["choice"],
            flush=True,
        )
        save()


def layouts() -> dict[str, Any]:
    """Sequential at batch 1 with the image network's tensors laid out either way."""
    found = {}
    for name, layout in (("plain", torch.contiguous_format), ("channels last", torch.channels_last)):
        chain = da.networks.fashion(device="cuda", dtype=HALF, memory_format=layout)
        found[name] = measured(chain, da.Sequential(), 1, SEEDS[:2])
        print(name, round(found[name]["seconds"], 4), flush=True)
    return found


def precisions(results: dict[str, Any]) -> None:
    """The same ratios with networks in other precisions."""
    for name, make, window in (("fashion", fashion, 128), ("text", text, None)):
        for label, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
            target = make(dtype)
            results.setdefault(name, {})[label] = {
                "sequential": measured(target, da.Sequential(), 1, SEEDS[:1]),
                "coupled": measured(target, da.Coupled(window), 1, SEEDS[:4]),
            }


def eager(results: dict[str, Any]) -> None:
    """Without graphs, on both sides. There windows are ragged, and libraries plan their kernels for every new shape; so
    the same seeds, that is the same shapes, are drawn once more."""
    for name, target, window in (("text", text(HALF), None), ("fashion", fashion(HALF), 96)):
        results.setdefault(name, {})["eager"] = {
            "sequential": measured(target, da.Sequential(), 1, SEEDS[:1], graphs=False),
            "coupled": measured(target, da.Coupled(window), 1, SEEDS[:4], graphs=False),
            "coupled, once more": measured(target, da.Coupled(window), 1, SEEDS[:4], graphs=False),
        }
