"""What is taken from a diffusers scheduler: its settings and its tables, never its `step`.

They are read from a fresh scheduler with the same config, so that nothing done to the given one matters and nothing
is done to it. The tables hold float32 numbers; everything worked out from them is float64.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.schedules import EulerAncestral, Plan, Threshold, ddim_steps, ddpm_steps
from drawahead.validate import whole

_LADDER = {
    *("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas", "rescale_betas_zero_snr"),
    *("prediction_type", "timestep_spacing", "steps_offset"),
}
_LIMITS = {"clip_sample", "clip_sample_range", "thresholding", "dynamic_thresholding_ratio", "sample_max_value"}
_SETTINGS = {
    "DDPMScheduler": _LADDER | _LIMITS | {"variance_type"},
    "DDIMScheduler": _LADDER | _LIMITS | {"set_alpha_to_one"},
    "EulerAncestralDiscreteScheduler": _LADDER,
}
_SPACINGS = ("leading", "linspace", "trailing")
_PREDICTIONS = ("epsilon", "sample", "v_prediction")
_VARIANCES = ("fixed_small", "fixed_small_log", "fixed_large")

Limit = Callable[[Tensor], Tensor]
"""What is done to predictions of the data (m, d): clipping or thresholding."""


@dataclass(frozen=True)
class Clip:
    """Predictions held between -most and most."""

    most: float

    def __call__(self, prediction: Tensor) -> Tensor:
        return prediction.clamp(-self.most, self.most)


@dataclass(frozen=True, eq=False)
class Recipe:
    """A scheduler's steps."""

    plan: Plan
    prediction_type: str
    limit: Limit | None = None
    gains: tuple[Tensor, Tensor] | None = None
    """Where a step uses the prediction both as it came and limited, it is given gains[0] * as it came + gains[1] *
    (limited - as it came), each (N,). None: it is given the limited one."""


def recipe(scheduler: Any, num_inference_steps: int | None, eta: float, use_clipped_model_output: bool) -> Recipe:
    """The steps of a scheduler, or an InputError that names the setting that stands against it."""
    kind = type(scheduler).__name__
    if kind not in _SETTINGS:
        raise InputError(f"scheduler must be one of {', '.join(_SETTINGS)}, not {kind}: convert it with from_config")
    if (eta or use_clipped_model_output) and kind != "DDIMScheduler":
        raise InputError(f"eta and use_clipped_model_output belong to DDIMScheduler; leave them out for {kind}")
    fresh = type(scheduler).from_config(scheduler.config)
    _check_settings(kind, fresh)
    steps = _set_timesteps(fresh, num_inference_steps)
    if kind == "DDPMScheduler":
        made = _ddpm(fresh)
    elif kind == "DDIMScheduler":
        made = _ddim(fresh, steps, eta, use_clipped_model_output)
    else:
        made = _euler_ancestral(fresh)
    if made.prediction_type == "epsilon" and not bool(made.plan.signal[:-1].all()):
        raise InputError(
            "rescale_betas_zero_snr leaves no signal at the first timestep, where the data cannot be told from "
            "prediction_type='epsilon': use a model with 'v_prediction' or 'sample', or timestep_spacing='leading'"
        )
    return made


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
        if config.variance_type in ("learned", "learned_range"):
            raise InputError(
                f"variance_type={config.variance_type!r} gives draft and target different covariances, which is not "
                "supported: wrap the model in a callable that returns the mean's channels alone, with a scheduler of "
                "variance_type='fixed_small' or 'fixed_large'"
            )
        _one_of("variance_type", config, _VARIANCES)


def _one_of(name: str, config: Any, supported: tuple[str, ...]) -> None:
    if getattr(config, name) not in supported:
        raise InputError(f"{name}={getattr(config, name)!r} is not supported; use one of {', '.join(supported)}")


def _set_timesteps(fresh: Any, num_inference_steps: int | None) -> int:
    training = whole("num_train_timesteps", fresh.config.num_train_timesteps, 1)
    steps = training if num_inference_steps is None else whole("num_inference_steps", num_inference_steps, 1)
    if steps > training:
        raise InputError(f"num_inference_steps must be at most {training}, the number of training timesteps")
    fresh.set_timesteps(steps)
    if int(fresh.timesteps.min()) < 0 or int(fresh.timesteps.max()) >= training:
        raise InputError(
            f"num_inference_steps={steps} with timestep_spacing={fresh.config.timestep_spacing!r} and steps_offset="
            f"{fresh.config.steps_offset} visits timesteps outside 0 ... {training - 1}; use another number of steps"
        )
    return steps


def _ddpm(fresh: Any) -> Recipe:
    time, config, abar = fresh.timesteps, fresh.config, fresh.alphas_cumprod.double()
    end = torch.tensor([int(fresh.previous_timestep(t)) for t in time])
    after = torch.where(end >= 0, abar[end.clamp(min=0)], 1.0)
    # The scheduler adds noise at every timestep but 0, also where the next state is the data itself.
    plan = ddpm_steps(time, abar[time], after, time > 0, large_variance=config.variance_type == "fixed_large")
    return Recipe(plan, config.prediction_type, _limit(config))


def _ddim(fresh: Any, steps: int, eta: float, use_clipped_model_output: bool) -> Recipe:
    if eta < 0:
        raise InputError(f"eta must not be negative, not {eta}")
    time, config, abar = fresh.timesteps, fresh.config, fresh.alphas_cumprod.double()
    # The scheduler goes a fixed number of timesteps, and need not end where the next step sets out from.
    end = time - config.num_train_timesteps // steps
    after = torch.where(end >= 0, abar[end.clamp(min=0)], fresh.final_alpha_cumprod.double())
    plan, limit = ddim_steps(time, abar[time], after, eta), _limit(config)
    if limit is None or use_clipped_model_output:
        return Recipe(plan, config.prediction_type, limit)
    # Here the data is limited but the noise is not. With m the prediction as it came and e = (x - sqrt(here) m) /
    # sqrt(1 - here), the mean is sqrt(after) limited + kept e = A x + B m + sqrt(after) (limited - m).
    # B is zero where a step goes nowhere.
    b = torch.where(plan.b > 0, plan.b, 1.0)
    return Recipe(replace(plan, b=b), config.prediction_type, limit, (plan.b / b, after.sqrt() / b))


def _euler_ancestral(fresh: Any) -> Recipe:
    plan = EulerAncestral(tuple(fresh.sigmas.double().tolist())).plan()
    plan = replace(plan, time=fresh.timesteps, start=float(fresh.init_noise_sigma))
    return Recipe(plan, fresh.config.prediction_type)


def _limit(config: Any) -> Limit | None:
    if config.thresholding:
        return Threshold(config.dynamic_thresholding_ratio, config.sample_max_value)
    if config.clip_sample:
        return Clip(float(config.clip_sample_range))
    return None
