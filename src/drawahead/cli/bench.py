"""`drawahead bench`: measure what the samplers cost, and write the measured pages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from drawahead.bench.ardiffusion import rewrite as rewrite_ardiffusion
from drawahead.bench.ardiffusion import run as run_ardiffusion
from drawahead.bench.coupled import run as run_coupled
from drawahead.bench.diffusion import run as run_diffusion
from drawahead.bench.lower_bound import run as run_lower_bound
from drawahead.bench.matchings import run as run_matchings
from drawahead.bench.noise import run as run_noise
from drawahead.bench.rounds import run as run_rounds
from drawahead.bench.rtk import run as run_rtk
from drawahead.cli.progress import watching

bench = typer.Typer(help="Measure what the samplers cost.")

Folder = Annotated[Path, typer.Option(help="The folder for what is written.", file_okay=False)]
Workers = Annotated[int, typer.Option(min=1, help="Processes that measure side by side.")]


@bench.callback()
def bench_() -> None:
    pass


@bench.command()
def rounds(
    quick: Annotated[bool, typer.Option("--quick", help="Up to 256 steps only: seconds instead of minutes.")] = False,
    out: Folder = Path("docs"),
    workers: Workers = 2,
) -> None:
    """Measure rounds and queries against the length; write a page, its data and its figure."""
    with watching() as watch:
        paths = run_rounds(out, quick=quick, watch=watch.counting, workers=workers)
    _wrote(paths)


@bench.command()
def diffusion(
    quick: Annotated[bool, typer.Option("--quick", help="Few samples, up to 1024 steps.")] = False,
    out: Folder = Path("docs"),
    workers: Workers = 2,
) -> None:
    """Measure rounds and queries on diffusions; write a page, its data and its figure."""
    with watching() as watch:
        paths = run_diffusion(out, quick=quick, watch=watch.counting, workers=workers)
    _wrote(paths)


@bench.command()
def coupled(
    out: Folder = Path("docs"),
) -> None:
    """Draw the figures that explain why the coupled sampler is exact."""
    _wrote(run_coupled(out))


@bench.command()
def matchings(
    quick: Annotated[bool, typer.Option("--quick", help="Small boards, few tilings.")] = False,
    out: Folder = Path("docs"),
) -> None:
    """Measure rounds of domino tilings against the size of the board; write a page, its data and its figures."""
    with watching() as watch:
        paths = run_matchings(out, quick=quick, watch=watch.counting)
    _wrote(paths)


@bench.command()
def noise(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples and errors.")] = False,
    out: Folder = Path("docs"),
) -> None:
    """Measure what an oracle's errors do to the output; write a page, its data and its figure."""
    with watching() as watch:
        paths = run_noise(out, quick=quick, watch=watch.counting)
    _wrote(paths)


@bench.command()
def lower_bound(
    quick: Annotated[bool, typer.Option("--quick", help="Up to 256 steps only: seconds instead of minutes.")] = False,
    out: Folder = Path("docs"),
) -> None:
    """Measure the hard target and a fixed order beside the lower bound; write a page, its data and its figure."""
    with watching() as watch:
        paths = run_lower_bound(out, quick=quick, watch=watch.counting)
    _wrote(paths)


@bench.command()
def rtk(
    quick: Annotated[bool, typer.Option("--quick", help="Few samples and calls, up to d = 10.")] = False,
    out: Folder = Path("docs"),
) -> None:
    """Measure reverse transition kernels and DDPM against calls; write a page, its data and its figures."""
    with watching() as watch:
        paths = run_rtk(out, quick=quick, watch=watch.counting)
    _wrote(paths)


@bench.command()
def ardiffusion(
    quick: Annotated[bool, typer.Option("--quick", help="Tiny models, few samples: a minute.")] = False,
    out: Folder = Path("docs"),
    device: Annotated[str, typer.Option(help="Where networks are trained and asked: cpu or cuda.")] = "cpu",
    workers: Workers = 1,
    data: Annotated[
        Path | None, typer.Option(help="Write page and figures from this data, without measuring.", dir_okay=False)
    ] = None,
) -> None:
    """Train auto-regressive diffusion beside joint diffusion, check the error bound; write a page and its figures."""
    if data is not None:
        _wrote(rewrite_ardiffusion(out, data))
        return
    with watching() as watch:
        paths = run_ardiffusion(out, quick=quick, device=device, workers=workers, watch=watch.counting)
    _wrote(paths)


def _wrote(paths: Iterable[Path]) -> None:
    for path in paths:
        typer.echo(f"wrote {path}")
