"""`drawahead report`: what a job drew, and what it cost, as a page to look at."""

from __future__ import annotations

import json as json_format
import math
from pathlib import Path
from typing import Annotated

import typer

from drawahead import jobs, pages, targets
from drawahead.chains import Chain
from drawahead.cli import options
from drawahead.cli.names import named
from drawahead.cli.shipped import SHIPPED, TILINGS, TargetOptions
from drawahead.errors import InputError
from drawahead.jobs import Job, files


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of a job, as `drawahead sample --out DIR` makes it.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The page to write.",
            show_default="report.html in the folder",
            dir_okay=False,
            rich_help_panel=options.WRITTEN,
        ),
    ] = None,
    num: Annotated[
        int | None,
        typer.Option(
            "--num", "-n", metavar="N", min=0, help="How many samples to show.", show_default="as many as suit a page"
        ),
    ] = None,
    films: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Of how many to show how they came about; images are drawn again for it."
        ),
    ] = 4,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A model of your own that the job drew from, to show its samples as they are. It is imported.",
            show_default="what the job names, if it is one of drawahead's",
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write one HTML page about a job: rounds, queries, samples, and a film of how some came about."""
    job = jobs.read(folder)
    out = out or folder / "report.html"
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    if target is None:
        chain = chain_of(job)
    else:
        chain = named(target, TargetOptions().filled(job.config.options)).of(job.config.num).chain
    page = pages.job_page(job, target=chain, samples=num, films=films)
    if out.absolute().parent.samefile(folder):  # a stranger may have put a link there: it is replaced, not followed
        files.write(out, page.encode())
    else:
        out.write_text(page, encoding="utf-8")
    if json:
        done = {"folder": str(folder), "page": str(out), "samples": job.num_samples, "complete": job.complete}
        typer.echo(json_format.dumps(done))
    elif not quiet:
        if chain is None:
            typer.echo(f"{job.config.name} is not one of drawahead's own targets: samples are shown as they are stored")
        typer.echo(f"wrote {out}")


def chain_of(job: Job) -> Chain | None:
    """What a job draws from, if it is one of drawahead's own. A folder may come from anywhere: nothing it names is
    imported, and nothing is built that is larger than its samples."""
    name, config = job.config.name, job.config
    if name not in {*SHIPPED, *targets.TARGETS, *targets.CHAINS, *TILINGS} or not job.num_samples:
        return None
    job.samples(0, 1)  # they have the shape that the manifest tells, or this fails
    asked = TargetOptions().filled(config.options)
    if asked.size is not None and asked.size > math.prod(config.shape):
        raise InputError(f"the job has samples of shape {config.shape}, which {name} of size {asked.size} has not")
    return named(name, asked).of(config.num).chain
