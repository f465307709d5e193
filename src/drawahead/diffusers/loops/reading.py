"""What was watched of a pipeline's loop, as a chain that is proved to take its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.diffusers.arguments import Told
from drawahead.diffusers.denoiser import Denoiser, Guidance
from drawahead.diffusers.loops.body import Operation
from drawahead.diffusers.loops.calls import Asking
from drawahead.diffusers.loops.comparing import close, rounding
from drawahead.diffusers.loops.constants import ByStep
from drawahead.diffusers.loops.looped import Loop, Looped
from drawahead.diffusers.loops.proof import difference, settle, steps_from_its_states
from drawahead.diffusers.loops.rows import layouts
from drawahead.diffusers.loops.watching import LoopWatch
from drawahead.diffusers.schedulers.reading import Recipes
from drawahead.diffusers.schedulers.recipe import Recipe
from drawahead.diffusers.schedulers.stochastic import advice
from drawahead.diffusers.schedulers.supply import copied
from drawahead.errors import InputError
from drawahead.schedules import Given


def read(watch: LoopWatch, declared: Sequence[str], recipes: Recipes) -> tuple[GaussianChain, Loop]:
    """The chain that a loop is, or an InputError that says what stands against it."""
    try:
        recipe = recipes.prepared(copied(watch.plain_scheduler), watch.options, watch.first).between(0, watch.number)
    except InputError as error:
        raise InputError(f"{error}. For {watch.kind}, {advice(watch.plain_scheduler)}") from error
    faults: list[str] = []
    for loop in _loops(watch, declared):
        looped = _looped(loop, recipe)
        fault = difference(looped, recipe.plan, watch.moments)
        if not fault:
            loop = settle(watch.kind, loop, watch.moments)
            return _chain(watch, loop, recipe), loop
        faults.append(fault)
    named = faults[0] if faults else "images of one batch depend on each other"
    raise InputError(
        f"the loop of {watch.kind} cannot be sampled ahead: its own steps have other numbers than those that were read "
        f"({named}). Give da.adapters.from_diffusers a callable around its network"
    )


def _loops(watch: LoopWatch, declared: Sequence[str]) -> Iterator[Loop]:
    """What the loop may be, by how the rows of its states belong to images."""
    steps = watch.steps
    first = watch.moments[0]
    state = first.state
    device = state.device
    body = steps.body.run(device)
    before = None if steps.before is None else steps.before.run(device)
    reshapes = False
    if before is not None and not any(_holds_tensors(part) for part in before.parts):
        given = first.body.values[first.body.targets[0] or 0]
        (shaped,) = before(given[None].clone(), torch.zeros(1, dtype=torch.int64, device=device), lambda *_: [])
        reshapes = close(shaped[0], first.state, rounding(given))
        if reshapes:
            state = given
            watch.moments[0] = first = replace(first, state=state)
    if state.shape != watch.moments[-1].state.shape:
        raise InputError(f"the first step of {watch.kind}'s loop begins with another kind of state than the second")
    for layout, passes in layouts(body, before if reshapes else None, state, first.answers):
        loop = Loop.read(body, before, reshapes, layout, passes, state.dtype, declared)
        yield replace(loop, plain=steps_from_its_states(loop, watch.moments))


def _holds_tensors(part: Operation | Asking) -> bool:
    return isinstance(part, Asking) or any(isinstance(leaf, Tensor | ByStep) for leaf in part.leaves)


def _looped(loop: Loop, recipe: Recipe) -> Looped:
    device = loop.body.calls[0].which.device
    arithmetic = Denoiser(None, recipe, Told({}), Guidance(), loop.dtype, device)
    return Looped(loop, arithmetic, recipe.plan, device)


def _chain(watch: LoopWatch, loop: Loop, recipe: Recipe) -> GaussianChain:
    start = loop.layout.states(watch.moments[0].state)
    return GaussianChain(
        _looped(loop.without_rows(), recipe),
        Given(recipe.plan),
        start.shape[1:],
        start=start,
        dtype=torch.promote_types(start.dtype, torch.float32),
        device=start.device,
        condition=loop.tables or None,
    )
