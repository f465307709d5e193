"""The commands, and what becomes of failures: one line on stderr and an exit status.

Nothing here and in the files of the commands imports torch before a command runs: help and the version come at once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

import drawahead
from drawahead.cli import options
from drawahead.cli.compare import compare
from drawahead.cli.explain import explain
from drawahead.cli.failing import INTERRUPTED, Stopped, fail, usage
from drawahead.cli.folders import check, export, status
from drawahead.cli.plain import PlainCommand, PlainGroup
from drawahead.cli.report import report
from drawahead.cli.sampling import sample
from drawahead.cli.saying import say, say_json
from drawahead.cli.timing import time
from drawahead.cli.verify import verify
from drawahead.errors import DrawaheadError
from drawahead.proteins.commands.design import design

app = typer.Typer(
    help="Exact samples from any-order autoregressive and diffusion models in a handful of parallel rounds.",
    epilog="A first look: drawahead demo. Help with a command: drawahead sample --help.",
    cls=PlainGroup,
    context_settings={"token_normalize_func": str.lower},
    pretty_exceptions_enable=False,
)
FIRST = """\
drawahead draws exact samples from masked and diffusion models, in few rounds.

  drawahead demo                          texts, pictures from words, a tiling
  drawahead sample text --prompt "We ___" fill in blanks with a shipped network
  drawahead sample aztec --out aztec.png  a random tiling, as a picture
  drawahead verify file.py:model          is it safe to draw from my model?
  drawahead targets                       everything that can be drawn by name

All commands: drawahead --help. One of them: drawahead sample --help.
"""
"""What `drawahead` alone says."""
DRAW, JOBS, CHECK, LOOK = "Draw", "Long jobs", "Check and measure", "Look up"


def _version(wanted: bool) -> None:
    if wanted:
        say(f"drawahead {drawahead.__version__}")
        raise typer.Exit


@app.callback()
def drawahead_(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    pass


def targets(json: options.Json = False) -> None:
    """List what can be drawn from: the shipped networks, and distributions with exact oracles to try samplers on."""
    from rich.console import Console

    from drawahead.cli import lists, tables

    if json:
        say_json({"targets": lists.targets()})
        return
    console = Console()
    console.print(tables.shipped())
    console.print()
    console.print(tables.targets())


def samplers(json: options.Json = False) -> None:
    """List the samplers, with what each one guarantees."""
    from rich.console import Console

    from drawahead.cli import lists, tables

    if json:
        say_json({"samplers": lists.samplers()})
    else:
        Console().print(tables.samplers())


def models(json: options.Json = False) -> None:
    """List the shipped networks and the adapters for other libraries, with what each needs."""
    from rich.console import Console

    from drawahead.cli import lists, tables

    if json:
        say_json({"models": lists.models()})
    else:
        Console().print(tables.models())


def demo(out: options.Folder = Path("out"), json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Draw texts, pictures from words and a tiling, and show how few rounds they took."""
    from rich.console import Console

    from drawahead.cli.demo import run as run_demo

    shown = run_demo(out, Console(quiet=quiet or json), quiet=quiet or json)
    if json:
        say_json(shown)


for panel, commands in (
    (DRAW, (sample, design, report, demo)),
    (JOBS, (status, check, export)),
    (CHECK, (compare, verify, time)),
    (LOOK, (targets, samplers, models, explain)),
):
    for command in commands:
        app.command(cls=PlainCommand, rich_help_panel=panel)(command)


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments. -> the exit status."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the name of a file need not be text
    if not arguments and "_DRAWAHEAD_COMPLETE" not in os.environ:
        say(*FIRST.splitlines())
        return 0
    try:
        status = int(app(list(arguments), prog_name="drawahead", standalone_mode=False) or 0)
        return fail("interrupted", status) if status == INTERRUPTED else status
    except typer.TyperException as error:
        return fail(usage(error.format_message()), error.exit_code)
    except Stopped as stopped:
        return fail(str(stopped), stopped.status)
    except DrawaheadError as error:
        return fail(str(error), 1)
    except (typer.Abort, KeyboardInterrupt):
        return fail("interrupted", INTERRUPTED)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the reader of our output left: nobody to tell
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return fail(str(error), 1)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        return fail("not enough memory for that; ask for a smaller --size or --num", 1)
