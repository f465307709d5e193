"""Ancestral loops of other packages: lucidrains' denoising-diffusion-pytorch, and OpenAI's guided-diffusion.

Both have an object whose `p_mean_variance` says what a step does with a network's output. It is read by what it does:
it is called with networks that answer chosen numbers, which gives the tables of all coefficients, the times that the
network is called with (after any respacing), and the variances. All of it is then confirmed on random numbers. The
chain asks the network itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.errors import InputError
from drawahead.oracles.condition import Condition
from drawahead.schedules import Given, LearnedRange, Plan, ddim_steps
from drawahead.science.rows import Tables
from drawahead.validate import as_shape, short

Step = Callable[[Any, Tensor, Tensor, bool], tuple[Tensor, Tensor, Tensor]]
"""(network, x, t, whether predictions are clipped) -> mean, log variance, predicted data."""
_HEADROOM = 0.5  # how far below its range, in ranges, a learned log variance may lie: see schedules.DDPM
_SLACK = 2e-3


@final
class _Answers(torch.nn.Module):
    """A network that always answers `output`, and remembers its other inputs."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output
        self.time: Tensor = torch.empty(0)
        self.rest: tuple[Any, ...] = ()

    def forward(self, x: Tensor, time: Tensor, *rest: Any, **more: Any) -> Tensor:
        self.time, self.rest = time, (*rest, *more.values())
        return self.output


@final
@dataclass(frozen=True, eq=False)
class _Tables:
    """x0 = p x + q output, mean = a x + b x0, from the noisy end; log variances that outputs of -1 and 1 stand for."""

    p: Tensor
    q: Tensor
    a: Tensor
    b: Tensor
    low: Tensor
    high: Tensor
    time: Tensor
    learned: bool
    more: int
    """Arguments behind the time, all of them None."""


