"""`drawahead time`: does drawing ahead pay on this machine?"""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from drawahead.cli import options
from drawahead.cli.saying import say, say_json
from drawahead.errors import InputError


def time(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="package.module:name or file.py:name of a chain, an oracle or a function that makes one, or of a "
            "function of a number, which asks your network so many queries in one batch; or a target that `drawahead "
            "targets` lists.",
            show_default=False,
        ),
    ],
    window: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Queries of a round, at most.",
            show_default="all steps, 128 at most; of a function 100",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="For a function: steps per sample, one by one.")
    ] = None,
    rounds: Annotated[
        float | None, typer.Option(metavar="X", help="For a function: rounds per sample, from a report.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Time one query and a round of many, and say what drawing ahead would save on this machine."""
    from drawahead.cli.own import as_own_chain, found, is_own
    from drawahead.timing import Gain, gain, gain_of_function

    thing: Any = found(model) if is_own(model) and ":" in model else None
    if thing is not None and _asks(thing):
        if steps is None or rounds is None:
            raise InputError(f"{model} is a function of a number: give --steps and --rounds of a sample, too")
        timed: Gain = gain_of_function(thing, steps=steps, rounds=rounds, queries=window or 100)
    elif steps is not None or rounds is not None:
        raise InputError("--steps and --rounds are for a function of a number; a chain has its own")
    else:
        chain = as_own_chain(model, thing) if thing is not None else _listed(model)
        timed = gain(chain, window=window)
    say_json({"model": model, **timed.to_dict()}) if json else say(*str(timed).splitlines())


def _asks(thing: Any) -> bool:
    """Whether this is a function that must be given one thing: a number of queries."""
    if not inspect.isfunction(thing):
        return False
    needed = [p for p in inspect.signature(thing).parameters.values() if p.default is p.empty]
    return len(needed) == 1 and needed[0].kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )


def _listed(name: str) -> Any:
    from drawahead.cli.names import named
    from drawahead.cli.shipped import TargetOptions

    return named(name, TargetOptions()).chain
