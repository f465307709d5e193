"""Schedulers of diffusers: three families by their tables, all others by trying their `step`.

Which family one may be of is in the name of its class, or of one that it is derived from. Whether it does what that
family does is seen by stepping it: if not, because its `step` is another one, it is tried like all others. Nothing is
done to the scheduler that is given. The tables hold float32 numbers; everything worked out from them is float64.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch

from drawahead.diffusers.networks import learns_variance
from drawahead.diffusers.schedulers.confirming import follows
from drawahead.diffusers.schedulers.probing import probe
from drawahead.diffusers.schedulers.recipe import Clip, Conversion, Limit, Recipe, check_signal
from drawahead.diffusers.schedulers.supply import again, has_functions, lent
from drawahead.errors import InputError
from drawahead.schedules import (
    EulerAncestral,
    LearnedVariance,
    Plan,
    Threshold,
    ddim_steps,
    ddpm_steps,
    with_learned_range,
)
from drawahead.validate import short, whole

_LADDER = {
    *("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas", "rescale_betas_zero_snr"),
    *("prediction_type", "timestep_spacing", "steps_offset"),
}
_LIMITS = {"clip_sample", "clip_sample_range", "thresholding", "dynamic_thresholding_ratio", "sample_max_value"}
_SETTINGS = {
    "DDPMScheduler": _LADDER | _LIMITS | {"variance_type"},
    "DDPMParallelScheduler": _LADDER | _LIMITS | {"variance_type"},
    "DDIMScheduler": _LADDER | _LIMITS | {"set_alpha_to_one"},
    "DDIMParallelScheduler": _LADDER | _LIMITS | {"set_alpha_to_one"},
    "EulerAncestralDiscreteScheduler": _LADDER,
}
_SPACINGS = ("leading", "linspace", "trailing")
_PREDICTIONS = ("epsilon", "sample", "v_prediction")
_VARIANCES = ("fixed_small", "fixed_small_log", "fixed_large", "learned", "learned_range")
_ROOM = 0.5
"""A learned variance is hoped to stay above this share of the fixed small one, in standard deviations."""
_FEW = 24  # steps at which a scheduler of diffusers is seen to do as its tables say
_MOST = 8  # recipes that are held

Options = Mapping[str, Any]


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
        if not hasattr(scheduler, "config") or not callable(getattr(scheduler, "step", None)):
            raise InputError(f"scheduler must be one of diffusers, such as DDPMScheduler(), not {short(scheduler)}")
        with lent(scheduler) as ready:
            if _family(ready) and _stock(ready):
                _check_settings(ready)  # before its own messages come, which name no remedy
            steps = _set_timesteps(ready, steps)
            taken = int(steps * strength)
            if not taken:
                raise InputError(f"strength={strength} leaves no step of {steps}; give more")
            return (read or self.prepared)(ready, options, (steps - taken) * int(getattr(ready, "order", 1)))

    def prepared(self, ready: Any, options: Options, first: int = 0) -> Recipe:
        """The steps, from number `first` on, of a scheduler whose timesteps are set. It is left as it is."""
        try:
            key = type(ready), _methods(ready), first, contents(vars(ready)), contents(options)
        except TypeError:  # there is something in it that cannot be compared: it is read each time
            return _read(ready, options, first)
        self._held[key] = made = self._held.pop(key, None) or _read(ready, options, first)
        for old in [*self._held][:-_MOST]:
            self._held.pop(old, None)
        return made


def _read(ready: Any, options: Options, first: int) -> Recipe:
    _check_options(ready, options)
    same = again(ready)

    def make() -> Any:
        fresh = same()
        if first and hasattr(fresh, "set_begin_index"):
            fresh.set_begin_index(first)
        return fresh

    stock = _stock(ready)
    tables = _by_tables(ready, options, first, stock) if _family(ready) else None
    if tables is not None and follows(tables, make, first, options, _FEW if stock else None):
        return tables
    if learns_variance(ready):
        raise InputError(
            f"{type(ready).__name__} reads a variance from the network's output, and its steps are not those of a "
            "DDPMScheduler: only a DDPMScheduler, or a class that steps as it does, can be followed there"
        )
    return probe(make, first, options)


def _family(scheduler: Any) -> str:
    """The name of a class whose tables may tell what it does; empty if there is none."""
    return next((kind.__name__ for kind in type(scheduler).__mro__ if kind.__name__ in _SETTINGS), "")


def _by_tables(ready: Any, options: Options, first: int, stock: bool) -> Recipe | None:
    """The steps that its family takes."""
    family = _family(ready)
    try:
        _check_settings(ready)
        _check_timesteps(ready)
        if family.startswith("DDPM"):
            made = _ddpm(ready)
        elif family.startswith("DDIM"):
            made = _ddim(ready, float(options.get("eta", 0.0)), bool(options.get("use_clipped_model_output", False)))
        else:
            made = _euler_ancestral(ready)
    except Exception:  # any: what is not for its family may well be for a class of the user's own
        if stock:
            raise
        return None
    return made.between(first)


def _stock(ready: Any) -> bool:
    """Whether nothing in it is anybody's but the library's, and none of its settings is new."""
    try:
        _methods(ready)
    except TypeError:
        return False
    known, parameters = _SETTINGS.get(_family(ready), set()), inspect.signature(type(ready).__init__).parameters
    others = {name: part.default for name, part in parameters.items() if name not in known}
    return not has_functions(ready) and all(getattr(ready.config, *each) == each[1] for each in others.items())


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


def _check_options(scheduler: Any, options: Options) -> None:
    parameters = inspect.signature(scheduler.step).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return  # it hands them on, to what cannot be seen here
    known = {one.name for one in parameters} - _GIVEN
    if unknown := sorted(set(options) - known):
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        kind = type(scheduler).__name__
        raise InputError(f"{', '.join(unknown)} is no option of {kind}.step ({takes}); leave it out")


_GIVEN = {
    *("model_output", "timestep", "sample", "generator", "return_dict", "variance_noise", "noise"),
    *("old_pred_original_sample", "timestep_back", "pred_original_sample", "per_token_timesteps", "predict_epsilon"),
}
"""Arguments of `step` that are no setting of it."""


def _converted(plan: Plan, prediction_type: str) -> Conversion:
    check_signal(prediction_type, plan.signal[:-1])
    return Conversion.of(prediction_type, plan.signal[:-1], plan.noise[:-1])


def _check_settings(scheduler: Any) -> None:
    config, settings = scheduler.config, _SETTINGS[_family(scheduler)]
    _one_of("timestep_spacing", config, _SPACINGS)
    _one_of("prediction_type", config, _PREDICTIONS if "clip_sample" in settings else ("epsilon", "v_prediction"))
    if "variance_type" in settings:
        _one_of("variance_type", config, _VARIANCES)


def _one_of(name: str, config: Any, supported: tuple[str, ...]) -> None:
    if getattr(config, name) not in supported:
        raise InputError(f"{name}={getattr(config, name)!r} is not supported; use one of {', '.join(supported)}")


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
    """Refuse timesteps that the scheduler would look up beyond the ends of its tables."""
    steps, config = ready.num_inference_steps, ready.config
    if int(ready.timesteps.min()) < 0 or int(ready.timesteps.max()) >= config.num_train_timesteps:
        raise InputError(
            f"num_inference_steps={steps} with timestep_spacing={config.timestep_spacing!r} and steps_offset="
            f"{config.steps_offset} visits timesteps outside 0 ... {config.num_train_timesteps - 1}; use another "
            "number of steps"
        )


def _ddpm(fresh: Any) -> Recipe:
    time, config, abar = fresh.timesteps, fresh.config, fresh.alphas_cumprod.double()
    end = torch.tensor([int(fresh.previous_timestep(t)) for t in time])
    here, after = abar[time], torch.where(end >= 0, abar[end.clamp(min=0)], 1.0)
    # The scheduler adds noise at every timestep but 0, also where the next state is the data itself.
    plan = ddpm_steps(time, here, after, time > 0, large_variance=config.variance_type == "fixed_large")
    if config.variance_type == "learned_range":
        plan = with_learned_range(plan, here, after, time > 0)
    elif config.variance_type == "learned":
        # Where the next state is the data the small variance is zero, and what is answered need not be: any number
        # above zero is exact there, since a step whose answer lies below it is drawn by itself.
        small = torch.where((plan.s == 0) & (time > 0), (1 - here / after).sqrt(), plan.s)
        plan = replace(plan, s=_ROOM * small, spread=LearnedVariance())
    return Recipe(plan, _converted(plan, config.prediction_type), _limit(config))


def _ddim(fresh: Any, eta: float, use_clipped_model_output: bool) -> Recipe:
    if eta < 0:
        raise InputError(f"eta must not be negative, not {eta}")
    time, config, abar = fresh.timesteps, fresh.config, fresh.alphas_cumprod.double()
    # The scheduler goes a fixed number of timesteps, and need not end where the next step sets out from.
    end = time - config.num_train_timesteps // fresh.num_inference_steps
    after = torch.where(end >= 0, abar[end.clamp(min=0)], fresh.final_alpha_cumprod.double())
    plan, limit = ddim_steps(time, abar[time], after, eta), _limit(config)
    conversion = _converted(plan, config.prediction_type)
    if limit is None or use_clipped_model_output:
        return Recipe(plan, conversion, limit)
    # Here the data is limited but the noise is not. With m the prediction as it came and e = (x - sqrt(here) m) /
    # sqrt(1 - here), the mean is sqrt(after) limited + kept e = A x + B m + sqrt(after) (limited - m).
    # B is zero where a step goes nowhere.
    b = torch.where(plan.b > 0, plan.b, 1.0)
    return Recipe(replace(plan, b=b), conversion, limit, (plan.b / b, after.sqrt() / b))


def _euler_ancestral(fresh: Any) -> Recipe:
    plan = EulerAncestral(tuple(fresh.sigmas.double().tolist())).plan()
    plan = replace(plan, time=fresh.timesteps, start=float(fresh.init_noise_sigma))
    return Recipe(plan, _converted(plan, fresh.config.prediction_type))


def _limit(config: Any) -> Limit | None:
    if config.thresholding:
        return Threshold(config.dynamic_thresholding_ratio, config.sample_max_value)
    if config.clip_sample:
        return Clip(float(config.clip_sample_range))
    return None
