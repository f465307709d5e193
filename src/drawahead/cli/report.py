"""`drawahead report`: what a job drew, and what it cost, as a page to look at."""

from __future__ import annotations

import json as json_format
import math
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from drawahead import jobs, pages, targets
from drawahead.chains import Chain
from drawahead.cli import tilings
from drawahead.cli.names import named
from drawahead.cli.shipped import SHIPPED, Asked
from drawahead.errors import InputError
from drawahead.jobs import Job

_PLAIN: dict[str, tuple[type, ...]] = {
    "size": (int,),
    "order": (str,),
    "prompt": (str,),
    "temperature": (int, float),
    "steps": (int,),
    "dtype": (str,),
}
"""What the options in a manifest must be. The device is left out: a page can be made where there is no GPU."""


def report(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a job, as `drawahead sample --out DIR` makes it.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page to write.", show_default="report.html in the folder", dir_okay=False)
    ] = None,
    num: Annotated[
        int | None,
        typer.Option("--num", "-n", min=0, help="How many samples to show.", show_default="as many as suit a page"),
    ] = None,
    films: Annotated[
        int,
        typer.Option(min=0, help="Of how many samples to show how they came about; images are drawn again for it."),
    ] = 4,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Write one HTML page about a job: rounds, queries, samples, and a film of how some came about."""
    job = jobs.read(folder)
    out = out or folder / "report.html"
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    chain = chain_of(job)
    pages.job_page(job, out, target=chain, samples=num, films=films)
    if json:
        done = {"folder": str(folder), "page": str(out), "samples": job.num_samples, "complete": job.complete}
        typer.echo(json_format.dumps(done))
    elif not quiet:
        if chain is None:
            typer.echo(f"{job.config.name} is not a target of drawahead's own: samples are shown as they are stored")
        typer.echo(f"wrote {out}")


def chain_of(job: Job) -> Chain | None:
    """What a job draws from, if it is one of drawahead's own. A folder may come from anywhere: nothing it names is
    imported, and nothing is built that is larger than its samples."""
    name, options = job.config.name, job.config.options
    if name not in {*SHIPPED, *targets.TARGETS, *targets.CHAINS, *tilings.SHAPES}:
        return None
    known = {field.name for field in fields(Asked)} & set(_PLAIN)
    given = {key: value for key, value in options.items() if value is not None and key != "device"}
    if not all(key in known and type(value) in _PLAIN[key] for key, value in given.items()):
        return None
    if given.get("size", 1) > max(job.config.steps, math.prod(job.config.shape)):
        return None
    return named(name, Asked(**given)).chain
