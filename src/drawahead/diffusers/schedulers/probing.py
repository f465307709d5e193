"""Schedulers read by trying them: whatever `step` does, it is linear in what goes in, or it is refused.

A scheduler is taken through its timesteps with random states, outputs and noise, many at once as the entries of one
tensor. Least squares then tell x' = A x + B m + C m_before + S xi, m the prediction of the data that state and output
stand for; what is left over must be nothing, there and for numbers of another size. Noise is put in its way where it
calls for it, and casts to fewer digits are passed over, so the coefficients come out in float64.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drawahead.diffusers.schedulers.recipe import Conversion, Recipe, check_signal
from drawahead.diffusers.schedulers.supply import Supplied, in_float64, levels_of, scales_of
from drawahead.errors import InputError
from drawahead.schedules import Plan

ENTRIES = (1, 1, 8, 8)  # of a trial
LARGE = 37.0  # the size of the numbers that check it
LEFT = 1e-8  # of a step, that need not be explained

Options = Mapping[str, Any]


@dataclass(frozen=True)
class _Trial:
    """What went into a step, and what came out, flat float64."""

    x: Tensor
    output: Tensor
    noises: list[Tensor]
    after: Tensor
    data: Tensor | None  # what the scheduler says it takes for a prediction of the data


def probe(make: Callable[[], Any], first: int, options: Options) -> Recipe:
    """The steps, from number `first` on, of schedulers as `make` makes them, ready to step."""
    ready = in_float64(make())
    kind, time = type(ready).__name__, ready.timesteps[first:]
    try:
        levels = levels_of(ready, time)
        start = float(getattr(make(), "init_noise_sigma", 1.0))
        scale = scales_of(make(), range(first, first + len(time)))
        trials = _run(in_float64(make()), first, options, 1.0)
        checks = _run(in_float64(make()), first, options, LARGE)
    except InputError:
        raise
    except Exception as error:  # any: it is the scheduler's
        raise InputError(f"{kind} cannot be stepped through its timesteps: {error}") from error
    conversion = _conversion(ready, trials, levels, scale)
    skip, out = conversion.skip, conversion.out
    rows: list[tuple[float, float, float, float]] = []
    before: Tensor | None = None
    large_before: Tensor | None = None
    for k, (trial, check) in enumerate(zip(trials, checks, strict=True)):
        data, large = skip[k] * trial.x + out[k] * trial.output, skip[k] * check.x + out[k] * check.output
        solution = _solved(trial, data, before)
        if solution is None or not _explains(solution, check, large, large_before):
            raise InputError(_complaint(ready, k, int(first)))
        a, b, c, noises = solution
        rows.append((a, b, c, float(torch.tensor(noises, dtype=torch.float64).norm()) if noises else 0.0))
        before, large_before = data, large
    a, b, c, s = torch.tensor(rows, dtype=torch.float64).T.contiguous()
    signal, noise = levels
    plan = Plan(a, b, s, signal, noise, time, start, c=c if bool(c.any()) else None)
    return Recipe(plan, conversion)


def stepped(scheduler: Any, output: Tensor, k: int, x: Tensor, old: Tensor | None, options: Options) -> Any:
    """One call of `step`, as pipelines make it."""
    time = scheduler.timesteps
    if "old_pred_original_sample" in inspect.signature(scheduler.step).parameters:
        return scheduler.step(output, old, time[k], time[k - 1] if old is not None else None, x, **options)
    return scheduler.step(output, time[k], x, **options)


def _run(scheduler: Any, first: int, options: Options, size: float) -> list[_Trial]:
    generator = torch.Generator().manual_seed(int(size))
    noises: list[Tensor] = []

    def drawn(shape: tuple[int, ...] = ENTRIES) -> Tensor:
        return size * torch.randn(shape, dtype=torch.float64, generator=generator)

    def supply(shape: tuple[int, ...]) -> Tensor:
        if shape != ENTRIES:
            raise InputError(f"{type(scheduler).__name__} draws noise of another shape than the state's")
        with torch._C.DisableTorchFunction():
            noises.append(drawn())
        return noises[-1]

    trials, old = [], None
    for k in range(first, len(scheduler.timesteps)):
        x, output = drawn(), drawn()
        noises = []
        with Supplied(supply):
            if hasattr(scheduler, "scale_model_input"):
                scheduler.scale_model_input(x, scheduler.timesteps[k])
            answer = stepped(scheduler, output.clone(), k, x.clone(), old, options)
        data = old = _data(scheduler, answer)
        if not isinstance(answer[0], Tensor) or answer[0].shape != ENTRIES or not answer[0].is_floating_point():
            raise InputError(f"a step of {type(scheduler).__name__} does not lead from a state to a state")
        if not bool(answer[0].isfinite().all()):
            raise InputError(
                f"{type(scheduler).__name__} itself answers what is not finite at step {k} of "
                f"{len(scheduler.timesteps)}, as where a timestep comes twice: use another number of steps or another "
                "timestep_spacing"
            )
        flat = [part.flatten() for part in noises]
        trials.append(
            _Trial(x.flatten(), output.flatten(), flat, answer[0].flatten(), None if data is None else data.flatten())
        )
    return trials


def _data(scheduler: Any, answer: Any) -> Tensor | None:
    """What a step has taken for a prediction of the data, where it tells, or at least what it will look back at."""
    outputs = getattr(scheduler, "model_outputs", None)
    prediction = outputs[-1] if outputs else getattr(answer, "pred_original_sample", None)
    if prediction is None and isinstance(answer, tuple) and len(answer) > 1:
        prediction = answer[1]
    return prediction if isinstance(prediction, Tensor) and prediction.shape == ENTRIES else None


def _solved(trial: _Trial, data: Tensor, before: Tensor | None) -> tuple[float, float, float, list[float]] | None:
    columns = [trial.x, data, *([] if before is None else [before]), *trial.noises]
    solution = least_squares(columns, trial.after)
    if solution is None:
        return None
    c = 0.0 if before is None else solution[2]
    return solution[0], solution[1], c, solution[2 if before is None else 3 :]


def least_squares(columns: list[Tensor], goal: Tensor) -> list[float] | None:
    """The coefficients; None if they leave something over."""
    table = torch.stack(columns, dim=1)
    size = table.norm(dim=0).clamp(min=1e-300)
    share = torch.linalg.lstsq(table / size, goal[:, None]).solution[:, 0]
    if not bool((table / size @ share - goal).norm() <= LEFT * goal.norm()):
        return None
    # A part of a step that is nothing but rounding is none.
    share = torch.where(share.abs() > 1e-12 * share.abs().max(), share, 0.0)
    coefficients: list[float] = (share / size).tolist()
    return coefficients


def _explains(
    solution: tuple[float, float, float, list[float]], check: _Trial, data: Tensor, before: Tensor | None
) -> bool:
    a, b, c, noises = solution
    if len(noises) != len(check.noises):
        return False
    expected = a * check.x + b * data + (0.0 if before is None else c * before)
    expected = expected + sum(s * noise for s, noise in zip(noises, check.noises, strict=True))
    return bool((expected - check.after).norm() <= LEFT * check.after.norm())


def _conversion(scheduler: Any, trials: list[_Trial], levels: tuple[Tensor, Tensor], scale: Tensor) -> Conversion:
    """What the scheduler itself takes for the data where it tells it, and else what its config says."""
    prediction = [None if t.data is None else least_squares([t.x, t.output], t.data) for t in trials]
    if all(solution is not None and solution[1] for solution in prediction):
        skip, out = torch.tensor(prediction, dtype=torch.float64).T.contiguous()
        return Conversion(scale, skip, out)
    signal, noise = levels[0][:-1], levels[1][:-1]
    kind = getattr(scheduler.config, "prediction_type", None)
    kind = {"original_sample": "sample", None: "flow_prediction"}.get(kind, kind)
    if kind not in ("epsilon", "sample", "v_prediction", "flow_prediction"):
        raise InputError(f"prediction_type={kind!r} is not known; use epsilon, sample, v_prediction or flow_prediction")
    check_signal(kind, signal)
    made = Conversion.of(kind, signal, noise)
    if not bool(made.out.all()):  # without noise the state is the data, whatever the network says: take what it says
        made = Conversion(scale, torch.zeros_like(signal), torch.ones_like(signal))
    return Conversion(scale, made.skip, made.out)


def _complaint(scheduler: Any, k: int, first: int) -> str:
    kind, config = type(scheduler).__name__, scheduler.config
    limits = [name for name in ("thresholding", "clip_sample") if getattr(config, name, False)]
    reason = "it looks back more than one output, or bends what goes in"
    if getattr(scheduler, "order", 1) == 2:
        reason = "it calls the network twice for a step, which da.adapters.from_diffusers follows and pipelines do not"
    elif limits:
        reason = f"{limits[0]}=True bends it; switch that off"
    return (
        f"{kind} cannot be followed exactly: step {first + k} is not linear in the state, the model's output, the one "
        f"before it and noise ({reason}). Schedulers that can be: DDPM, DDIM, EulerAncestral, or DPMSolverMultistep "
        "with algorithm_type='sde-dpmsolver++' and solver_order up to 2, all with from_config"
    )
