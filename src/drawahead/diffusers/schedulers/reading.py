"""Schedulers of diffusers, read by what they do and held as long as they stay as they are."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch

from drawahead.diffusers.schedulers.probing import probe
from drawahead.diffusers.schedulers.recipe import Recipe
from drawahead.diffusers.schedulers.supply import Options, check_functions, copied
from drawahead.errors import InputError
from drawahead.validate import whole

_MOST = 8  # recipes that are held


@final
class Recipes:
    """What the latest schedulers of a pipeline do, by all that is in them. Pipelines read theirs in every call, and to
    try a scheduler takes a while: so each holds its own."""

    def __init__(self) -> None:
        self._held: dict[object, Recipe] = {}

    def of(self, scheduler: Any, steps: int | None, options: Options, strength: float = 1.0, read: Any = None) -> Any:
        """The steps of a scheduler, or an InputError that names the setting that stands against it.

        `options` are those of its `step`. With a `strength` below 1 only that share of the steps is taken, at the end.
        `read` replaces `prepared`.
        """
        if isinstance(scheduler, type):
            raise InputError(f"scheduler must be a scheduler, not its class: write {scheduler.__name__}()")
        check_functions(scheduler)
        ready = copied(scheduler)
        steps = _set_timesteps(ready, steps)
        taken = int(steps * strength)
        if not taken:
            raise InputError(f"strength={strength} leaves no step of {steps}; give more")
        return (read or self.prepared)(ready, options, (steps - taken) * int(getattr(ready, "order", 1)))

    def prepared(self, ready: Any, options: Options, first: int = 0) -> Recipe:
        """The steps, from number `first` on, of a scheduler whose timesteps are set. It is left as it is."""
        _check_timesteps(ready)
        try:
            key = type(ready), _methods(ready), first, contents(vars(ready)), contents(options)
        except TypeError:  # there is something in it that cannot be compared: it is read each time
            return probe(ready, options, first)
        self._held[key] = made = self._held.pop(key, None) or probe(ready, options, first)
        for old in [*self._held][:-_MOST]:
            self._held.pop(old, None)
        return made


def _methods(scheduler: Any) -> tuple[Any, ...]:
    """The functions of its classes, which may have been replaced; a TypeError where one is the user's own: what it does
    may depend on things that are not in it."""
    kinds = [kind for kind in type(scheduler).__mro__ if kind is not object]
    entries = [entry for kind in kinds for entry in vars(kind).values()]
    functions = [function for entry in entries for function in _functions(entry)]
    homes = {kind.__module__ for kind in kinds} | {function.__globals__["__name__"] for function in functions}
    if not {home.partition(".")[0] for home in homes} <= {"diffusers", "huggingface_hub", "torch"}:
        raise TypeError("a class or a function of the user's own")
    return tuple(functions)


def _functions(entry: Any) -> list[types.FunctionType]:
    """A function, or those that a method or a property is made of, with all that they wrap; none of what is no such."""
    if isinstance(entry, property):
        return [function for part in (entry.fget, entry.fset, entry.fdel) for function in _functions(part)]
    entry = entry.__func__ if isinstance(entry, classmethod | staticmethod) else entry
    if isinstance(entry, type | types.GetSetDescriptorType) or not (callable(entry) or hasattr(entry, "__get__")):
        return []
    if not isinstance(entry, types.FunctionType):
        raise TypeError("something of the user's own that acts as a method")
    return [entry, *_functions(getattr(entry, "__wrapped__", None))]


def contents(value: Any) -> object:
    """Equal for equal numbers and texts."""
    if value is None or isinstance(value, bool | int | float | str | torch.device | torch.dtype):
        return type(value), repr(value)
    if isinstance(value, torch.Tensor | np.ndarray):
        numbers = torch.as_tensor(value).cpu().clone(memory_format=torch.contiguous_format)
        return str(numbers.dtype), tuple(numbers.shape), numbers.flatten().view(torch.uint8).numpy().tobytes()
    if isinstance(value, Mapping):
        return tuple((name, contents(entry)) for name, entry in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(map(contents, value))
    raise TypeError(f"{type(value).__name__} cannot be compared")


def _set_timesteps(fresh: Any, num_inference_steps: int | None) -> int:
    training = getattr(fresh.config, "num_train_timesteps", num_inference_steps)
    if training is None:
        raise InputError(f"num_inference_steps must be given: {type(fresh).__name__} has no training timesteps")
    training = whole("num_train_timesteps", training, 1)
    steps = training if num_inference_steps is None else whole("num_inference_steps", num_inference_steps, 1)
    if steps > training:
        raise InputError(f"num_inference_steps must be at most {training}, the number of training timesteps")
    try:
        fresh.set_timesteps(steps)
    except Exception as error:  # any: it is the scheduler's
        raise InputError(f"num_inference_steps={steps} is refused by {type(fresh).__name__}: {error}") from error
    return steps


def _check_timesteps(ready: Any) -> None:
    """Refuse timesteps that the scheduler, or the network, would look up beyond the ends of its tables."""
    config, time = ready.config, ready.timesteps
    offset, training = getattr(config, "steps_offset", None), getattr(config, "num_train_timesteps", None)
    if offset is None or training is None or not bool((time == time.round()).all()):
        return
    if int(time.min()) < 0 or int(time.max()) >= training:
        raise InputError(
            f"num_inference_steps={ready.num_inference_steps} with timestep_spacing={config.timestep_spacing!r} and "
            f"steps_offset={offset} visits timesteps outside 0 ... {training - 1}; use another number of steps"
        )