def _read(step: Step, steps: int, shape: tuple[int, ...]) -> _Tables:
    t = torch.arange(steps - 1, -1, -1)
    zeros = torch.zeros(steps, *shape)
    learned, networks = _doubled(step, zeros, t), list[_Answers]()

    def ask(x: Tensor, output: Tensor, v: float = 0.0, *, clip: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        networks.append(_Answers(torch.cat([output, torch.full_like(output, v)], 1) if learned else output))
        mean, log, data = step(networks[-1], x, t, clip)
        return mean, log.expand_as(mean), data

    def one(values: Tensor) -> Tensor:
        return values.flatten(1)[:, 0].double()

    ones = zeros + 1
    mean, low, data = ask(zeros, ones, -1.0)
    q, b = one(data), one(mean) / one(data)
    p = one(ask(ones, zeros)[2])
    balanced = (-p / q).float().view(-1, *(1,) * len(shape)) * ones  # the output that predicts zero
    a = one(ask(ones, balanced)[0])
    high, network = one(ask(zeros, ones, 1.0)[1]), networks[0]
    if any(value is not None for value in network.rest):
        raise InputError("its network takes more inputs than x and t, so its steps cannot be sampled ahead")
    tables = _Tables(p, q, a, b, one(low), high, network.time, learned, len(network.rest))
    _confirm(tables, ask, zeros)
    return tables


def _doubled(step: Step, zeros: Tensor, t: Tensor) -> bool:
    """Whether the network has as many channels again, for variances."""
    wrong: Exception | None = None
    for learned in (False, True):
        try:
            mean, log, _ = step(_Answers(torch.cat([zeros, zeros], 1) if learned else zeros), zeros, t, False)
            if mean.shape == log.expand_as(mean).shape == zeros.shape:
                return learned
        except (AssertionError, RuntimeError, ValueError, TypeError) as error:
            wrong = wrong or error
    raise InputError(f"its p_mean_variance(x, t) cannot be read: {short(wrong)}")


def _confirm(tables: _Tables, ask: Callable[..., tuple[Tensor, ...]], zeros: Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    x, output = (torch.randn(zeros.shape, generator=generator) for _ in range(2))
    mean, log, data = ask(x, output, 0.3, clip=True)
    p, q, a, b, low, high = (
        getattr(tables, name).view(-1, *(1,) * (zeros.dim() - 1)) for name in ("p", "q", "a", "b", "low", "high")
    )
    predicted = (p * x + q * output).clamp(-1, 1)
    size = 1e-6 * (p.abs() + q.abs()) * 8  # what float32 loses before it is clipped
    right = (data - predicted).abs() <= _SLACK + size
    right &= (mean - (a * x + b * predicted)).abs() <= _SLACK + b * size
    right &= (log - (low + (0.3 + 1) / 2 * (high - low))).abs() <= _SLACK * (1 + log.abs())
    if not bool(right.all()):
        k = int((~right).flatten(1).any(1).nonzero()[0])
        raise InputError(
            f"step {k} is not linear in x and in the network's clipped prediction: it cannot be drawn ahead; "
            "give a chain of your own steps (da.GaussianChain with da.schedules.Given)"
        )


@final
class _Prediction:
    """The denoiser: the network's output as data, clipped as the loop clips it; the last one as the loop returns it."""

    def __init__(self, network: Any, tables: _Tables, clip: bool, last: Callable[[Tensor], Tensor]) -> None:
        self.network, self.clip, self.last, self.more = network, clip, last, tables.more
        self.tables = Tables(tables.p, tables.q, tables.time)

    def __call__(self, x: Tensor, k: Tensor, **given: Tensor) -> Tensor:
        p, q, time = self.tables[x.device]
        output = self.network(x, time[k], *[None] * self.more, **given)
        data, rest = output.double().tensor_split([x.shape[1]], dim=1)
        scale = [table[k].view(-1, *(1,) * (x.dim() - 1)) for table in (p, q)]
        data = scale[0] * x.double() + scale[1] * data
        data = data.clamp(-1, 1) if self.clip else data
        data = torch.where((k == len(p) - 1).view_as(scale[0]), self.last(data), data)
        return torch.cat([data, rest], 1)


def _same(data: Tensor) -> Tensor:
    return data


def _planned(tables: _Tables, abar: Any) -> Plan:
    """The last step has no noise. The distribution does not depend on `abar`, signals squared from the clean end."""
    noisy = torch.arange(len(tables.a)) < len(tables.a) - 1
    levels = torch.cat([torch.as_tensor(abar).double().cpu().flip(0), torch.ones(1, dtype=torch.float64)])
    spread = LearnedRange(tables.low, tables.high) if tables.learned else None
    scale = (tables.low / 2).exp() if spread is None else spread.below(_HEADROOM)
    return Plan(
        tables.a, tables.b, scale * noisy, levels.sqrt(), (1 - levels).sqrt(), tables.time, start=1.0, spread=spread
    )


def from_denoising_diffusion(diffusion: Any, *, device: torch.device | str | None = None) -> GaussianChain:
    """A `GaussianDiffusion` of denoising-diffusion-pytorch: the samples of its `sample()`, 0 to 1 if it normalises.

    Any objective and schedule, learned variances, DDPM or (with fewer sampling timesteps, and an eta above 0) DDIM. A
    self-conditioned network needs its own last prediction as an input, which steps sampled ahead do not have: it raises
    an error.
    """
    for name in ("model", "p_mean_variance", "num_timesteps", "alphas_cumprod", "channels", "unnormalize"):
        if not hasattr(diffusion, name):
            raise InputError(f"diffusion must be a GaussianDiffusion of denoising-diffusion-pytorch: it has no {name}")
    if getattr(diffusion, "self_condition", False):
        raise InputError("a self-conditioned network needs its last prediction first: no step can be sampled ahead")
    size = getattr(diffusion, "image_size", None) or getattr(diffusion, "seq_length", None)
    sides = tuple(size) if isinstance(size, tuple | list) else (size,) * (2 if hasattr(diffusion, "image_size") else 1)
    shape = as_shape("image_size", (diffusion.channels, *sides))
    device = diffusion.betas.device if device is None else device
    probed = copy.deepcopy({name: value for name, value in vars(diffusion).items() if name != "_modules"})

    def step(network: Any, x: Tensor, t: Tensor, clip: bool) -> tuple[Tensor, Tensor, Tensor]:
        twin = copy.copy(diffusion)  # with another network; the object itself stays as it is
        vars(twin).update(probed | {"_modules": dict(diffusion._modules) | {"model": network}})
        mean, _, log, data = twin.cpu().p_mean_variance(x=x, t=t, clip_denoised=clip)
        return mean, log, data

    tables = _read(step, diffusion.num_timesteps, shape)
    plan = _planned(tables, diffusion.alphas_cumprod)
    if getattr(diffusion, "is_ddim_sampling", False):
        plan, tables = _spaced(diffusion, tables)
    denoiser = _Prediction(diffusion.model, tables, True, diffusion.unnormalize)
    return GaussianChain(denoiser, Given(plan), shape, device=device)


def _spaced(diffusion: Any, tables: _Tables) -> tuple[Plan, _Tables]:
    """DDIM on the timesteps that its `ddim_sample` visits."""
    steps, eta = diffusion.sampling_timesteps, float(diffusion.ddim_sampling_eta)
    if not eta:
        raise InputError(
            "its ddim_sampling_eta is 0, so no step has noise and none can be drawn ahead: set it above 0, or "
            "sampling_timesteps to all"
        )
    visited = torch.linspace(-1, diffusion.num_timesteps - 1, steps=steps + 1).int().flip(0)[:-1].long()
    here = diffusion.alphas_cumprod.double().cpu()[visited]
    plan = ddim_steps(visited, here, torch.cat([here[1:], torch.ones(1, dtype=torch.float64)]), eta)
    kept = {name: getattr(tables, name).flip(0)[visited] for name in ("p", "q", "a", "b", "low", "high", "time")}
    return Plan(**{**vars(plan), "time": kept["time"]}), _Tables(**kept, learned=False, more=tables.more)


def from_guided_diffusion(
    diffusion: Any,
    network: Any,
    shape: Sequence[int],
    *,
    clip_denoised: bool = True,
    condition: Condition = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> GaussianChain:
    """A `GaussianDiffusion` or `SpacedDiffusion` of guided-diffusion or improved-diffusion: its `p_sample_loop`.

    What the network predicts, learned ranges, respaced and rescaled timesteps are all read from the object. The network
    is called `network(x, t, **condition)`.
    """
    for name in ("p_mean_variance", "num_timesteps", "alphas_cumprod"):
        if not hasattr(diffusion, name):
            raise InputError(f"diffusion must be a GaussianDiffusion of guided-diffusion: it has no {name}")
    shape = as_shape("shape", shape)

    def step(answers: Any, x: Tensor, t: Tensor, clip: bool) -> tuple[Tensor, Tensor, Tensor]:
        law = diffusion.p_mean_variance(answers, x, t, clip_denoised=clip)
        return law["mean"], law["log_variance"], law["pred_xstart"]

    tables = _read(step, diffusion.num_timesteps, shape)
    denoiser, plan = _Prediction(network, tables, clip_denoised, _same), _planned(tables, diffusion.alphas_cumprod)
    return GaussianChain(denoiser, Given(plan), shape, condition=condition, dtype=dtype, device=device)
