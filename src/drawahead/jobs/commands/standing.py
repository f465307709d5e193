"""How far a job is."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from drawahead import jobs
from drawahead.jobs import lock, store
from drawahead.show.progress import clock
from drawahead.words import counted


def standing(folder: Path, *, verify: bool = True) -> dict[str, Any]:
    """What is done, what is damaged, what is under way, and what stopped it, as plain values. Unless they are verified,
    shards are not read."""
    job, told, drawing = jobs.read(folder), store.standing(folder), lock.in_use(folder)
    rate = told.rate if told is not None and drawing else None
    return {
        "folder": str(folder),
        "target": job.config.name,
        "done": job.finished,
        "num": job.config.num,
        "shards": len(job.shards),
        "damaged": [shard.file for shard in job.damaged()] if verify else [],
        "drawing": drawing,
        "samples_per_second": rate,
        "seconds_left": (job.config.num - job.finished) / rate if rate else None,
        "workers": told.workers if told is not None and drawing else {},
        "error": told.error if told is not None and not drawing else "",
    }


def sentence(found: dict[str, Any]) -> str:
    """The same in words."""
    samples, shards = counted(found["num"], "sample"), counted(found["shards"], "shard")
    parts = [f"{found['target']}: {found['done']} of {samples} in {shards}"]
    if found["samples_per_second"]:
        parts += [f"{found['samples_per_second']:.3g} per second", f"{clock(found['seconds_left'])} left"]
    damaged, workers = found["damaged"], found["workers"]
    if damaged:
        check = shlex.join(["drawahead", "check", found["folder"]])
        parts.append(f"{len(damaged)} damaged: {', '.join(damaged[:5])}; {check} draws them again")
    if {"ready", "workers", "replaced"} <= workers.keys():
        parts.append(f"{workers['ready']} of {workers['workers']} workers, {workers['replaced']} replaced")
    if found["done"] == found["num"] and not damaged:
        return ", ".join([*parts, "complete"])
    if found["drawing"]:
        return ", ".join([*parts, *([workers["note"]] if workers.get("note") else [])])
    why = f"stopped: {found['error']}" if found["error"] else "nobody draws it"
    again = shlex.join(["drawahead", "sample", found["target"], "--out", found["folder"], "--resume"])
    return f"{', '.join(parts)}; {why}; go on with: {again}"
