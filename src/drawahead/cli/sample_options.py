"""The options that only `drawahead sample` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from drawahead.cli.options import DRAWN, WRITTEN

Order = Annotated[
    Literal["random", "spread"] | None,
    typer.Option(
        "--order",
        metavar="random|spread",
        help="In which order tokens are drawn: uniformly random, or always spread evenly.",
        rich_help_panel=DRAWN,
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        metavar="TEXT",
        help="Of text: what to fill in, an underscore for each missing character.",
        rich_help_panel=DRAWN,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        metavar="X",
        help="Of text: below 1, likely characters are likelier still.",
        show_default="0.5",
        rich_help_panel=DRAWN,
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        min=1,
        help="Of fashion: how many of its 1000 steps.",
        show_default="1000 on a GPU, else 100",
        rich_help_panel=DRAWN,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Write to this file (.npz or .json, .png for images, .txt for texts), or, a name without an ending, into "
        "this folder, shard by shard.",
        rich_help_panel=WRITTEN,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        metavar="",
        help="Go on with the job in the folder, or begin it; options that are not given are those of the job.",
        rich_help_panel=WRITTEN,
    ),
]
ShardSize = Annotated[
    int | None,
    typer.Option(
        "--shard-size",
        metavar="N",
        min=1,
        help="Samples in a shard of the folder: what a crash may cost.",
        show_default="half a minute of work, 64 MiB at most",
        rich_help_panel=WRITTEN,
    ),
]
AnyVersion = Annotated[
    bool,
    typer.Option(
        "--any-version",
        metavar="",
        help="Resume with other versions of drawahead or torch, which may not draw the very same samples.",
        rich_help_panel=WRITTEN,
    ),
]
