"""The reverse process in small steps, each with the score frozen at its start: the exponential integrator.

The forward process dX = -X dt + sqrt(2) dB is reversed in law by an SDE and by an ODE. With the score s held fixed over
a step of length h both are solved exactly:

    SDE  dY = (Y + 2 s) du + sqrt(2) dB   ->   y' = exp(h) y + 2 (exp(h) - 1) s + sqrt(exp(2 h) - 1) xi
    ODE  dY = (Y + s) du                  ->   y' = exp(h) y + (exp(h) - 1) s
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from torch import Tensor

from drawahead.rtk.kernels.base import Info, Kernel
from drawahead.rtk.kernels.noise import Noise
from drawahead.rtk.segments import RTKTarget
from drawahead.validate import whole


@final
@dataclass(frozen=True)
class DDPM(Kernel):
    """The reverse SDE, in `steps` equal steps a segment: one call of the score each."""

    steps: int = 1

    def __post_init__(self) -> None:
        whole("steps", self.steps, 1)

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        h, z = target.eta / self.steps, target.x_prime
        for s in range(self.steps):
            score = target.score_at(z, target.time + target.eta - s * h)
            xi = noise.at(s).normal(z.shape[1])
            z = math.exp(h) * z + 2 * math.expm1(h) * score + math.sqrt(math.expm1(2 * h)) * xi
        return z, Info.sure(z, self.steps)


@final
@dataclass(frozen=True)
class ProbabilityFlow(Kernel):
    """The probability-flow ODE, in `steps` equal steps a segment: one call of the score each, and no noise."""

    steps: int = 1

    def __post_init__(self) -> None:
        whole("steps", self.steps, 1)

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        h, z = target.eta / self.steps, target.x_prime
        for s in range(self.steps):
            z = math.exp(h) * z + math.expm1(h) * target.score_at(z, target.time + target.eta - s * h)
        return z, Info.sure(z, self.steps)
