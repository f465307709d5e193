"""How many rounds underdamped Langevin dynamics takes when its inner steps are drafted ahead, all segments together.

One by one it takes K S calls, K segments of S steps. The law is the same with every sampler here, so only rounds and
queries are measured. What makes S large is a small step: every S here covers the same time of the dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from drawahead import rtk
from drawahead.denoisers import DenoisingTarget
from drawahead.rtk import ULD, PerSegment, Segments
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Sampler, Stepwise
from drawahead.targets import GaussianMixture, GaussianTarget

FIRST = 3.0
SEGMENTS = 8
DURATION = 12.8
"""Of a segment, in units of 1 / sqrt(H), H the curvature of its narrowest direction: then all directions have mixed."""
SAMPLERS: dict[str, Sampler] = {
    "stepwise": Stepwise(),
    "block": Block(),
    "coupled, no secant": Coupled(secant=False),
    "coupled": Coupled(),
}


@dataclass(frozen=True)
class Case:
    """A law, and the variance of its narrowest part."""

    name: str
    target: DenoisingTarget
    narrowest: float

    def segments(self) -> Segments:
        """Geometric in the noise-to-signal ratio of the narrowest part, exp(2 t) - 1 + variance: fine near the data."""
        high, low = math.log(math.expm1(2 * FIRST) + self.narrowest), math.log(self.narrowest)
        ratios = [math.exp(high + (low - high) * k / SEGMENTS) for k in range(1, SEGMENTS)]
        return Segments((FIRST, *(math.log1p(ratio - self.narrowest) / 2 for ratio in ratios), 0.0))

    def kernel(self, steps: int) -> PerSegment:
        """ULD, in each segment damped critically in its narrowest direction."""

        def choose(time: float, eta: float) -> ULD:
            variance = self.narrowest * math.exp(-2 * time) - math.expm1(-2 * time)
            root = math.sqrt(1 / variance + 1 / math.expm1(2 * eta))
            return ULD(DURATION / steps / root, 2 * root, steps)

        return PerSegment(choose, steps)


@dataclass(frozen=True)
class ParallelRow:
    """One sampler on one law; rounds and queries are means over samples, `error` the standard error of the rounds."""

    target: str
    d: int
    segments: int
    steps: int
    """In each segment."""
    spread: float
    """What drafts take the data for: see `rtk.chain`."""
    sampler: str
    rounds: float
    error: float
    queries: float

    @property
    def sequential(self) -> int:
        """What it takes one by one, rounds and queries alike."""
        return self.segments * self.steps


def cases() -> Iterator[Case]:
    """The ring of 18 Gaussians in the plane, and Gaussians whose variances lie between 0.1 and 1."""
    angle = torch.arange(18, dtype=torch.float64) * (2 * math.pi / 18)
    ring = GaussianMixture(torch.stack([angle.cos(), angle.sin()], dim=1), 0.007)
    yield Case("ring", ring, 0.007)
    for d in (2, 10, 50):
        yield Case("gaussian", GaussianTarget(variances=torch.logspace(-1, 0, d, dtype=torch.float64)), 0.1)


def rounds_of_parallel_uld(
    *, steps: Sequence[int] = (16, 64, 256), samples: int = 16, seed: int = 0
) -> list[ParallelRow]:
    """Every sampler on every law, with so many steps in each of 8 segments.

    Drafts take the data for parts of unit variance, which is the default, and then for parts of the right one.
    """
    rows = []
    for case in cases():
        for count in steps:
            for spread in (1.0, math.sqrt(case.narrowest)):
                chain = rtk.chain(case.target, case.kernel(count), case.segments(), spread=spread)
                for name, sampler in SAMPLERS.items():
                    report = sample(chain, samples, sampler=sampler, seed=seed).report
                    rounds = torch.tensor(report.sample_rounds, dtype=torch.float64)
                    rows.append(
                        ParallelRow(
                            case.name,
                            math.prod(case.target.shape),
                            SEGMENTS,
                            count,
                            round(spread, 4),
                            name,
                            float(rounds.mean()),
                            float(rounds.std()) / math.sqrt(samples),
                            report.queries / samples,
                        )
                    )
    return rows
