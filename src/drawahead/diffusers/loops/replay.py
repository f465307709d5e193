"""One step of a pipeline's own loop beside the same step of the chain that was read from it."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.diffusers.denoiser import Denoiser
from drawahead.diffusers.loops.called import Called, close, equal, rounding
from drawahead.diffusers.loops.watching import Call, Made, Step, called
from drawahead.diffusers.schedulers.recipe import state_after
from drawahead.errors import InputError
from drawahead.oracles.condition import of_samples


def check_replay(kind: str, chain: GaussianChain, step: Step) -> None:
    """Refuse a chain whose first step is not the one that the pipeline's own loop took: from the same states, with the
    same answers of the network (made up) and the same noise, the network must have been given the same and the next
    states be the same. Whatever was misread shows there; it costs no call of the network."""
    assert chain.start_state is not None and step.real is not None
    x = chain.start_state.view(-1, *chain.shape)
    denoiser, calls = _spied(chain.denoiser, step)
    first = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    answer = denoiser(x, first, **of_samples(chain.condition, torch.arange(len(x))))
    noise, after = (part[: len(x)].to(x) for part in step.real)
    differs = _difference(calls, step)
    if not differs and not close(state_after(chain.plan, first, x, answer, noise), after):
        differs = "the next states"
    if differs:
        raise InputError(
            f"the loop of {kind} cannot be drawn in rounds: its own first step has other numbers than the one that was "
            f"read ({differs}). Give da.adapters.from_diffusers a callable around its network"
        )


def _spied(denoiser: Any, step: Step) -> tuple[Denoiser, list[Call]]:
    """A denoiser whose networks answer what they were made to answer, and what they are called with."""
    assert isinstance(denoiser, Denoiser) and isinstance(denoiser.network, Called)
    own, calls, spied = denoiser.network, list[Call](), copy.copy(denoiser)

    def network(*arguments: Any, **named: Any) -> Made:
        calls.append(called(own.network, arguments, named))
        return Made((step.outputs,))

    def control(*arguments: Any, **named: Any) -> Made:
        calls.append(called(own.control, arguments, named))
        return Made(step.residuals or ())

    spied.network = Called(network, own.channels, None if own.control is None else control)
    return spied, calls


def _difference(calls: list[Call], step: Step) -> str:
    """What networks are given differently; empty if nothing is."""
    theirs = [*step.controls, *step.calls]
    if len(calls) != len(theirs):
        return "calls of its networks"
    for ours, own in zip(calls, theirs, strict=True):
        if not close(ours.shown, own.shown, rounding(own.shown)):
            return "states and channels that the network is shown"
        if not _equal_times(ours.time, own.time):
            return "times"
        if not equal(ours.told | {"return_dict": None}, own.told | {"return_dict": None}):
            return "conditions"
    return ""


def _equal_times(one: Tensor, other: Tensor) -> bool:
    return bool((one.double().cpu() == other.double().cpu()).all())
