"""Schedulers read by trying them: whatever `step` does, it is linear in what goes in, or it is refused.

A scheduler is taken through its timesteps with random states, outputs and noise, many at once as the entries of one
tensor, small numbers and large ones. Least squares then tell x' = A x + B m + C m_before + S xi, m the prediction of
the data that state and output stand for; what is left over must be nothing, for the small and for the large. Noise is
put in its way where it calls for it, and casts to fewer digits are passed over, so the coefficients come out in
float64.

Two things are not linear, and are looked for where the scheduler's config names them: predictions that are clipped or
thresholded, which are one more column of numbers; and noise whose size is read from the network's output.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from drawahead.diffusers.networks import learns_variance
from drawahead.diffusers.schedulers.recipe import Clip, Conversion, Limit, Recipe, check_signal
from drawahead.diffusers.schedulers.supply import Supplied, in_float64, levels_of, scales_of
from drawahead.errors import InputError
from drawahead.schedules import LearnedRange, LearnedVariance, Plan, Spread, Threshold

ENTRIES = (4, 1, 4, 4)  # of a trial, in rows of small numbers and of large ones, by turns
LARGE = 37.0  # the size of these
LEFT = 1e-8  # of a step, that need not be explained
_SAME = 1e-10  # of a column, that the ones before it do not hold
_NO_NOISE = 1e-9  # of a step: what some add so that no logarithm is that of zero
_HEADROOM = 0.5  # how far below its range, in ranges, a learned log variance may lie before a step is drawn by itself
_ROOM = 0.5  # a learned variance is expected above this share of the posterior's, in standard deviations

Options = Mapping[str, Any]


@dataclass(frozen=True)
class _Trials:
    """What went into N steps, and what came out: float64 of shape (N, *ENTRIES)."""

    x: Tensor
    output: Tensor  # with twice the channels, where a variance is read from it
    noises: list[Tensor]
    after: Tensor
    data: Tensor | None  # what the scheduler says it takes for a prediction of the data


def probe(make: Callable[[], Any], first: int, options: Options) -> Recipe:
    """The steps, from number `first` on, of schedulers as `make` makes them, ready to step."""
    ready = in_float64(make())
    kind, time = type(ready).__name__, ready.timesteps[first:]
    limit = _limit(ready.config)
    try:
        signal, noise = levels_of(ready, time)
        if getattr(ready.config, "prediction_type", None) == "epsilon":
            check_signal("epsilon", signal[:-1])
        start = float(getattr(make(), "init_noise_sigma", 1.0))
        scale = scales_of(make(), range(first, first + len(time)))
        trials = _run(in_float64(make()), first, options, LARGE * max(1.0, getattr(limit, "most", 1.0)))
    except InputError:
        raise
    except Exception as error:  # any: it is the scheduler's
        raise InputError(f"{kind} cannot be stepped through its timesteps: {error}") from error
    spread = _spread(trials) if learns_variance(ready) else None
    if spread is not None:
        trials = _sized(trials, spread)
    conversion = _conversion(ready, trials, (signal, noise), scale)
    table, fits = _solved(trials, conversion, None)
    if limit is not None and not bool(fits.all()):
        table, fits = _solved(trials, conversion, limit)
    else:
        limit = None
    if not bool(fits.all()):
        raise InputError(_complaint(ready, first + int((~fits).nonzero()[0])))
    a, free, limited, c = table[:4]
    s = table[4:].norm(dim=0)
    s = torch.where(s > _NO_NOISE, s, 0.0)
    b = free + limited
    # Where the last step leads, if what it predicts is the data.
    signal[-1] = a[-1] * signal[-2] + b[-1] + c[-1]
    noise[-1] = torch.hypot(a[-1] * noise[-2], s[-1])
    plan = Plan(a, b, s, signal, noise, time, start, c=c if bool(c.any()) else None)
    if spread is not None:
        plan = replace(plan, s=torch.where(s > 0, _floor(plan, spread), 0.0), spread=spread)
    if limit is None or not bool(free.any()):
        return Recipe(plan, conversion, limit)
    # Steps use the prediction both as it came and limited. B is zero, but for rounding, where one goes nowhere.
    size = torch.where(b.abs() > 1e-12 * limited.abs(), b, 1.0)
    return Recipe(replace(plan, b=size), conversion, limit, (b / size, limited / size))


def _solved(trials: _Trials, conversion: Conversion, limit: Limit | None) -> tuple[Tensor, Tensor]:
    """The coefficients (4 or more, N) of the state; of the prediction, as it came and limited; of the one before; and
    of noise. And whether they are all there is to a step (N,)."""
    skip, out = (part.view(-1, 1, 1, 1, 1) for part in (conversion.skip, conversion.out))
    data = skip * trials.x + out * trials.output
    limited = torch.zeros_like(data) if limit is None else limit(data.flatten(3)).view_as(data)
    before = (data if limit is None else limited).roll(1, 0).index_fill(0, torch.tensor(0), 0.0)
    table, fits = least_squares([trials.x, data, limited, before, *trials.noises], trials.after)
    both = table[1] * table[3] != 0  # limited predictions were before: a step that looks back uses no others
    return table, fits & ~both if limit is not None else fits


def least_squares(columns: list[Tensor], goal: Tensor) -> tuple[Tensor, Tensor]:
    """The coefficients (len(columns), N) of tensors (N, rows, ...), and whether they leave nothing over, in any row
    (N,). By Gram and Schmidt: what LAPACK answers changes in the last digit from call to call."""
    rows = goal.flatten(2).norm(dim=2)[..., None].clamp(min=1e-300)
    goal = (goal.flatten(2) / rows).flatten(1)
    table = [(column.flatten(2) / rows).flatten(1) for column in columns]
    width = torch.stack([column.norm(dim=1) for column in table]).clamp(min=1e-300)
    table = [column / size[:, None] for column, size in zip(table, width, strict=True)]
    basis = list[Tensor]()
    r = torch.zeros(len(table), len(table), len(goal), dtype=torch.float64)
    for j, column in enumerate(table):
        for i, direction in enumerate(basis):
            r[i, j] = (direction * column).sum(1)
            column = column - r[i, j, :, None] * direction
        r[j, j] = column.norm(dim=1)
        basis.append(torch.where(r[j, j] > _SAME, 1 / r[j, j], 0.0)[:, None] * column)
    share, left = torch.zeros_like(width), goal
    for _ in range(2):  # once more, for what rounding has left
        part = torch.zeros_like(width)
        along = list[Tensor]()
        for direction in basis:
            along.append((direction * left).sum(1))
            left = left - along[-1][:, None] * direction
        for i in reversed(range(len(basis))):
            part[i] = torch.where(r[i, i] > _SAME, (along[i] - (r[i, i + 1 :] * part[i + 1 :]).sum(0)) / r[i, i], 0.0)
        share = share + part
        left = goal - sum(size[:, None] * column for size, column in zip(share, table, strict=True))
    fits = (left.view(*rows.shape[:2], -1).norm(dim=2) <= LEFT).all(1)
    # A part of a step that is nothing but rounding is none.
    return torch.where(share.abs() > 1e-12 * share.abs().amax(0), share, 0.0) / width, fits


def _spread(trials: _Trials) -> Spread:
    """How the size of noise is read from the network's output: seen in the third row, which holds nothing else."""
    noise = sum(trials.noises, torch.zeros_like(trials.x))
    after, noise, read = trials.after[:, 2:3], noise[:, 2:3], trials.output[:, 2:3, 1:]
    noisy = noise != 0
    variance = torch.where(noisy, (after / noise) ** 2, 1.0)
    if bool(noisy.any()) and bool(((variance - read).abs() <= LEFT)[noisy].all()):
        return LearnedVariance()
    (middle, slope), _ = least_squares([torch.ones_like(read), read], variance.log())
    return LearnedRange(middle - slope, middle + slope)


