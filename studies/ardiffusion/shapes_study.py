"""Experiments of our own design: auto-regressive diffusion beside joint diffusion, on images with a rule."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drawahead.ardiffusion import (
    ARModel,
    MLPDenoiser,
    ModelConfig,
    Parts,
    Training,
    TransformerDenoiser,
    TransformerEncoder,
    chain,
    train,
)
from drawahead.ardiffusion.training import generator
from drawahead.sample import sample
from drawahead.samplers import Sequential
from drawahead.schedules import OUExponential
from studies.ardiffusion.shapes import PARTS, Shapes, features, relation_errors, tied

CENTRE, SCALE = -0.62, 0.67  # of the images: what models see has mean 0 and variance 1
WHOLE = Parts.undivided((PARTS.number * PARTS.size,))  # the same entries in the same order, as one part
_TEST_SEED = 1_000_000


@dataclass(frozen=True)
class Plan:
    """How much is trained and drawn."""

    budgets: tuple[int, ...]
    """Training steps: every model is trained once with each."""
    batch: int
    """Images a step of the auto-regressive model, which denoises each of their parts."""
    seeds: int
    images: int
    drawn: int
    sampling_steps: int
    width: int


FULL = Plan(budgets=(1500, 6000), batch=32, seeds=3, images=20_000, drawn=1000, sampling_steps=100, width=96)
QUICK = Plan(budgets=(12,), batch=16, seeds=1, images=200, drawn=20, sampling_steps=8, width=16)
SHOWN = 6  # images, and so many times ten points, of the first seed


@dataclass(frozen=True)
class Contender:
    """A model of the comparison."""

    name: str
    config: ModelConfig
    images_per_step: int
    """In batches of the auto-regressive model: a joint model denoises an image at once, so it gets more of them."""


def contenders(width: int) -> list[Contender]:
    """The auto-regressive model, and joint ones of about its size; each denoises as many parts or tokens a step."""
    ar = ModelConfig(PARTS, TransformerEncoder(width // 2, 2, 4), MLPDenoiser(width, 3))

    def dense(width: int) -> ModelConfig:
        return ModelConfig(WHOLE, None, MLPDenoiser(width, 3))

    def attending(width: int) -> ModelConfig:
        return ModelConfig(WHOLE, None, TransformerDenoiser(tokens=PARTS.number, width=width, layers=3, heads=4))

    size = ARModel(ar).size
    return [
        Contender("auto-regressive", ar, 1),
        Contender("joint, transformer", _of_size(attending, size), 1),
        Contender("joint, dense", _of_size(dense, size), PARTS.number),
    ]


def _of_size(make: Callable[[int], ModelConfig], size: int) -> ModelConfig:
    """The width, a multiple of 4, whose number of parameters is nearest."""

    def parameters(width: int) -> int:
        with torch.device("meta"):  # counted, not made
            return ARModel(make(width)).size

    widths = range(4, 256, 4)
    above = widths[bisect.bisect_left(widths, size, hi=len(widths) - 1, key=parameters)]
    return make(min(max(4, above - 4), above, key=lambda width: abs(parameters(width) - size)))


def study(contender: Contender, across: bool, seed: int, steps: int, plan: Plan, device: str) -> dict[str, Any]:
    """Train one model on one kind of image, draw from it and measure. Plain values."""
    images = Shapes(plan.images, across=across, seed=seed).images
    batch = plan.batch * contender.images_per_step
    training = Training(steps=steps, batch=batch, seed=seed, block=max(1, steps // 60))
    trained = train(contender.config, as_parts(images, contender.config), training=training, device=device)
    model = trained.model
    test = as_parts(Shapes(plan.drawn, across=across, seed=_TEST_SEED + seed).images, contender.config)
    began = time.perf_counter()
    drawing = chain(model, OUExponential.even(plan.sampling_steps, first=5.0, last=1e-4))
    drawn = sample(drawing, plan.drawn, sampler=Sequential(), seed=seed, max_live=plan.drawn).samples
    seconds = time.perf_counter() - began
    made = PARTS.join(drawn.view(len(drawn), PARTS.number, PARTS.size)) * SCALE + CENTRE
    disc, bar = features(made)
    shown = SHOWN if seed == 0 else 0
    return {
        "model": contender.name,
        "task": "across" if across else "within",
        "seed": seed,
        "steps": steps,
        "parameters": model.size,
        "losses": [(step, round(loss, 4)) for step, loss in trained.losses],
        "loss": sum(loss for _, loss in trained.losses[-6:]) / len(trained.losses[-6:]),
        "train_seconds": round(trained.seconds, 1),
        "draw_seconds": round(seconds, 1),
        **judged(made, across=across),
        "disc_distance": _uniform_distance(disc.flatten()),
        "bar_distance": _uniform_distance(bar.flatten()),
        "bound": bound(model, test.to(device)),
        "examples": made[:shown].double().round(decimals=2).tolist(),
        "points": torch.stack([tied(disc, across=across), bar])[:, : 10 * shown].round(decimals=3).tolist(),
    }


def judged(images: Tensor, *, across: bool) -> dict[str, float]:
    """How well images keep the rule: the root mean square of g - h, and how often it is above 0.1."""
    errors = relation_errors(images, across=across)
    return {
        "relation_error": float(errors.square().mean().sqrt()),
        "broken": float((errors.abs() > 0.1).double().mean()),
    }


def as_parts(images: Tensor, config: ModelConfig) -> Tensor:
    """Images (number, 16, 16) in the shape that a configuration takes."""
    cut = (PARTS.split(images) - CENTRE) / SCALE
    return cut.flatten(1) if config.parts == WHOLE else PARTS.join(cut)


@torch.no_grad()
def bound(model: ARModel, data: Tensor, levels: int = 64, least: float = -8.0, most: float = 8.0) -> float:
    """Half the integral of the squared error of predictions against the signal-to-noise ratio, in nats an image.

    Up to a constant that all models share, it bounds minus the log-likelihood of the data from above (by the chain
    rule, whatever the order of the parts), and is least for the true law: a fair loss, where training losses are not.
    """
    clean = model.parts.split(data)
    grid = torch.linspace(least, most, levels + 1, dtype=torch.float64)
    total = 0.0
    for i, level in enumerate(((grid[1:] + grid[:-1]) / 2).tolist()):
        source = generator(_TEST_SEED, i, clean.device)
        log_snr = torch.full(clean.shape[:2], level, device=clean.device)
        signal, noise = torch.sigmoid(log_snr).sqrt()[..., None], torch.sigmoid(-log_snr).sqrt()[..., None]
        epsilon = torch.randn(clean.shape, generator=source, device=clean.device)
        noisy = signal * clean + noise * epsilon
        answer = signal * noisy - noise * model(noisy, clean, log_snr)
        error = (answer - clean).double().square().sum((1, 2)).mean()
        total += float(error) * 0.5 * float(torch.tensor(level).exp()) * (most - least) / levels
    return total


def _uniform_distance(values: Tensor) -> float:
    """The Kolmogorov distance to the uniform law on [0, 1]."""
    ordered = values.double().clamp(0, 1).sort().values
    grid = torch.arange(len(ordered) + 1, dtype=torch.float64) / len(ordered)
    return float(torch.maximum((grid[1:] - ordered).abs(), (ordered - grid[:-1]).abs()).max())
