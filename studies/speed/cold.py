"""What a first call costs, each time in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import drawahead as da
from studies.speed.fresh import Failed, started
from studies.speed.place import Place
from studies.speed.timing import WARM_UP, Row

KINDS = ("fashion", "text")
_SAMPLERS: dict[str, da.Sampler | None] = {"sequential": da.Sequential(), "auto": None}


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
