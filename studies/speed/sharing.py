"""Two processes that share one GPU, each with its own part of the samples, beside one process with all of them.

It is what `--workers` on a machine with one GPU comes to. With two GPUs each process has one to itself, and takes as
long as one process takes for half of the samples here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import drawahead as da
from studies.speed.fresh import started
from studies.speed.place import Place, Setting
from studies.speed.timing import Row

SIZES = (32,)
"""Samples in all."""


def draw(place: Place, num: int, first: int, start: float, seconds: float) -> Row:
    """In a process of its own: so many samples again and again, from a time on, for so many seconds."""
    chain = place.fashion()
    sampler = da.Coupled(window=64 if num < 8 else 16)
    with da.Runner(chain, sampler, **place.options) as runner:
        runner.sample(num, first=first, seed=99)
        time.sleep(max(0.0, start - time.time()))
        late, calls, began = time.time() - start, 0, place.now()
        while not calls or time.perf_counter() - began < seconds:
            runner.sample(num, first=first, seed=100 + calls)
            calls += 1
        return {"calls": calls, "seconds": (place.now() - began) / calls, "late": late}


def sharing(results: dict[str, Any], setting: Setting, save: Callable[[], None]) -> None:
    """One process with all samples, one with half of them, and two with half of them each at the same time."""
    place, rows = setting.place, list[Row]()
    seconds = 2.0 if place.real else 0.01
    for num in SIZES if place.real else (2,):
        row: Row = {"samples": num}
        for name, shares in (("one", [num]), ("half", [num // 2]), ("two", [num // 2] * 2)):
            with started([f"{__name__}:draw"] * len(shares)) as processes, ThreadPoolExecutor() as threads:
                for process in processes:
                    process.ready()
                start = time.time() + (7.0 if place.real else 1.0)  # by then both have captured their rounds
                found = [
                    threads.submit(process.result, place, num=own, first=i * own, start=start, seconds=seconds)
                    for i, (process, own) in enumerate(zip(processes, shares, strict=True))
                ]
                row[name] = [each.result() for each in found]
        print("sharing", row, flush=True)
        rows.append(row)
        results["sharing"] = rows
        save()
