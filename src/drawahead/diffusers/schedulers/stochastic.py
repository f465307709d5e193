"""The stochastic scheduler beside a deterministic one: the same noise levels, and steps that are random."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from drawahead.diffusers.schedulers.reading import Recipes
from drawahead.errors import InputError

_STEPS = 5
_LEVELS = ("beta_start", "beta_end", "beta_schedule")
Made = tuple[Any, str]
"""A scheduler, and the line that makes it."""


def draws_noise(scheduler: Any, recipes: Recipes) -> bool:
    """Whether some of its steps are random, and can be followed."""
    try:
        return bool(recipes.of(scheduler, _STEPS, {}).plan.s.any())
    except InputError:
        return False


def stochastic(scheduler: Any) -> Made | None:
    """A scheduler that draws noise, for the network of this one; None if there is none."""
    for make in (_ancestral_flow, _ddpm, _cogvideo, _edm):
        made = make(scheduler)
        if made is not None:
            return made
    return None


def in_place_of(scheduler: Any, recipes: Recipes) -> tuple[Any, str]:
    """A scheduler that draws noise, and what is said of it in a report; None and nothing where this one does."""
    if draws_noise(scheduler, recipes):
        return None, ""
    made = stochastic(scheduler)
    if made is None:
        raise InputError(f"no stochastic scheduler is known for {type(scheduler).__name__}: set pipe.scheduler to one")
    new, old = type(made[0]).__name__, type(scheduler).__name__
    return made[0], f"drawn with {new} in place of {old}: the same noise levels, and images of its random steps"


def advice(scheduler: Any) -> str:
    """The line to paste, as a remedy."""
    made = None if draws_noise(scheduler, Recipes()) else stochastic(scheduler)
    if made is None:
        return "give it a stochastic scheduler, such as DDPMScheduler"
    return f"write {made[1]}, or from_pipe(pipe, stochastic=True)"


def _ancestral_flow(scheduler: Any) -> Made | None:
    config = scheduler.config
    flows = getattr(config, "use_flow_sigmas", False) or getattr(config, "prediction_type", "") == "flow_prediction"
    if not flows and not hasattr(scheduler, "scale_noise"):
        return None
    options: dict[str, Any] = {"stochastic_sampling": True}
    if getattr(config, "flow_shift", None) is not None:
        options["shift"] = config.flow_shift
    return _made("FlowMatchEulerDiscreteScheduler", scheduler, options)


def _ddpm(scheduler: Any) -> Made | None:
    levels = {name: scheduler.config[name] for name in _LEVELS if name in scheduler.config}
    for own in ({}, levels):  # what was never set is left out of a config, and need not be the same by default
        made = _made("DDPMScheduler", scheduler, own | {"clip_sample": False})
        if _same_levels(scheduler, made[0]):
            return made
    return None


def _cogvideo(scheduler: Any) -> Made | None:
    made = _made("CogVideoXDPMScheduler", scheduler, {})
    return made if _same_levels(scheduler, made[0]) else None


def _edm(scheduler: Any) -> Made | None:
    if not hasattr(scheduler, "precondition_inputs"):
        return None
    return _made("EDMDPMSolverMultistepScheduler", scheduler, {"algorithm_type": "sde-dpmsolver++"})


def _same_levels(one: Any, other: Any) -> bool:
    levels: list[Any] = [getattr(scheduler, "alphas_cumprod", None) for scheduler in (one, other)]
    return all(isinstance(level, torch.Tensor) for level in levels) and torch.equal(levels[0], levels[1])


def _made(name: str, scheduler: Any, options: dict[str, Any]) -> Made:
    kind = getattr(importlib.import_module("diffusers"), name)
    said = "".join(f", {key}={value!r}" for key, value in options.items())
    line = f"pipe.scheduler = {name}.from_config(pipe.scheduler.config{said})"
    return kind.from_config(scheduler.config, **options), line
