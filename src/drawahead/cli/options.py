"""The options that commands share: each has one name, one meaning and one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from drawahead import targets
from drawahead.cli.shipped import SHIPPED, TILINGS
from drawahead.samplers import SAMPLERS

DRAWN, HOW, WRITTEN = "What is drawn", "How it is drawn", "What is written"
"""The headings of the help text."""


def _targets(incomplete: str) -> list[tuple[str, str]]:
    """For the shell's completion: names with a word about each."""
    known = {name: network.summary for name, network in SHIPPED.items()}
    known |= {name: target.summary for name, target in targets.TARGETS.items()}
    known |= {name: chain.summary for name, chain in targets.CHAINS.items()}
    known |= {name: summary for name, (_, _, summary) in TILINGS.items()}
    return [(name, summary) for name, summary in known.items() if name.startswith(incomplete)]


def _samplers(incomplete: str) -> list[str]:
    return [name for name in ("auto", *SAMPLERS) if name.startswith(incomplete)]


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="What to draw from; `drawahead targets` lists the names.",
        show_default=False,
        autocompletion=_targets,
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        "--size",
        metavar="N",
        min=1,
        help="Positions of the target, or side of a grid; each has a usual size.",
        rich_help_panel=DRAWN,
    ),
]
Num = Annotated[
    int | None,
    typer.Option(
        "--num",
        "-n",
        metavar="N",
        min=1,
        help="How many samples.",
        show_default="8, 4 texts or 1 tiling",
        rich_help_panel=DRAWN,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Sample i of a seed and sampler is always the same sample.",
        show_default="0",
        rich_help_panel=DRAWN,
    ),
]
Sampler = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        metavar="NAME",
        help="How; `drawahead samplers` lists them. Auto measures and chooses.",
        show_default="auto, or coupled with --window",
        autocompletion=_samplers,
        rich_help_panel=HOW,
    ),
]
Window = Annotated[
    int | None,
    typer.Option(
        "--window",
        metavar="N",
        min=1,
        help="Steps drafted at a time; adapted to the target if not given.",
        rich_help_panel=HOW,
    ),
]
MaxBatchSize = Annotated[
    int | None,
    typer.Option(
        "--max-batch-size",
        metavar="N",
        min=1,
        help="The most sequences the model is given at a time; rounds are split, not added.",
        rich_help_panel=HOW,
    ),
]
Device = Annotated[
    Literal["cpu", "cuda"] | None,
    typer.Option(
        "--device",
        metavar="cpu|cuda",
        help="Where a shipped network runs.",
        show_default="cuda if there is one",
        rich_help_panel=HOW,
    ),
]
Dtype = Annotated[
    Literal["float16", "bfloat16", "float32", "float64"] | None,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        help="What a shipped network computes in: float16, bfloat16, float32 or float64.",
        show_default="float32",
        rich_help_panel=HOW,
    ),
]
Folder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder for what is written.", file_okay=False)]
Json = Annotated[
    bool,
    typer.Option(
        "--json", metavar="", help="Print one JSON object, and nothing else, on stdout.", rich_help_panel=WRITTEN
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        metavar="",
        help="No progress; only samples or verdicts, a line each, and nothing with --out.",
        rich_help_panel=WRITTEN,
    ),
]
