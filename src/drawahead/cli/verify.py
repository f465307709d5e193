"""`drawahead verify`: test a model, with an exit status for CI."""

from __future__ import annotations

from typing import Annotated

import typer

from drawahead.cli import options
from drawahead.cli.saying import say, say_json

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
    num: Annotated[int, typer.Option("--num", "-n", help="Samples of each sampler; more find more.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Sequential samples use the next one.")] = 0,
    sampler: Annotated[
        str | None,
        typer.Option(help="The sampler to test.", show_default="coupled and block"),
    ] = None,
    window: Annotated[int | None, typer.Option(min=1, help="Steps drafted at a time, for --sampler.")] = None,
    level: Annotated[float | None, typer.Option(help="How often a sound model may fail.", show_default="0.001")] = None,
    prompt: Annotated[
        str | None,
        typer.Option(help="For the folder of a language model: a text with mask tokens.", show_default="12 masks"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="For the folder of a diffusion model: how many steps.")
    ] = None,
    max_batch_size: Annotated[
        int | None, typer.Option(min=1, help="The most sequences the model is given at a time.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Test whether samples of your model drawn in parallel have the distribution of those drawn one step at a time.

    Exit status: 0 passed, 3 a check failed, 1 or 2 the test could not be made.
    """
    from drawahead import samplers as all_samplers
    from drawahead import verification
    from drawahead.cli.names import named
    from drawahead.cli.own import is_own, own
    from drawahead.cli.progress import watching
    from drawahead.cli.shipped import TargetOptions
    from drawahead.samplers import Block, Coupled
    from drawahead.verification.verify import LEVEL

    asked = TargetOptions(prompt=prompt, steps=steps)
    chain = own(model, prompt=prompt, steps=steps) if is_own(model) else named(model, asked).chain
    tested = (
        (Coupled(window=window), Block(window=window)) if sampler is None else (all_samplers.named(sampler, window),)
    )
    with watching(quiet or json) as watch:
        verdict = verification.verify(
            chain,
            num,
            samplers=tested,
            level=LEVEL if level is None else level,
            seed=seed,
            max_batch_size=max_batch_size,
            watch=lambda part: watch.sampling(part, num),
        )
    if json:
        say_json({"model": model, "seed": seed, **verdict.to_dict()})
    else:
        say(*(verdict.words if quiet else str(verdict)).splitlines())
    if not verdict.passed:
        raise typer.Exit(DIFFERS)
