"""Parts in parallel: rounds and queries against the number of parts, and seconds on a trained model."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from drawahead import rtk
from drawahead.ardiffusion import (
    RTK,
    GaussianParts,
    MLPDenoiser,
    ModelConfig,
    Parts,
    Training,
    TransformerEncoder,
    chain,
    load,
    train,
)
from drawahead.chains.stacked import StackedChain
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Sampler, Sequential, Stepwise
from drawahead.schedules import DDPM, OUExponential, Schedule, linear_betas
from drawahead.verification.statistics import same_law
from studies.ardiffusion.shapes import Shapes
from studies.ardiffusion.shapes_study import CENTRE, SCALE
from studies.estimates import mean

STEPS = 64
SIZE = 4
INNER: dict[str, Schedule | RTK] = {
    "OU, 64 steps": OUExponential.even(STEPS, first=5.0, last=1e-3),
    "DDPM, 64 steps": DDPM(betas=linear_betas(STEPS, 1e-3, 0.25)),
    "ULD, 8 segments of 8": RTK(rtk.ULD(tau=0.25, gamma=2.0, steps=8), rtk.Segments.even(4.0, 8, last=0.01)),
}
SAMPLERS: dict[str, Callable[[], Sampler]] = {"stepwise": Stepwise, "block": Block, "coupled": Coupled}
DEPENDENCE = {"strong": 0.9, "none": 0.0}


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    numbers: tuple[int, ...]
    samples: int
    training: int
    repeats: int
    compared: int
    grids: tuple[int, ...]


FULL = Plan(numbers=(1, 2, 4, 8, 16), samples=16, training=6000, repeats=9, compared=500, grids=(2, 4))
QUICK = Plan(numbers=(1, 2), samples=2, training=10, repeats=1, compared=8, grids=(2,))


def exact(inner: str, dependence: str, number: int, samples: int) -> list[dict[str, Any]]:
    """Rounds and queries a sample on a Gaussian in so many parts, for every sampler. Plain values."""
    place = torch.arange(number * SIZE, dtype=torch.float64)
    covariance = DEPENDENCE[dependence] ** (place[:, None] - place).abs()
    drawing = chain(GaussianParts(covariance, Parts((number * SIZE,), (number,))), INNER[inner])
    rows = []
    for name, make in SAMPLERS.items():
        report = sample(drawing, samples, sampler=make(), seed=0).report
        key = {"inner": inner, "dependence": dependence, "number": number, "sampler": name}
        rows.append(key | _costs(drawing, report.sample_rounds, report.queries))
    return rows


def _costs(drawing: StackedChain, rounds: Sequence[int], queries: int) -> dict[str, float]:
    """What samples cost on average, one number of rounds each."""
    each = mean(rounds)
    costs = {"rounds": each.value, "rounds_error": each.error, "queries": queries / len(rounds)}
    return {"steps": drawing.steps, "samples": len(rounds), **costs}


def trained(grid: int, plan: Plan, folder: str, device: str) -> str:
    """Train a model of images in grid x grid patches into a folder. -> the folder."""
    config = ModelConfig(Parts((16, 16), (grid, grid)), TransformerEncoder(48, 2, 4), MLPDenoiser(96, 3))
    images = (Shapes(20_000, across=True, seed=0).images - CENTRE) / SCALE
    out = Path(folder) / f"grid-{grid}"
    train(config, images, training=Training(steps=plan.training, batch=64 // grid), out=out, device=device)
    return str(out)


def timed(folder: str, plan: Plan, device: str) -> list[dict[str, Any]]:
    """Rounds, queries and seconds of one image of a trained model, sampler by sampler, in one run. Plain values."""
    model = load(folder, device=device)
    rows: list[dict[str, Any]] = []
    for name, inner in INNER.items():
        drawing = chain(model, inner)
        base: float | None = None
        for label, make in {"sequential": Sequential, **SAMPLERS}.items():
            costs, seconds = _one(drawing, make(), plan.repeats)
            base = base or seconds
            rows.append(
                {
                    "inner": name,
                    "number": model.parts.number,
                    "sampler": label,
                    "seconds": seconds,
                    "ratio": base / seconds,
                    "repeats": plan.repeats,
                    **costs,
                }
            )
    return rows


def agreed(folder: str, plan: Plan, device: str) -> list[dict[str, Any]]:
    """Two-sample tests of a trained model: each sampler against one step after another, at other seeds."""
    model = load(folder, device=device)
    rows = []
    for name, inner in INNER.items():
        drawing, count = chain(model, inner), plan.compared
        reference = sample(drawing, count, sampler=Sequential(), seed=1, max_live=count).samples
        for label, make in SAMPLERS.items():
            other = sample(drawing, count, sampler=make(), seed=2, max_live=min(count, 64)).samples
            key = {"inner": name, "number": model.parts.number, "sampler": label, "compared": count}
            rows.append({**key, "p_value": same_law(reference, other)})
    return rows


def _one(drawing: StackedChain, sampler: Sampler, repeats: int) -> tuple[dict[str, float], float]:
    """One image at a time: mean costs over seeds, median seconds; the first is a warm-up."""
    reports, seconds = [], []
    for seed in range(repeats + 1):
        began = time.perf_counter()
        reports.append(sample(drawing, 1, sampler=sampler, seed=seed, graphs=False).report)
        seconds.append(time.perf_counter() - began)
    drawn = reports[1:]
    costs = _costs(drawing, [report.rounds for report in drawn], sum(report.queries for report in drawn))
    return costs, statistics.median(seconds[1:])
