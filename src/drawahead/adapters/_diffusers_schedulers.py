"""Schedulers of diffusers: three families by their tables, all others by trying their `step`.

What is read is read from a fresh scheduler with the same config, so that nothing done to the given one matters and
nothing is done to it. The tables hold float32 numbers; everything worked out from them is float64.
"""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch

from drawahead.adapters._diffusers_probing import probe
from drawahead.adapters._diffusers_recipe import Clip, Conversion, Limit, Recipe, check_signal
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
from drawahead.validate import whole

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

Options = Mapping[str, Any]


def recipe(scheduler: Any, num_inference_steps: int | None, options: Options, strength: float = 1.0) -> Recipe:
    """The steps of a scheduler, or an InputError that names the setting that stands against it.

    `options` are those of its `step`. With a `strength` below 1 only that share of the steps is taken, the last ones.
    """
    if isinstance(scheduler, type):
        raise InputError(f"scheduler must be a scheduler, not its class: write {scheduler.__name__}()")
    if not hasattr(scheduler, "config") or not callable(getattr(scheduler, "step", None)):
        raise InputError(f"scheduler must be one of diffusers, such as DDPMScheduler(), not {type(scheduler).__name__}")
    # diffusers takes arguments that were given by their place for defaults, which from_config would not hand on.
    config = {name: value for name, value in scheduler.config.items() if name != "_use_default_values"}
    fresh = type(scheduler).from_config(config)
    if type(fresh).__name__ in _SETTINGS:
        _check_settings(type(fresh).__name__, fresh)
    steps = _set_timesteps(fresh, num_inference_steps)
    return prepared(fresh, options, (steps - int(steps * strength)) * int(getattr(fresh, "order", 1)))


def prepared(ready: Any, options: Options, first: int = 0) -> Recipe:
    """The steps, from number `first` on, of a scheduler whose timesteps are set. It is left as it is."""
    return _KNOWN.recipe(ready, options, first)


def _read(ready: Any, options: Options, first: int) -> Recipe:
    kind = type(ready).__name__
    _check_options(kind, ready, options)
    if kind not in _SETTINGS:

        def make() -> Any:
            fresh = copy.deepcopy(ready)
            if first and hasattr(fresh, "set_begin_index"):
                fresh.set_begin_index(first)
            return fresh

        return probe(make, first, options)
    _check_settings(kind, ready)
    _check_timesteps(ready)
    if kind.startswith("DDPM"):
        made = _ddpm(ready)
    elif kind.startswith("DDIM"):
        made = _ddim(ready, float(options.get("eta", 0.0)), bool(options.get("use_clipped_model_output", False)))
    else:
        made = _euler_ancestral(ready)
    return made.beginning_at(first)


@final
class _Known:
    """What the latest schedulers were found to do, by all that is in them: pipelines ask in every call, and trying a
    scheduler takes seconds."""

    def __init__(self, most: int = 8) -> None:
        self.most = most
        self._recipes: dict[object, Recipe] = {}

    def recipe(self, ready: Any, options: Options, first: int) -> Recipe:
        try:
            key = type(ready), _methods(ready), first, _contents(vars(ready)), _contents(options)
        except TypeError:  # there is something in it that cannot be compared: it is read each time
            return _read(ready, options, first)
        found = self._recipes.pop(key, None) or _read(ready, options, first)
        self._recipes[key] = found
        for old in [*self._recipes][: -self.most]:
            self._recipes.pop(old, None)
        return found


_KNOWN = _Known()


def _methods(scheduler: Any) -> tuple[Any, ...]:
    kinds = type(scheduler).__mro__
    return tuple(entry for kind in kinds for entry in vars(kind).values() if isinstance(entry, types.FunctionType))


def _contents(value: Any) -> object:
    """Equal for equal numbers and texts."""
    if isinstance(value, torch.Tensor | np.ndarray):
        numbers = torch.as_tensor(value).cpu().contiguous()
        return str(numbers.dtype), tuple(numbers.shape), numbers.flatten().view(torch.uint8).numpy().tobytes()
    if isinstance(value, Mapping):
        return tuple((name, _contents(entry)) for name, entry in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_contents, value))
    if value is None or isinstance(value, bool | int | float | str | torch.device | torch.dtype):
        return type(value), repr(value)
    raise TypeError(f"{type(value).__name__} cannot be compared")


def _check_options(kind: str, scheduler: Any, options: Options) -> None:
    known = set(inspect.signature(scheduler.step).parameters) - _GIVEN
    if unknown := sorted(set(options) - known):
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise InputError(f"{', '.join(unknown)} is no option of {kind}.step ({takes}); leave it out")


_GIVEN = {
    *("model_output", "timestep", "sample", "generator", "return_dict", "variance_noise", "noise"),
    *("old_pred_original_sample", "timestep_back", "pred_original_sample", "per_token_timesteps", "predict_epsilon"),
}
"""Arguments of `step` that are no setting of it."""


def _converted(plan: Plan, prediction_type: str) -> Conversion:
    check_signal(prediction_type, plan.signal[:-1])
    return Conversion.of(prediction_type, plan.signal[:-1], plan.noise[:-1])


def _check_settings(kind: str, fresh: Any) -> None:
    config = fresh.config
    for name, parameter in inspect.signature(type(fresh).__init__).parameters.items():
        value = getattr(config, name, parameter.default)
        if name not in {"self", *_SETTINGS[kind]} and value != parameter.default:
            raise InputError(f"{kind} has a setting {name}={value!r} that is not supported; leave it out")
    _one_of("timestep_spacing", config, _SPACINGS)
    _one_of(
        "prediction_type", config, _PREDICTIONS if "clip_sample" in _SETTINGS[kind] else ("epsilon", "v_prediction")
    )
    if "variance_type" in _SETTINGS[kind]:
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
        plan = replace(plan, s=_ROOM * plan.s, spread=LearnedVariance())
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
