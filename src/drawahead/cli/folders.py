"""`drawahead status`, `check` and `export`: how far a job is, whether its folder is sound, its samples elsewhere."""

from __future__ import annotations

import json as json_format
import shlex
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from drawahead import jobs, plots
from drawahead.cli import options
from drawahead.cli.failing import Stopped
from drawahead.cli.names import named
from drawahead.cli.report import chain_of
from drawahead.cli.shipped import TargetOptions
from drawahead.errors import InputError
from drawahead.jobs import Job, lock
from drawahead.jobs import status as statuses
from drawahead.jobs.export import WRITERS, whole
from drawahead.progress import clock
from drawahead.views import Images, Texts, View, view_of, view_of_samples

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="The folder of a job, as `drawahead sample --out DIR` makes it.", show_default=False
    ),
]
Own = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        help="A model of your own that the job draws from. It is imported.",
        show_default="what the job names, if it is one of drawahead's",
    ),
]
EVERY = 1.0  # seconds between two looks of `status --watch`
PICTURED = 1024
"""Samples on a picture, at most."""


def status(
    folder: Folder,
    watch: Annotated[bool, typer.Option("--watch", metavar="", help="Look again every second, until it ends.")] = False,
    json: options.Json = False,
) -> None:
    """Say how far a job is: samples done, samples per second, time left, workers, and why it stopped, if it did."""
    while True:
        found = _status(folder)
        typer.echo(json_format.dumps(found) if json else _sentence(found))
        if not (watch and found["drawing"]):
            return
        time.sleep(EVERY)


def check(folder: Folder, target: Own = None, json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Read every shard of a job, and draw those again that are damaged or gone."""
    job = jobs.read(folder)
    _ = job.condition  # read, and compared with its hash
    damaged = [shard.file for shard in job.damaged()]
    mended: list[str] = []
    if damaged:
        which = f"{len(damaged)} of {len(job.shards)} shards are damaged: {', '.join(damaged[:5])}"
        chain = _chain(job, target)
        if chain is None:
            raise Stopped(f"{which}; name the model with --target to draw them again", 1)
        before = {shard.file: shard.sha256 for shard in job.shards}
        mended = [shard.file for shard in jobs.mend(folder, chain) if shard.sha256 == before[shard.file]]
    if json:
        found = {"folder": str(folder), "shards": len(job.shards), "drawn_again": damaged, "same_bytes": mended}
        typer.echo(json_format.dumps(found))
    elif damaged and not quiet:
        typer.echo(f"{which}; drawn again, {len(mended)} of them with the very same bytes")
    elif not quiet:
        typer.echo(f"all {len(job.shards)} shards are what the manifest tells: {job.finished} samples")


def export(
    folder: Folder,
    to: Annotated[
        Literal["npz", "zarr", "parquet", "png", "txt", "fasta"],
        typer.Option(metavar="FORMAT", help="npz, zarr or parquet; png for images; txt or fasta for texts."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="What to write.", show_default="DIR.FORMAT, beside the folder")
    ] = None,
    target: Own = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the samples of a job in another format, shard by shard."""
    job = jobs.read(folder)
    path = out or folder.absolute().with_name(f"{folder.absolute().name}.{to}")
    if path.exists():
        raise InputError(f"{path} is there already: name another one with --out")
    if f".{to}" in WRITERS:
        if path.suffix != f".{to}":
            raise InputError(f"--out {path.name!r} must end in .{to}")
        jobs.export(job, path)
    elif to == "png":
        _picture(job, path, _view(job, target))
    else:
        _lines(job, path, _view(job, target), fasta=to == "fasta")
    found = {"folder": str(folder), "path": str(path), "samples": job.num_samples, "complete": job.complete}
    if json:
        typer.echo(json_format.dumps(found))
    elif not quiet:
        typer.echo(f"wrote {path}: {job.num_samples} of {job.config.num} samples")


def _status(folder: Path) -> dict[str, Any]:
    job, told, drawing = jobs.read(folder), statuses.read(folder), lock.in_use(folder)
    rate = told.rate if told is not None and drawing else None
    return {
        "folder": str(folder),
        "target": job.config.name,
        "done": job.finished,
        "num": job.config.num,
        "shards": len(job.shards),
        "drawing": drawing,
        "samples_per_second": rate,
        "seconds_left": (job.config.num - job.finished) / rate if rate else None,
        "workers": told.workers if told is not None and drawing else {},
        "error": told.error if told is not None and not drawing else "",
    }


def _sentence(found: dict[str, Any]) -> str:
    parts = [f"{found['target']}: {found['done']} of {found['num']} samples in {found['shards']} shards"]
    if found["samples_per_second"]:
        parts += [f"{found['samples_per_second']:.3g} per second", f"{clock(found['seconds_left'])} left"]
    workers = found["workers"]
    if {"ready", "workers", "replaced"} <= workers.keys():
        parts.append(f"{workers['ready']} of {workers['workers']} workers, {workers['replaced']} replaced")
    if found["done"] == found["num"]:
        return ", ".join([*parts, "complete"])
    if found["drawing"]:
        return ", ".join([*parts, *([workers["note"]] if workers.get("note") else [])])
    why = f"stopped: {found['error']}" if found["error"] else "nobody draws it"
    again = shlex.join(["drawahead", "sample", found["target"], "--out", found["folder"], "--resume"])
    return f"{', '.join(parts)}; {why}; go on with: {again}"


def _chain(job: Job, target: str | None) -> Any:
    return chain_of(job) if target is None else named(target, TargetOptions().filled(job.config.options)).chain


def _view(job: Job, target: str | None) -> View:
    chain = _chain(job, target)
    return view_of(chain) if chain is not None else view_of_samples(job.samples(0, min(1, job.num_samples)))


def _picture(job: Job, path: Path, view: View) -> None:
    if ".png" not in view.formats:
        raise InputError(f"the samples of {job.config.name} are no images: export them to npz")
    plots.check()
    most = PICTURED if isinstance(view, Images) else 1
    view.draw(job.samples(0, min(most, job.num_samples)), path)


def _lines(job: Job, path: Path, view: View, *, fasta: bool) -> None:
    if fasta and not isinstance(view, Texts):
        raise InputError(f"the samples of {job.config.name} are no texts: export them to npz")
    number = 0
    with whole(path) as temporary, temporary.open("x", encoding="utf-8") as file:
        for part in job.parts():
            for sample in part:
                file.write(f">{number} {job.config.name}\n" if fasta else "")
                file.write(f"{view.line(sample)}\n")
                number += 1