def _sized(trials: _Trials, spread: Spread) -> _Trials:
    """With noise of the size that is read from the output, and the output without that."""
    output, read = trials.output.tensor_split(2, dim=2)
    size = spread.scale(spread.read(read.flatten(1)), torch.arange(len(read))).view_as(read)
    return replace(trials, output=output, noises=[size * noise for noise in trials.noises])


def _floor(plan: Plan, spread: Spread) -> Tensor:
    """A standard deviation below what the network is expected to answer. Any number above zero is exact: a step whose
    answer lies below it is drawn by itself."""
    if isinstance(spread, LearnedRange):
        return spread.below(_HEADROOM)
    here, after = plan.signal[:-1] ** 2, (plan.a * plan.signal[:-1] + plan.b) ** 2
    beta = 1 - here / after
    posterior = beta * (1 - after) / (1 - here)
    return _ROOM * torch.where(posterior > _NO_NOISE, posterior, beta).sqrt()


def stepped(scheduler: Any, output: Tensor, k: int, x: Tensor, old: Tensor | None, options: Options) -> Any:
    """One call of `step`, as pipelines make it."""
    time = scheduler.timesteps
    if "old_pred_original_sample" in inspect.signature(scheduler.step).parameters:
        return scheduler.step(output, old, time[k], time[k - 1] if old is not None else None, x, **options)
    return scheduler.step(output, time[k], x, **options)


