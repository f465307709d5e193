"""The app: it loads the command that is asked for, and turns failures into one line on stderr and an exit status.

Neither this nor the modules of the commands import torch before a command runs: help and the version come at once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

import drawahead
from drawahead.cli.plain import PlainGroup
from drawahead.cli.saying import INTERRUPTED, Stopped, fail, say, usage
from drawahead.errors import DrawaheadError

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
