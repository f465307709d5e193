"""`drawahead status`, `check` and `export`: how far a job is, whether its folder is sound, its samples elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

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
    """Say how far a job is: samples done, samples per second, time left, workers, and why it stopped, if it did."""
    from drawahead.jobs.commands.standing import sentence, standing

    verify = True
    while True:
        found = standing(folder, verify=verify)
        say_json(found) if json else say(sentence(found))
        if not (watch and found["drawing"]):
            return
        verify = False
        time.sleep(EVERY)


def check(folder: Folder, target: Own = None, json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Read every shard of a job, and draw those again that are damaged."""
    from drawahead import jobs
    from drawahead.jobs.commands.report import chain_of

    job = jobs.read(folder)
    damaged = [shard.file for shard in job.damaged()]
    if not job.has_condition:
        damaged.append("the condition")
    if damaged:
        chain, which = chain_of(job, target), f"{len(damaged)} damaged: {', '.join(damaged[:5])}"
        if chain is None:
            raise Stopped(f"{which}; name the model with --target to draw them again", 1)
        jobs.mend(folder, chain)
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
    from drawahead.jobs.commands.exporting import lines, picture, statistics, view
    from drawahead.jobs.export import WRITERS

    job = jobs.read(folder)
    path = out or folder.absolute().with_name(f"{folder.absolute().name}.{to}")
    if path.exists():
        raise InputError(f"{path} is there already: name another one with --out")
    if summary and to != "npz":
        raise InputError(f"--summary writes npz, not {to}: say --to npz")
    if f".{to}" in WRITERS:
        if path.suffix != f".{to}":
            raise InputError(f"--out {path.name!r} must end in .{to}")
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
