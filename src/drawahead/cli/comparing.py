"""`drawahead compare`: every sampler on one target."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from drawahead import targets
from drawahead.cli import options, tables
from drawahead.cli.compare import compare as run_comparison
from drawahead.cli.progress import watching
from drawahead.cli.shipped import SHIPPED
from drawahead.errors import InputError
from drawahead.sample import as_chain


def compare(
    target: options.Target,
    num: Annotated[
        int,
        typer.Option("--num", "-n", metavar="N", min=1, help="How many samples.", rich_help_panel=options.DRAWN),
    ] = 1000,
    size: options.Size = None,
    seed: options.Seed = None,
    max_batch_size: options.MaxBatchSize = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write what --json prints to this .json file.",
            dir_okay=False,
            rich_help_panel=options.WRITTEN,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run every sampler on one target: rounds, queries, seconds, and a test that the law is the sequential one."""
    if target in SHIPPED:
        raise InputError(f"{target} has no exact oracle to compare on; try `drawahead sample {target} --sampler ...`")
    if out is not None and out.suffix != ".json":
        raise InputError(f"--out must end in .json, not {out.name!r}")
    chain = as_chain(targets.named(target, size))
    with watching(quiet) as watch:
        rows = list(run_comparison(chain, num, seed or 0, watch, max_batch_size))
    found = json_format.dumps({"target": target, "seed": seed or 0, "rows": [row.to_dict() for row in rows]})
    if out is not None:
        out.write_text(found + "\n")
    if json:
        typer.echo(found)
    elif not quiet:
        console = Console()
        console.print(tables.comparison(rows, f"{target}: {chain.steps} steps a sample", console.width))
    elif out is None:
        typer.echo("\n".join(f"{row.sampler} {row.verdict}" for row in rows))
