"""The app: it loads the command that is asked for, shows help without what only programmers read, and turns failures
into one line on stderr and an exit status.

Neither this nor the modules of the commands import torch before a command runs: help and the version come at once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import drawahead
from drawahead.cli import registry
from drawahead.cli.saying import INTERRUPTED, Stopped, fail, say, usage
from drawahead.errors import DrawaheadError

FIRST = """\
Exact samples from diffusion, masked and left-to-right models, in few rounds.

  drawahead demo                          texts, pictures from words, a tiling
  drawahead sample text --prompt "We ___" fill in blanks with a shipped network
  drawahead sample aztec --out aztec.png  a random tiling, as a picture
  drawahead verify file.py:model          is it safe to draw from my model?
  drawahead targets                       everything that can be drawn by name

All commands: drawahead --help. One of them: drawahead sample --help.
"""
"""What `drawahead` alone says."""


class PlainCommand(TyperCommand):
    """`N` for a number, nothing for a flag; defaults in words without brackets in them; arguments without braces."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        TyperCommand.format_help(_shown(self, ctx), ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class _Commands(Mapping[str, Any]):
    """The commands of the registry, each loaded when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        for panel, commands in registry.COMMANDS.items():
            if name in commands:
                alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
                alone.command(name, cls=PlainCommand, rich_help_panel=panel)(registry.command(name))
                return typer.main.get_command(alone)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for commands in registry.COMMANDS.values() for name in commands)

    def __len__(self) -> int:
        return sum(map(len, registry.COMMANDS.values()))


class PlainGroup(TyperGroup):
    """`drawahead` itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        vars(self)["commands"] = _Commands()

    def get_params(self, ctx: Any) -> list[Any]:
        """A flag that is not set is False, not None, of which typer would make a bool with pydantic: 0.1 s."""
        parameters: list[Any] = super().get_params(ctx)
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) and parameter.default is None:
                parameter.default = False
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        TyperGroup.format_help(_shown(self, ctx), ctx, formatter)


app = typer.Typer(
    help="Exact samples from diffusion, masked and left-to-right models in few parallel rounds.",
    epilog="A first look: drawahead demo. Help with a command: drawahead sample --help.",
    cls=PlainGroup,
    context_settings={"token_normalize_func": str.lower},
    pretty_exceptions_enable=False,
)


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
        place = f"{error.filename} cannot be used: " if error.filename else ""
        return fail(f"{place}{error.strerror or error}", 1)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        return fail("not enough memory for that; ask for a smaller --size or --num", 1)


def value(parameter: Any) -> str:
    """What stands for the value of an option: nothing where it is a flag."""
    if getattr(parameter, "is_flag", False):
        return ""
    if parameter.metavar is not None:
        return str(parameter.metavar)
    return {"int": "N", "float": "X", "Path": "PATH"}.get(parameter.bare_type(), "TEXT")


def _shown(command: Any, ctx: Any) -> Any:
    """The command as its help shows it; the one that runs stays as it is."""
    shown = copy(command)
    vars(shown)["get_params"] = lambda _: [_plain(parameter) for parameter in command.get_params(ctx)]
    return shown


def _plain(parameter: Any) -> Any:
    shown = copy(parameter)
    if parameter.param_type_name == "argument":
        vars(shown)["display_type_rich"] = lambda ctx: None
    else:
        shown.metavar = value(parameter)
    if isinstance(parameter.show_default, str):
        shown.help = f"{parameter.help or ''} [dim]\\[default: {parameter.show_default}][/dim]"
        shown.show_default = False
    return shown
