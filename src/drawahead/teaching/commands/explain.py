"""`drawahead explain`: a page that walks through one small run of each sampler, and three calls of a runner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drawahead.cli import options
from drawahead.cli.saying import say, say_json
from drawahead.errors import InputError
from drawahead.words import meant


def _names(incomplete: str) -> list[str]:
    from drawahead.teaching.explain import TOPICS

    return [name for name in TOPICS if name.startswith(incomplete.lower())]


def explain(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="A sampler that `drawahead samplers` lists, left-to-right or runner; all of them by default.",
            show_default=False,
            autocompletion=_names,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The page to write.", dir_okay=False, rich_help_panel=options.WRITTEN),
    ] = Path("explain.html"),
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Which run to show.", show_default="one that shows much"),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page that walks through one small run of each sampler: draft, verify, keep, correct."""
    from drawahead import teaching
    from drawahead.teaching.explain import SEED, TOPICS

    seed = SEED if seed is None else seed
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out {out}: the page is HTML; its name must end in .html")
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    names = list(TOPICS) if topic is None else [meant(topic, TOPICS)]
    teaching.explain(names, out, seed=seed)
    if json:
        say_json({"page": str(out), "samplers": names, "seed": seed})
    elif not quiet:
        say(f"wrote {out}")