def _run(scheduler: Any, first: int, options: Options, large: float) -> _Trials:
    generator, learned = torch.Generator(), learns_variance(scheduler)
    kind, steps = type(scheduler).__name__, len(scheduler.timesteps)
    size = torch.tensor([1.0, large] * 2, dtype=torch.float64).view(-1, 1, 1, 1)

    def drawn() -> Tensor:
        return size * torch.randn(ENTRIES, dtype=torch.float64, generator=generator)

    def supply(shape: tuple[int, ...]) -> Tensor:
        if shape != ENTRIES:
            raise InputError(f"{kind} draws noise of another shape than the state's")
        with torch._C.DisableTorchFunction():
            noises.append(drawn())
        return noises[-1]

    told, noised, old = list[tuple[Any, ...]](), list[list[Tensor]](), None
    for k in range(first, steps):
        generator.manual_seed(k)  # so that a step is the same, wherever the first one is
        x, output = drawn(), drawn()
        if learned:
            x[2], output[2] = 0.0, 0.0
            output = torch.cat([output, torch.rand(ENTRIES, dtype=torch.float64, generator=generator)], dim=1)
        noises: list[Tensor] = []
        with Supplied(supply):
            if hasattr(scheduler, "scale_model_input"):
                scheduler.scale_model_input(x, scheduler.timesteps[k])
            answer = stepped(scheduler, output.clone(), k, x.clone(), old, options)
        data = old = _data(scheduler, answer)
        if not isinstance(answer[0], Tensor) or answer[0].shape != ENTRIES or not answer[0].is_floating_point():
            raise InputError(f"a step of {kind} does not lead from a state to a state")
        if not bool(answer[0].isfinite().all()):
            raise InputError(
                f"{kind} itself answers what is not finite at step {k} of {steps}, as where a timestep comes twice: "
                f"use another number of steps or another timestep_spacing{_said(scheduler, options)}"
            )
        told.append((x, output, answer[0], data))
        noised.append(noises)
    x, output, after, data = zip(*told, strict=True)
    none = torch.zeros(ENTRIES, dtype=torch.float64)
    return _Trials(
        torch.stack(x),
        torch.stack(output),
        [torch.stack(each) for each in itertools.zip_longest(*noised, fillvalue=none)],
        torch.stack(after),
        None if any(each is None for each in data) else torch.stack(data),
    )


def _said(scheduler: Any, options: Options) -> str:
    """Other settings that may be why."""
    variance = getattr(scheduler.config, "variance_type", None)
    settings = ({} if variance is None else {"variance_type": variance}) | dict(options)
    return "".join(f", or another {name} than {value!r}" for name, value in settings.items())


def _data(scheduler: Any, answer: Any) -> Tensor | None:
    """What a step has taken for a prediction of the data, where it tells, or at least what it will look back at."""
    outputs = getattr(scheduler, "model_outputs", None)
    prediction = outputs[-1] if outputs else getattr(answer, "pred_original_sample", None)
    if prediction is None and isinstance(answer, tuple) and len(answer) > 1:
        prediction = answer[1]
    return prediction if isinstance(prediction, Tensor) and prediction.shape == ENTRIES else None


def _limit(config: Any) -> Limit | None:
    """What the config says is done to predictions."""
    if getattr(config, "thresholding", False):
        return Threshold(config.dynamic_thresholding_ratio, config.sample_max_value)
    if getattr(config, "clip_sample", False):
        return Clip(float(getattr(config, "clip_sample_range", 1.0)))
    return None


def _conversion(scheduler: Any, trials: _Trials, levels: tuple[Tensor, Tensor], scale: Tensor) -> Conversion:
    """What the scheduler itself takes for the data where it tells it, and else what its config says."""
    if trials.data is not None:
        (skip, out), fits = least_squares([trials.x, trials.output], trials.data)
        if bool((fits & (out != 0)).all()):
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


def _complaint(scheduler: Any, k: int) -> str:
    kind, config = type(scheduler).__name__, scheduler.config
    limits = [name for name in ("thresholding", "clip_sample") if getattr(config, name, False)]
    reason = "it looks back more than one output, or bends what goes in"
    if getattr(scheduler, "order", 1) == 2:
        reason = "it calls the network twice for a step, which da.adapters.from_diffusers follows and pipelines do not"
    elif limits:
        reason = f"{limits[0]}=True bends it; switch that off"
    return (
        f"{kind} cannot be followed exactly: step {k} is not linear in the state, the model's output, the one "
        f"before it and noise ({reason}). Schedulers that can be: DDPM, DDIM, EulerAncestral, or DPMSolverMultistep "
        "with algorithm_type='sde-dpmsolver++' and solver_order up to 2, all with from_config"
    )
