"""What a first call costs, and how well `Auto` does against the best window: each time in a process of its own."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from typing import Any

import torch

import drawahead as da
from studies.speed.fresh import Failed, started
from studies.speed.place import Place
from studies.speed.timing import WARM_UP, Row, measured

KINDS = ("fashion", "text")
_SAMPLERS: dict[str, da.Sampler | None] = {"sequential": da.Sequential(), "auto": None}
_WINDOWS: dict[str, tuple[int | None, ...]] = {"fashion": (64, 128, 192), "text": (None, 64, 128)}


def first_call(place: Place, kind: str, sampler: str) -> Row:
    """Load a model, then time the first call of the process: all that CUDA loads on first use is in it."""
    began = place.now()
    target = place.make(kind)
    loaded = place.now()
    report = da.sample(target, 1, sampler=_SAMPLERS[sampler], seed=WARM_UP, **place.options).report
    ended = place.now()
    return {"load": loaded - began, "first": ended - loaded, "sampler": report.sampler, "choice": report.choice}


def cold(results: dict[str, Any], place: Place, processes: int, save: Callable[[], None]) -> None:
    """First calls of `Sequential` and of `Auto`, in turns."""
    torch.cuda.empty_cache()
    found: dict[str, dict[str, list[Row]]] = {kind: {name: [] for name in _SAMPLERS} for kind in KINDS}
    turns = [(kind, sampler) for _ in range(processes) for kind in KINDS for sampler in _SAMPLERS]
    with started([f"{__name__}:first_call"] * len(turns)) as waiting:
        for process in waiting:
            process.ready()
        for (kind, sampler), process in zip(turns, waiting, strict=True):
            try:
                row = process.result(place, kind=kind, sampler=sampler)
            except Failed as failure:  # the others count all the same
                print(failure, flush=True)
                continue
            found[kind][sampler].append(row)
            print(f"cold {kind} {sampler}: {row['first']:.2f} s after {row['load']:.2f} s", row["choice"], flush=True)
            if all(rows for rows in found[kind].values()):
                results.setdefault("cold", {})[kind] = found[kind]
            save()


def repetition(place: Place, kind: str) -> Row:
    """`Auto` after three calls, a few windows, and `Sequential`: seed by seed in turns, in this process."""
    target = place.make(kind)
    seeds = place.seeds
    windows = {str(window): da.Coupled(window) for window in _WINDOWS[kind]}
    samplers: dict[str, da.Sampler | None] = {"auto": None, **windows}

    def seconds(sampler: da.Sampler | None, seed: int) -> float:
        nonlocal report
        began = place.now()
        report = da.sample(target, 1, sampler=sampler, seed=seed, **place.options).report
        return place.now() - began

    report: Any = None
    for sampler in samplers.values():
        for i in range(3):
            seconds(sampler, WARM_UP - i)
    times: dict[str, list[float]] = {name: [] for name in samplers}
    chosen, predicted = [], []
    for seed in seeds:
        for name, sampler in samplers.items():
            times[name].append(seconds(sampler, seed))
            if name == "auto":
                chosen.append(report.sampler)
                predicted.append(gain_of(report.choice))
    one_by_one = measured(place, target, da.Sequential(), 1, seeds[:1])["seconds"]
    medians = {name: statistics.median(values) for name, values in times.items()}
    auto = medians.pop("auto")
    best = min(medians, key=lambda name: medians[name])
    said = [gain for gain in predicted if gain is not None]
    return {
        "auto": auto,
        "chosen": chosen[-1],
        "choices": len(set(chosen)),
        "windows": medians,
        "best": best,
        "ratio": auto / medians[best],
        "sequential": one_by_one,
        "predicted_gain": statistics.median(said) if said else None,
        "measured_gain": one_by_one / auto,
    }


def gain_of(choice: str) -> float | None:
    """How many times less the report of `Auto` says that it takes."""
    found = re.search(r"([\d.]+)x less time", choice)
    return float(found[1]) if found else None


def repetitions(results: dict[str, Any], place: Place, times: int, save: Callable[[], None]) -> None:
    """The same, again and again, each time in a new process."""
    torch.cuda.empty_cache()
    turns = [kind for _ in range(times) for kind in KINDS]
    found: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    with started([f"{__name__}:repetition"] * len(turns)) as waiting:
        for process in waiting:
            process.ready()
        for kind, process in zip(turns, waiting, strict=True):
            try:
                row = process.result(place, kind=kind)
            except Failed as failure:
                print(failure, flush=True)
                continue
            found[kind].append(row)
            gains = f"gain {row['predicted_gain']} predicted, {row['measured_gain']:.1f} measured"
            print(f"auto {kind}: {row['ratio']:.2f} times window {row['best']}; {gains}; {row['chosen']}", flush=True)
            results["auto_again"] = {name: rows for name, rows in found.items() if rows}
            save()
