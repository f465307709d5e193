"""The commands. Each one reads its options, calls the library, prints; failures become one line on stderr."""

from __future__ import annotations

import errno
import json as json_format
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

import drawahead
from drawahead import samplers as all_samplers
from drawahead import targets as all_targets
from drawahead.cli import files, tables
from drawahead.cli.bench import bench
from drawahead.cli.compare import compare as run_comparison
from drawahead.cli.demo import run as run_demo
from drawahead.cli.names import named
from drawahead.cli.progress import watching
from drawahead.cli.shipped import SHIPPED, Asked
from drawahead.cli.subjects import Images
from drawahead.errors import DrawaheadError, InputError
from drawahead.sample import as_chain
from drawahead.samplers import Sampler

app = typer.Typer(
    help="Exact samples from any-order autoregressive and diffusion models in a handful of parallel rounds.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench")

Target = Annotated[str, typer.Argument(help="What to draw from; `drawahead targets` lists them.", show_default=False)]
Num = Annotated[int, typer.Option("--num", "-n", min=1, help="How many samples.")]
Size = Annotated[
    int | None,
    typer.Option("--size", min=1, help="Positions of the target, or side of a grid; each has a usual size."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Sample i of a seed and sampler is always the same sample.")]
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
    num: Annotated[
        int | None, typer.Option("--num", "-n", min=1, help="How many samples.", show_default="8, or 4 texts")
    ] = None,
    size: Size = None,
    seed: Seed = 0,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="How; `drawahead samplers` lists them. Auto measures and chooses.",
            show_default="auto, or coupled with --window",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Steps drafted at a time; adapted to the target if not given."),
    ] = None,
    order: Annotated[
        Literal["random", "spread"] | None,
        typer.Option(help="In which order tokens are drawn: uniformly random, or always spread evenly."),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Of text: what to fill in, an underscore for each missing character.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Of text: below 1, likely characters are likelier still.", show_default="0.5")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Of fashion: how many of its 1000 steps.", show_default="1000 on a GPU, else 100"),
    ] = None,
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="Where a shipped network runs.", show_default="cuda if there is one"),
    ] = None,
    max_batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="The most sequences the model is given at a time; rounds are split, not added."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write to this file: .npz or .json, .png for images, .txt for texts.", dir_okay=False),
    ] = None,
    json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the samples only, one a line; nothing with --out.")
    ] = False,
) -> None:
    """Draw samples from a target or a shipped network, and show what they cost."""
    subject = named(target, Asked(size, order, prompt, temperature, steps, device))
    chosen = _sampler(sampler, window) if sampler or window or not subject.sampler else subject.sampler
    num = num or subject.num
    console = Console()
    image = isinstance(subject, Images)
    if image and out is None and not (quiet or json):
        out = Path(f"{target}.png")
    if out is not None:
        files.check(out, subject)
    if subject.remark and not (quiet or json):
        typer.echo(subject.remark)
    with watching(quiet) as watch:
        on_round = watch.sampling(f"{target}, {type(chosen).__name__.lower()}", num)
        result = drawahead.sample(
            subject.chain, num, sampler=chosen, seed=seed, max_batch_size=max_batch_size, on_round=on_round
        )
    if out is not None:
        files.write(out, subject, result)
    if json:
        typer.echo(json_format.dumps(files.to_dict(subject, result)))
    elif quiet and out is None:
        typer.echo("\n".join(subject.line(values) for values in result.samples))
    elif not quiet:
        console.print(subject.picture(result, console))
        typer.echo(f"\n{result.report}")
        if out is not None:
            typer.echo(f"wrote {out}")


def _sampler(name: str | None, window: int | None) -> Sampler:
    """The sampler asked for; a window alone asks for `Coupled`."""
    if name == "auto" and window is not None:
        raise InputError("--window does not go with --sampler auto, which chooses its window; name another sampler")
    return all_samplers.named(name or ("auto" if window is None else "coupled"), window)


@app.command()
def compare(target: Target, num: Num = 1000, size: Size = None, seed: Seed = 0, json: Json = False) -> None:
    """Run every sampler on one target: rounds, queries, seconds, and a test that the law is the sequential one."""
    if target in SHIPPED:
        raise InputError(f"{target} has no exact oracle to compare on; try `drawahead sample {target} --sampler ...`")
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
    """List what can be drawn from: the shipped networks, and laws with exact oracles to try samplers on."""
    console = Console()
    console.print(tables.shipped())
    console.print()
    console.print(tables.targets())


@app.command()
def samplers() -> None:
    """List the samplers, with what each one guarantees."""
    Console().print(tables.samplers())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the pictures.", file_okay=False)] = Path("out"),
) -> None:
    """Draw texts and clothes with the shipped networks, compare the samplers, write pictures."""
    run_demo(out, Console())


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
