"""How the commands introduce themselves: typer's help, without what only programmers read."""

from __future__ import annotations

from copy import copy
from typing import Any

from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """`N` for a number, nothing for a flag; what is usual without brackets in brackets; arguments without braces."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        TyperCommand.format_help(_shown(self, ctx), ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class PlainGroup(TyperGroup):
    """The same of `drawahead --help` itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Flags that are not given are False, not None, of which typer would make a bool with pydantic: 0.1 s."""
        found: list[Any] = super().get_params(ctx)
        for parameter in found:
            if getattr(parameter, "is_flag", False) and parameter.default is None:
                parameter.default = False
        return found

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
