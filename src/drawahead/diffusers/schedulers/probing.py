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

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from drawahead.diffusers.networks import learns_variance
from drawahead.diffusers.schedulers.recipe import Clip, Conversion, Limit, Recipe, check_signal
from drawahead.diffusers.schedulers.supply import LARGE, LEFT, Options, Trials, least_squares, levels_of, tried
from drawahead.errors import InputError
from drawahead.schedules import LearnedRange, LearnedVariance, Plan, Spread, Threshold

_NO_NOISE = 1e-9  # of a step: what some add so that no logarithm is that of zero
_HEADROOM = 0.5  # how far below its range, in ranges, a learned log variance may lie before a step is drawn by itself
_ROOM = 0.5  # a learned variance is expected above this share of the posterior's, in standard deviations


def probe(ready: Any, options: Options, first: int = 0) -> Recipe:
    """The steps, from number `first` on, of a scheduler whose timesteps are set. It is left as it is."""
    kind, time = type(ready).__name__, ready.timesteps[first:]
    limit = _limit(ready.config)
    try:
        signal, noise = levels_of(ready, time)
        if getattr(ready.config, "prediction_type", None) == "epsilon":
            check_signal("epsilon", signal[:-1])
        start = float(getattr(ready, "init_noise_sigma", 1.0))
        trials = tried(ready, first, options, LARGE * max(1.0, getattr(limit, "most", 1.0)))
    except InputError:
        raise
    except Exception as error:  # any: it is the scheduler's
        raise InputError(f"{kind} cannot be stepped through its timesteps: {error}") from error
    spread = _spread(trials) if learns_variance(ready) else None
    if spread is not None:
        trials = _sized(trials, spread)
    conversion = _conversion(ready, trials, signal[:-1], noise[:-1])
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
    end = a[-1] * signal[-2] + b[-1] + c[-1]  # where the last step leads, if what it predicts is the data
    if abs(end - 1) > _NO_NOISE and end >= signal[-2] - _NO_NOISE:  # or it is the noise: then this says nothing
        signal[-1], noise[-1] = end, torch.hypot(a[-1] * noise[-2], s[-1])
    plan = Plan(a, b, s, signal, noise, time, start, c=c if bool(c.any()) else None)
    if spread is not None:
        plan = replace(plan, s=torch.where(s > 0, _floor(plan, spread), 0.0), spread=spread)
    if limit is None or not bool(free.any()):
        return Recipe(plan, conversion, limit)
    # Steps use the prediction both as it came and limited. B is zero, but for rounding, where one goes nowhere.
    size = torch.where(b.abs() > 1e-12 * limited.abs(), b, 1.0)
    return Recipe(replace(plan, b=size), conversion, limit, (b / size, limited / size))


def _solved(trials: Trials, conversion: Conversion, limit: Limit | None) -> tuple[Tensor, Tensor]:
    """The coefficients (4 or more, N) of the state; of the prediction, as it came and limited; of the one before; and
    of noise. And whether they are all there is to a step (N,)."""
    skip, out = (part.view(-1, 1, 1, 1, 1) for part in (conversion.skip, conversion.out))
    data = skip * trials.x + out * trials.output
    limited = torch.zeros_like(data) if limit is None else limit(data.flatten(3)).view_as(data)
    before = (data if limit is None else limited).roll(1, 0).index_fill(0, torch.tensor(0), 0.0)
    table, fits = least_squares([trials.x, data, limited, before, *trials.noises], trials.after)
    both = table[1] * table[3] != 0  # limited predictions were before: a step that looks back uses no others
    return table, fits & ~both if limit is not None else fits


def _spread(trials: Trials) -> Spread:
    """How the size of noise is read from the network's output: seen in the third row, which holds nothing else."""
    noise = sum(trials.noises, torch.zeros_like(trials.x))
    after, noise, read = trials.after[:, 2:3], noise[:, 2:3], trials.output[:, 2:3, 1:]
    noisy = noise != 0
    variance = torch.where(noisy, (after / noise) ** 2, 1.0)
    if bool(noisy.any()) and bool(((variance - read).abs() <= LEFT)[noisy].all()):
        return LearnedVariance()
    (middle, slope), _ = least_squares([torch.ones_like(read), read], variance.log())
    return LearnedRange(middle - slope, middle + slope)


def _sized(trials: Trials, spread: Spread) -> Trials:
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


def _limit(config: Any) -> Limit | None:
    """What the config says is done to predictions."""
    if getattr(config, "thresholding", False):
        return Threshold(config.dynamic_thresholding_ratio, config.sample_max_value)
    if getattr(config, "clip_sample", False):
        return Clip(float(getattr(config, "clip_sample_range", 1.0)))
    return None


def _conversion(scheduler: Any, trials: Trials, signal: Tensor, noise: Tensor) -> Conversion:
    """What the scheduler itself takes for the data where it tells it, and else what its config says."""
    if trials.data is not None:
        (skip, out), fits = least_squares([trials.x, trials.output], trials.data)
        if bool((fits & (out != 0)).all()):
            return Conversion(trials.scale, skip, out)
    kind = getattr(scheduler.config, "prediction_type", None)
    kind = {"original_sample": "sample", None: "flow_prediction"}.get(kind, kind)
    if kind not in ("epsilon", "sample", "v_prediction", "flow_prediction"):
        raise InputError(f"prediction_type={kind!r} is not known; use epsilon, sample, v_prediction or flow_prediction")
    check_signal(kind, signal)
    made = Conversion.of(kind, signal, noise)
    if not bool(made.out.all()):  # without noise the state is the data, whatever the network says: take what it says
        return Conversion(trials.scale, torch.zeros_like(signal), torch.ones_like(signal))
    return Conversion(trials.scale, made.skip, made.out)


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
