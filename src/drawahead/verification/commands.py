"""`drawahead verify`, which tests a model, with an exit status for CI; and `drawahead time`: does it pay here?"""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from drawahead.cli import options
from drawahead.cli.saying import say, say_json
from drawahead.errors import InputError

DIFFERS = 3
"""The exit status when a check fails: other failures have 1 or 2."""


def verify(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="package.module:name or file.py:name of an oracle, a chain or a function that makes one; a folder "
            "with a model of transformers or diffusers; or a target that `drawahead targets` lists.",
            show_default=False,
        ),
    ],
    num: Annotated[int, typer.Option("--num", "-n", help="Samples per sampler; more find more.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed; one by one uses the next.")] = 0,
    sampler: Annotated[
        str | None,
        typer.Option(help="The sampler to test.", show_default="coupled and block"),
    ] = None,
    window: Annotated[int | None, typer.Option(min=1, help="Steps drafted at a time, for --sampler.")] = None,
    level: Annotated[
        float | None, typer.Option(help="How often a correct model may fail.", show_default="0.001")
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(help="For the folder of a language model: a text with mask tokens.", show_default="12 masks"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="For the folder of a diffusion model: how many steps.")
    ] = None,
    max_batch_size: Annotated[int | None, typer.Option(min=1, help="Largest batch for the model.")] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Test whether samples of your model drawn in parallel have the distribution of those drawn one step at a time.

    Exit status: 0 passed, 3 a check failed, 1 or 2 the test could not be made.
    """
    from drawahead import samplers as all_samplers
    from drawahead import verification
    from drawahead.cli.building import apart, check_room
    from drawahead.cli.registry import named
    from drawahead.cli.saying import watching
    from drawahead.cli.subjects import TargetOptions
    from drawahead.samplers import Block, Coupled
    from drawahead.verification.verify import LEVEL

    chain = named(model, TargetOptions(prompt=prompt, steps=steps)).chain
    tested = (
        (Coupled(window=window), Block(window=window)) if sampler is None else (all_samplers.named(sampler, window),)
    )
    check_room(chain, num, "ask for fewer")
    with watching(quiet or json) as watch:
        verdict = apart(
            lambda: verification.verify(
                chain,
                num,
                samplers=tested,
                level=LEVEL if level is None else level,
                seed=seed,
                max_batch_size=max_batch_size,
                watch=lambda part: watch(part, num),
            )
        )
    if json:
        say_json({"model": model, "seed": seed, **verdict.to_dict()})
    else:
        say(*(verdict.words if quiet else str(verdict)).splitlines())
    if not verdict.passed:
        raise typer.Exit(DIFFERS)


def time(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="package.module:name or file.py:name of a chain, an oracle or a function that makes one, or of a "
            "function that takes a number and runs your network on a batch of that many; or a target that "
            "`drawahead targets` lists.",
            show_default=False,
        ),
    ],
    window: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The most queries in a round.",
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
    from drawahead.cli.own import as_own_chain, found
    from drawahead.cli.registry import is_own, named
    from drawahead.cli.subjects import TargetOptions
    from drawahead.timing import Gain, gain, gain_of_function

    thing: Any = found(model) if is_own(model) and ":" in model else None
    if thing is not None and _asks(thing):
        if steps is None or rounds is None:
            raise InputError(f"{model} is a function of a number: give --steps and --rounds of a sample, too")
        timed: Gain = gain_of_function(thing, steps=steps, rounds=rounds, queries=window or 100)
    elif steps is not None or rounds is not None:
        raise InputError("--steps and --rounds are for a function of a number; a chain has its own")
    else:
        chain = as_own_chain(model, thing) if thing is not None else named(model, TargetOptions()).chain
        timed = gain(chain, window=window)
    say_json({"model": model, **timed.to_dict()}) if json else say(*str(timed).splitlines())


def _asks(thing: Any) -> bool:
    """Whether this is a function of one argument: a number of queries."""
    if not inspect.isfunction(thing):
        return False
    needed = [p for p in inspect.signature(thing).parameters.values() if p.default is p.empty]
    return len(needed) == 1 and needed[0].kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
