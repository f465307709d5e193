"""How many rounds underdamped Langevin dynamics takes when its inner steps are drafted ahead, all segments together.

One by one it takes K S calls, K segments of S steps. The law is the same with every sampler here, so only rounds and
queries are measured. What makes S large is a small step: every S here covers the same time of the dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from drawahead import rtk
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.rtk import ULD, PerSegment, Segments
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Sampler, Stepwise
from drawahead.targets import GaussianMixture, GaussianTarget
from studies.estimates import mean
from studies.rtk.gaussian import noised
from studies.rtk.methods import FIRST
from studies.rtk.ring import VARIANCE, Ring, geometric

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
        """Geometric in the noise-to-signal ratio of the narrowest part."""
        return geometric(FIRST, SEGMENTS, self.narrowest)

    def kernel(self, steps: int) -> PerSegment:
        """ULD, in each segment damped critically in its narrowest direction."""

        def choose(time: float, eta: float) -> ULD:
            root = math.sqrt(1 / noised(self.narrowest, time) + 1 / math.expm1(2 * eta))
            return ULD(DURATION / steps / root, 2 * root, steps)

        return PerSegment(choose, steps)


def cases() -> Iterator[Case]:
    """The ring of 18 Gaussians in the plane, and Gaussians whose variances lie between 0.1 and 1."""
    yield Case("ring", GaussianMixture(Ring(2).modes, VARIANCE), VARIANCE)
    for d in (2, 10, 50):
        yield Case("gaussian", GaussianTarget(variances=torch.logspace(-1, 0, d, dtype=torch.float64)), 0.1)


def rounds_of_parallel_uld(
    *, steps: Sequence[int] = (16, 64, 256), samples: int = 16, seed: int = 0
) -> list[dict[str, Any]]:
    """Every sampler on every law, with so many steps in each of 8 segments. Plain values.

    Drafts take the data for parts of unit variance, which is the default, and then for parts of the right one. Rounds
    and queries are means over samples, `error` is the standard error of the rounds.
    """
    rows = []
    for case in cases():
        for count in steps:
            for spread in (1.0, math.sqrt(case.narrowest)):
                chain = rtk.chain(case.target, case.kernel(count), case.segments(), spread=spread)
                for name, sampler in SAMPLERS.items():
                    report = sample(chain, samples, sampler=sampler, seed=seed).report
                    rounds = mean(report.sample_rounds)
                    rows.append(
                        {
                            "target": case.name,
                            "d": math.prod(case.target.shape),
                            "segments": SEGMENTS,
                            "steps": count,
                            "spread": round(spread, 4),
                            "sampler": name,
                            "rounds": rounds.value,
                            "error": rounds.error,
                            "queries": report.queries / samples,
                        }
                    )
    return rows
