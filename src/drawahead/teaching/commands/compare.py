"""`drawahead compare`: every sampler on one target, what each costs, and whether all have the same distribution."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from drawahead.cli import options
from drawahead.cli.saying import say, say_json
from drawahead.errors import InputError
from drawahead.words import printable

# Samples, unless a number is asked for: a network takes its time for each, a tiling for its pieces.
USUAL, OF_TILINGS, OF_NETWORKS = 1000, 50, 4


def compare(
    target: options.Target,
    num: Annotated[
        int | None,
        options.option(
            options.DRAWN,
            "--num -n N",
            "How many samples.",
            least=1,
            usually=f"{USUAL}, {OF_TILINGS} tilings, {OF_NETWORKS} of a network",
        ),
    ] = None,
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
    """Run every sampler on one target: rounds, queries, seconds, and a test that the distribution is the same."""
    from rich.console import Console

    from drawahead.cli.building import apart, check_room
    from drawahead.cli.registry import entry_of, named
    from drawahead.cli.saying import watching
    from drawahead.cli.subjects import TargetOptions
    from drawahead.teaching.comparison import rows_of, table_of

    if out is not None and out.suffix != ".json":
        raise InputError(f"--out must end in .json, not {out.name!r}")
    entry = entry_of(target)
    guided = entry is not None and "guidance" in entry.options
    subject = named(target, TargetOptions(size=size, prompt="" if guided else None))  # a prompt that asks for nothing
    kind = entry.kind if entry is not None else ""
    num = num or {"tiling": OF_TILINGS, "network": OF_NETWORKS}.get(kind, USUAL)
    check_room(subject.chain, num, "ask for fewer")
    with watching(quiet) as watch:
        each_alone = kind == "tiling"
        rows = apart(lambda: list(rows_of(subject.chain, num, seed or 0, watch, max_batch_size, apart=each_alone)))
    found = {"target": subject.name, "seed": seed or 0, "rows": [row.to_dict() for row in rows]}
    if out is not None:
        out.write_text(json_format.dumps(found) + "\n")
    if json:
        say_json(found)
    elif not quiet:
        console = Console()
        console.print(
            table_of(rows, f"{printable(subject.name)}: {subject.chain.steps} steps per sample", console.width)
        )
    elif out is None:
        say(*(f"{row.sampler} {row.verdict}" for row in rows))
