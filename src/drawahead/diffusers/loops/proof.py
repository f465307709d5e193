"""A chain that was read from a pipeline's loop, beside that loop: the same states, answers and noise must lead to the
same; and its networks, asked about several states at once, must answer as they do one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from drawahead.diffusers.loops.calls import Arguments
from drawahead.diffusers.loops.comparing import close, equal, rounding
from drawahead.diffusers.loops.looped import Loop, Looped, asked
from drawahead.diffusers.loops.rows import Batched, may_have_rows
from drawahead.diffusers.loops.tape import Ref
from drawahead.diffusers.loops.watching import Moment
from drawahead.diffusers.schedulers.recipe import state_after
from drawahead.errors import InputError
from drawahead.oracles.condition import of_samples
from drawahead.schedules import Plan


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
            if not close(after, looped.loop.layout.states(moment.after).cpu(), _room(moment.body.values[0])):
                return f"the next states, at step {moment.k}"
        before = answer
    return ""


def _room(state: Tensor) -> float:
    return 100 * rounding(state)


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
