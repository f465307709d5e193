"""The commands. Each one reads its options, calls the library, prints; failures become one line on stderr."""

from __future__ import annotations

import errno
import json as json_format
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import drawahead
from drawahead import samplers as all_samplers
from drawahead import targets as all_targets
from drawahead.bench.coupled import run as run_coupled
from drawahead.bench.diffusion import run as run_diffusion
from drawahead.bench.rounds import run as run_rounds
from drawahead.chains import GaussianChain
from drawahead.cli import files, tables
from drawahead.cli.compare import compare as run_comparison
from drawahead.cli.demo import run as run_demo
from drawahead.cli.progress import watching
from drawahead.errors import DrawaheadError
from drawahead.sample import as_chain

app = typer.Typer(
    help="Exact samples from any-order autoregressive models in a handful of parallel rounds.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Measure what the samplers cost.")
app.add_typer(bench, name="bench")

Target = Annotated[str, typer.Argument(help="What to draw from; `drawahead targets` lists them.", show_default=False)]
Num = Annotated[int, typer.Option("--num", "-n", min=1, help="How many samples.")]
Size = Annotated[
    int | None,
    typer.Option("--size", min=1, help="Positions of the target (side of a grid); each target has a usual size."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Sample i of a seed is always the same sample.")]
Folder = Annotated[Path, typer.Option(help="The folder for what is written.", file_okay=False)]
Workers = Annotated[int, typer.Option(min=1, help="Processes that measure side by side.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on stdout.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"drawahead {drawahead.__version__}")
        raise typer.Exit


@app.callback()
def drawahead_(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
def sample(
    target: Target,
    num: Num = 8,
    size: Size = None,
    seed: Seed = 0,
    sampler: Annotated[
        str | None,
        typer.Option(help="How; `drawahead samplers` lists them. If not given: block, or coupled for vectors."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Steps drafted at a time; adapted to the target if not given."),
    ] = None,
    max_batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="The most sequences the model is given at a time; rounds are split, not added."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write to this file: .npz or .json, or .png for images.", dir_okay=False),
    ] = None,
    json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the samples only, one a line; nothing with --out.")
    ] = False,
) -> None:
    """Draw samples from a target and show what they cost."""
    oracle = all_targets.named(target, size)
    vectors = isinstance(oracle, GaussianChain)
    image = isinstance(oracle, GaussianChain) and len(oracle.shape) == 2
    sampler = sampler or ("coupled" if vectors else "block")
    chosen = all_samplers.named(sampler, window)
    if image and out is None and not (quiet or json):
        out = Path(f"{target}.png")
    if out is not None:
        files.check(out, image=image)
    with watching(quiet) as watch:
        result = drawahead.sample(
            oracle,
            num,
            sampler=chosen,
            seed=seed,
            max_batch_size=max_batch_size,
            on_round=watch.sampling(f"{target}, {sampler}", num),
        )
    if out is not None:
        files.write(out, target, result)
    if json:
        typer.echo(json_format.dumps(files.to_dict(target, result)))
    elif quiet and out is None:
        typer.echo("\n".join(tables.one_line(oracle, values) for values in result.samples))
    elif not quiet:
        typer.echo(tables.picture(oracle, result.samples, Console().width))
        typer.echo(f"\n{result.report}")
        if image:
            typer.echo(f"wrote {out}")


@app.command()
def compare(target: Target, num: Num = 1000, size: Size = None, seed: Seed = 0, json: Json = False) -> None:
    """Run every sampler on one target: rounds, queries, seconds, and a test that the law is the sequential one."""
    chain = as_chain(all_targets.named(target, size))
    with watching() as watch:
        rows = list(run_comparison(chain, num, seed, watch))
    if json:
        typer.echo(json_format.dumps({"target": target, "seed": seed, "rows": [row.to_dict() for row in rows]}))
    else:
        console = Console()
        console.print(tables.comparison(rows, f"{target}: {chain.steps} steps a sample", console.width))


@app.command()
def targets() -> None:
    """List the targets: laws with exact oracles, to try samplers on."""
    Console().print(tables.targets())


@app.command()
def samplers() -> None:
    """List the samplers, with what each one guarantees."""
    Console().print(tables.samplers())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the picture.", file_okay=False)] = Path("out"),
) -> None:
    """Draw from an Ising model, compare the samplers on it, write a picture."""
    with watching() as watch:
        run_demo(out, Console(), watch)


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
        for path in run_rounds(out, quick=quick, watch=watch.counting, workers=workers):
            typer.echo(f"wrote {path}")


@bench.command()
def diffusion(
    quick: Annotated[bool, typer.Option("--quick", help="Few samples, up to 1024 steps.")] = False,
    out: Folder = Path("docs"),
    workers: Workers = 2,
) -> None:
    """Measure rounds and queries on diffusions; write a page, its data and its figure."""
    with watching() as watch:
        for path in run_diffusion(out, quick=quick, watch=watch.counting, workers=workers):
            typer.echo(f"wrote {path}")


@bench.command()
def coupled(
    out: Folder = Path("docs"),
) -> None:
    """Draw the figures that explain why the coupled sampler is exact."""
    for path in run_coupled(out):
        typer.echo(f"wrote {path}")


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments. -> the exit status."""
    try:
        return int(app(list(arguments) or ["--help"], prog_name="drawahead", standalone_mode=False) or 0)
    except typer.TyperException as error:
        return _fail(error.format_message(), error.exit_code)
    except DrawaheadError as error:
        return _fail(str(error), 1)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of our output left: nobody to tell
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return _fail(str(error), 1)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        return _fail("not enough memory for that; ask for a smaller --size or --num", 1)


def _fail(message: str, status: int) -> int:
    print(f"drawahead: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return status
