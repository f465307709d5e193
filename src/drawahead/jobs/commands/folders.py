"""`drawahead status`, `check` and `export`: how far a job is, whether its folder is sound, its samples elsewhere."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from drawahead.cli import options
from drawahead.cli.saying import Stopped, say, say_json
from drawahead.errors import InputError
from drawahead.words import counted

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="The folder of a job, as `drawahead sample --out DIR` makes it.", show_default=False
    ),
]
USUALLY = "what the job names, if it is one of drawahead's"
Own = Annotated[
    str | None,
    options.option(
        None, "--target NAME", "A model of your own that the job draws from. It is imported.", usually=USUALLY
    ),
]
EVERY = 1.0  # seconds between two looks of `status --watch`


def status(
    folder: Folder,
    watch: Annotated[bool, options.option(None, "--watch", "Look again every second, until it ends.")] = False,
    json: options.Json = False,
) -> None:
    """Say how far a job of samples or designs is: what is done, damaged or left, how fast, and why it stopped."""
    from drawahead.jobs.commands import designs

    look, words = (designs.standing, designs.sentence) if designs.is_design(folder) else (standing, sentence)
    verify = True
    while True:
        found = look(folder, verify=verify)
        say_json(found) if json else say(words(found))
        if not (watch and found["drawing"]):
            return
        verify = False
        time.sleep(EVERY)


def check(folder: Folder, target: Own = None, json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Read every shard of a job, and draw damaged ones again; of a design job, name the damaged files."""
    from drawahead import jobs
    from drawahead.jobs.commands import designs
    from drawahead.jobs.commands.report import subject_of

    if designs.is_design(folder):
        found = designs.standing(folder)
        if found["damaged"]:
            raise Stopped(designs.damage(found), 1)
        if json:
            say_json({"folder": str(folder), "parts": found["done"], "damaged": []})
        elif not quiet:
            parts = "the part is" if found["done"] == 1 else f"all {found['done']} parts are"
            say(f"{parts} sound: {found['done']} of {counted(found['num'], 'structure')}")
        return
    job = jobs.read(folder)
    damaged = job.damaged_files()
    if damaged:
        subject, which = subject_of(job, target), f"{len(damaged)} damaged: {', '.join(damaged[:5])}"
        if subject is None:
            raise Stopped(f"{which}; name the model with --target to draw them again", 1)
        jobs.mend(folder, subject.chain)
    samples = f"{job.finished} of {counted(job.config.num, 'sample')}"
    if json:
        say_json({"folder": str(folder), "shards": len(job.shards), "drawn_again": damaged})
    elif damaged and not quiet:
        say(f"{which}; drawn again: {samples} are sound")
    elif not quiet:
        shards = "the shard is" if len(job.shards) == 1 else f"all {len(job.shards)} shards are"
        say(f"{shards} sound: {samples}")


def export(
    folder: Folder,
    to: Annotated[
        Literal["npz", "zarr", "parquet", "png", "txt", "fasta"],
        options.option(None, "--to FORMAT", "npz, zarr or parquet; png for images; txt or fasta for texts."),
    ],
    out: Annotated[
        Path | None, options.option(None, "--out PATH", "What to write.", usually="DIR.FORMAT, beside the folder")
    ] = None,
    target: Own = None,
    summary: Annotated[
        bool, options.option(None, "--summary", "Write mean, spread, quantiles and their errors, not samples; to npz.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the samples of a job in another format, shard by shard."""
    from drawahead import jobs
    from drawahead.jobs.commands import designs
    from drawahead.jobs.commands.exporting import lines, picture, statistics, view
    from drawahead.jobs.export import WRITERS

    designs.refuse(folder)
    job = jobs.read(folder)
    _ = job.condition  # refuses a damaged one
    path = out or folder.absolute().with_name(f"{folder.absolute().name}.{to}")
    if path.exists():
        raise InputError(f"{path} is there already: name another one with --out")
    if summary and to != "npz":
        raise InputError(f"--summary writes npz, not {to}: say --to npz")
    if (f".{to}" in WRITERS or to == "png") and path.suffix != f".{to}":
        raise InputError(f"--out {path.name!r} must end in .{to}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}")
    if f".{to}" in WRITERS:
        statistics(job, path) if summary else jobs.export(job, path)
    elif to == "png":
        picture(job, path, view(job, target))
    else:
        lines(job, path, view(job, target), fasta=to == "fasta")
    found = {"folder": str(folder), "path": str(path), "samples": job.num_samples, "complete": job.complete}
    if json:
        say_json(found)
    elif not quiet:
        say(f"wrote {path}: {job.num_samples} of {counted(job.config.num, 'sample')}")


def standing(folder: Path, *, verify: bool = True) -> dict[str, Any]:
    """What is done, what is damaged, what is under way, and what stopped it, as plain values. Unless they are verified,
    shards are not read."""
    from drawahead import jobs
    from drawahead.jobs import lock, store

    job, told, drawing = jobs.read(folder), store.told(folder), lock.in_use(folder)
    rate = None
    if told and drawing:
        rate = max(0, told["done"] - told["earlier"]) / max(told["at"] - told["since"], 1e-3)
    return {
        "folder": str(folder),
        "target": job.config.name,
        "done": job.finished,
        "num": job.config.num,
        "shards": len(job.shards),
        "damaged": job.damaged_files() if verify else [],
        "drawing": drawing,
        "samples_per_second": rate,
        "seconds_left": (job.config.num - job.finished) / rate if rate else None,
        "workers": told["workers"] if told and drawing else {},
        "error": told["error"] if told and not drawing else "",
    }


def sentence(found: dict[str, Any]) -> str:
    """The same in words."""
    from drawahead.show.progress import clock

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
        return ", ".join([*parts, *([str(workers["note"])] if workers.get("note") else [])])
    why = f"stopped: {found['error']}" if found["error"] else "nobody draws it"
    again = shlex.join(["drawahead", "sample", found["target"], "--out", found["folder"], "--resume"])
    return f"{', '.join(parts)}; {why}; go on with: {again}"
