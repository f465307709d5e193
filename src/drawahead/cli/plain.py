"""The app's group, which loads a command when it is asked for; and typer's help, without what only programmers read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from drawahead.cli import registry


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
