"""Two Gaussian toys: x2 = x1 + a little noise, and a pair of laws that agree jointly and disagree conditionally."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drawahead.ardiffusion import (
    Conditionals,
    GaussianParts,
    MLPDenoiser,
    MLPEncoder,
    ModelConfig,
    Normal,
    Parts,
    Training,
    chain,
    law,
    sample,
    train,
)
from drawahead.samplers import Sequential
from drawahead.schedules import OUExponential

TWO, ONE = Parts((2,), (2,)), Parts.undivided((2,))


@dataclass(frozen=True)
class Plan:
    """How much is drawn and trained."""

    widths: tuple[float, ...]
    steps: tuple[int, ...]
    draws: int
    training: int
    seeds: int


FULL = Plan(widths=(0.3, 0.1, 0.03), steps=(16, 64, 256), draws=20_000, training=4000, seeds=3)
QUICK = Plan(widths=(0.3,), steps=(8,), draws=200, training=10, seeds=1)


def joint(width: float) -> Normal:
    """The law of (x1, x2): x1 ~ N(0, 1), x2 = x1 + N(0, width^2)."""
    return Normal(torch.zeros(2).double(), torch.tensor([[1.0, 1.0], [1.0, 1.0 + width**2]], dtype=torch.float64))


def schedule(steps: int, width: float) -> OUExponential:
    """Down to noise far below the width."""
    return OUExponential.even(steps, first=6.0, last=1e-3 * width**2)


def exact(width: float, steps: int, draws: int) -> dict[str, Any]:
    """The laws of both chains with exact answers and as many calls, in closed form, and drawn."""
    truth = joint(width)
    found: dict[str, Any] = {"width": width, "calls": 2 * steps, "draws": draws}
    for name, parts, count in (("auto-regressive", TWO, steps), ("joint", ONE, 2 * steps)):
        target = GaussianParts(truth.covariance, parts)
        drawn_law = law(chain(target, schedule(count, width)))
        difference = torch.tensor([-1.0, 1.0], dtype=torch.float64)
        samples = _drawn(target, draws, count, width, seed=0)
        found[name] = {
            "kl": truth.divergence(drawn_law),
            "spread": math.sqrt(float(difference @ drawn_law.covariance @ difference)) / width,
            "drawn_spread": _spread(samples, width),
            "standard_error": _spread(samples, width) / math.sqrt(2 * draws),
        }
    return found


def trained(width: float, seed: int, plan: Plan) -> dict[str, Any]:
    """Networks of about one size, trained alike: how wide x2 - x1 is in what they draw, in units of the truth."""
    source = torch.Generator().manual_seed(seed)
    first = torch.randn(20_000, 1, generator=source, dtype=torch.float64)
    data = torch.cat([first, first + width * torch.randn(20_000, 1, generator=source, dtype=torch.float64)], dim=1)
    levels = (-10.0, 14.0)
    configs = {
        "auto-regressive": ModelConfig(TWO, MLPEncoder(24, 1), MLPDenoiser(32, 2), levels),
        "joint": ModelConfig(ONE, None, MLPDenoiser(36, 2), levels),
    }
    found: dict[str, Any] = {"width": width, "seed": seed, "steps": plan.training}
    for name, config in configs.items():
        batch = 256 if name == "auto-regressive" else 512  # as many rows to denoise
        model = train(config, data, training=Training(steps=plan.training, batch=batch, seed=seed)).model
        samples = _drawn(model, plan.draws // 4, 200, width, seed)
        fit = Normal(samples.mean(0), torch.cov(samples.T))
        found[name] = {
            "parameters": model.size,
            "spread": _spread(samples, width),
            "kl": joint(width).divergence(fit),
            "deviation": float(samples[:, 0].std()),
        }
    return found


def lemma(eps: float, slope: float, draws: int) -> dict[str, float]:
    """Laws p and q of (x, y) with KL(p || q) = eps, and KL of y given x of 2 M^2 x^2, M = `slope`: the lemma's pair.

    Both have x ~ N(0, eps / (2 M^2)); y = M x + N(0, 1) under p, and y = -M x + N(0, 1) under q.
    """
    variance = eps / (2 * slope**2)
    p, q = (
        Normal(
            torch.zeros(2).double(),
            torch.tensor([[variance, s * variance], [s * variance, s**2 * variance + 1]], dtype=torch.float64),
        )
        for s in (slope, -slope)
    )
    source = torch.Generator().manual_seed(0)
    x, xi = torch.randn(2, draws, generator=source, dtype=torch.float64)
    x = math.sqrt(variance) * x
    ratio = ((xi + 2 * slope * x) ** 2 - xi**2) / 2  # log p(y | x) / q(y | x) at y = M x + xi
    return {
        "eps": eps,
        "M": slope,
        "joint_kl": p.divergence(q),
        "joint_kl_drawn": float(ratio.mean()),
        "joint_kl_error": float(ratio.std()) / math.sqrt(draws),
        "conditional_kl_per_x2": (2 * slope) ** 2 / 2,
        "deviation_of_x": math.sqrt(variance),
    }


def _drawn(model: Conditionals, draws: int, steps: int, width: float, seed: int) -> Tensor:
    inner = schedule(steps, width)
    return sample(model, draws, inner=inner, sampler=Sequential(), seed=seed, max_live=draws).samples.double()


def _spread(samples: Tensor, width: float) -> float:
    """The root mean square of x2 - x1, in units of its truth."""
    return float((samples[:, 1] - samples[:, 0]).double().square().mean().sqrt()) / width
