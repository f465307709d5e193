"""What was watched of a pipeline's loop, as a chain that is proved to take its steps.

The same states, answers and noise must lead to the same as in the pipeline; and its networks, asked about several
states at once, must answer as they do one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.diffusers.denoiser import Denoiser, Guidance, Told
from drawahead.diffusers.loops.body import Operation
from drawahead.diffusers.loops.calls import Arguments, Asking, ByStep
from drawahead.diffusers.loops.comparing import close, equal, rounding
from drawahead.diffusers.loops.looped import Loop, Looped, asked
from drawahead.diffusers.loops.rows import Batched, layouts, may_have_rows
from drawahead.diffusers.loops.tape import Ref
from drawahead.diffusers.loops.watching import LoopWatch, Moment
from drawahead.diffusers.schedulers.reading import Recipes
from drawahead.diffusers.schedulers.recipe import Recipe, state_after
from drawahead.diffusers.schedulers.stochastic import advice
from drawahead.diffusers.schedulers.supply import copied
from drawahead.errors import InputError
from drawahead.oracles.condition import of_samples
from drawahead.schedules import Given, Plan


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


def difference(looped: Looped, plan: Plan, moments: Sequence[Moment]) -> str:
    """What differs from the pipeline's own steps; empty if nothing does."""
    before: Tensor | None = None
    for moment in moments:
        x = looped.loop.layout.states(moment.state)
        differing: list[str] = []
        k = torch.full((len(x),), moment.k, device=x.device)
        answer = looped.answered(x.double(), k, _rows(looped.loop), _spy(moment, differing))
        if differing:
            return differing[0]
        if plan.c is None or moment.k <= 1:
            after = state_after(
                plan, k.cpu(), *(part.double().cpu() for part in (x, answer, looped.loop.layout.states(moment.noise)))
            )
            if plan.c is not None and before is not None:
                after = after + plan.c[moment.k] * before.double().cpu()
            if not close(after, looped.loop.layout.states(moment.after).cpu(), 100 * rounding(moment.body.values[0])):
                return f"the next states, at step {moment.k}"
        before = answer
    return ""


def _rows(loop: Loop) -> dict[str, Tensor]:
    return of_samples(loop.tables, torch.arange(loop.layout.images))


def _spy(moment: Moment, differing: list[str]) -> Any:
    """Answers what the networks answered, and looks at what they are given."""
    nodes = [node for node in moment.body.nodes if node.calls]

    def ask(call: Batched, arguments: Arguments, leaves: list[Any]) -> Sequence[Any]:
        node = nodes[call.number]
        number = next(i for i, variant in enumerate(call.asking.variants) if variant is arguments)
        if int(call.asking.which[moment.k]) == number:
            own = [moment.body.values[leaf.number] if isinstance(leaf, Ref) else leaf for leaf in node.leaves]
            for name, ours, theirs in zip(arguments.names, leaves, own, strict=True):
                if not _alike(ours, theirs):
                    differing.append(f"{name} of {type(node.op).__name__}, at step {moment.k}")
        return moment.answers[call.number]

    return ask


def _alike(ours: Any, theirs: Any) -> bool:
    if not isinstance(ours, Tensor):
        return equal(ours, theirs)
    theirs = torch.as_tensor(theirs, device=ours.device)
    if theirs.numel() == 1 or theirs.dim() == 0:  # a number by step, told once for each row
        return bool((ours.double() == theirs.double().flatten()).all())
    return close(ours, theirs, rounding(ours) if ours.is_floating_point() else 0.0)


def steps_from_its_states(loop: Loop, moments: Sequence[Moment]) -> bool:
    """Whether the scheduler is given, at every image, the very state that it led to."""
    for moment in moments:
        x = loop.layout.states(moment.state)
        k = torch.full((len(x),), moment.k, device=x.device)
        if not torch.equal(loop(x, k, _rows(loop), _spy(moment, []))[0], x):
            return False
    return True


def settle(kind: str, own: Loop, moments: Sequence[Moment]) -> Loop:
    """The loop with those arguments of its networks taken for rows that are, by asking the networks."""
    faults: list[Exception] = []
    for loop in _guesses(own):
        try:
            _check_asking(loop, moments)
        except Exception as error:  # any: it is the network's, given what it may not have been made for
            faults.append(error)
        else:
            return loop
    said = (str(faults[0]).strip() or type(faults[0]).__name__).splitlines()[0]
    raise InputError(
        f"the networks of {kind} do not answer about several states at once as they do one by one ({said}), so its "
        "steps cannot be sampled ahead. If an argument of theirs has a row for each image, name it: from_pipe(pipe, "
        'rows=("its_name",))'
    ) from faults[0]


def _guesses(loop: Loop) -> Iterator[Loop]:
    """As it is; with all that may have rows; with the rows of one argument taken for none, or the other way round."""
    yield loop
    places = {
        call.number: [
            (variant, i)
            for variant, arguments in enumerate(call.asking.variants)
            for i, leaf in enumerate(arguments.leaves)
            if may_have_rows(leaf, call.passes * call.images)
        ]
        for call in loop.calls
    }
    yield loop.with_rows({number: frozenset(all_of) for number, all_of in places.items()})
    for call in loop.calls:
        names = {place: call.asking.variants[place[0]].names[place[1]] for place in places[call.number]}
        for name in dict.fromkeys(names.values()):
            flipped = [place for place, own in names.items() if own == name]
            yield loop.with_rows({call.number: call.rows.symmetric_difference(flipped)})


def _check_asking(loop: Loop, moments: Sequence[Moment]) -> None:
    """The last image at the first step, the first one at the last step and at the first, asked together."""
    first, last = moments[0], moments[-1]
    x, later = loop.layout.states(first.state), loop.layout.states(last.state)[:1]
    tables, order = loop.tables, torch.tensor([loop.layout.images - 1, 0, 0])
    k = torch.tensor([first.k, last.k, first.k], device=x.device)
    together = loop(torch.cat([x[-1:], later, x[:1]]), k, of_samples(tables, order), asked)[1]
    alone = loop(later, k[1:2], of_samples(tables, order[1:2]), asked)[1]
    own = loop.layout.states(first.body.values[first.body.targets[1] or 0])
    expected = torch.cat([own[-1:], alone, own[:1]]).double()
    apart = float((together.double() - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
    if not apart <= torch.finfo(together.dtype).eps ** 0.5:
        raise InputError(f"answers are {apart:.1g} apart, relative to their size")
