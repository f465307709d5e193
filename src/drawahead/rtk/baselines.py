"""What RTK is measured against: the reverse process itself in small steps, on the same interface.

The forward process dX = -X dt + sqrt(2) dB is reversed in distribution by an SDE and by an ODE. With the score s held
fixed over a step of length h (the exponential integrator) both are solved exactly:

    SDE  dY = (Y + 2 s) du + sqrt(2) dB   ->   y' = exp(h) y + 2 (exp(h) - 1) s + sqrt(exp(2 h) - 1) xi
    ODE  dY = (Y + s) du                  ->   y' = exp(h) y + (exp(h) - 1) s

Predictor and corrector: the ODE to time t, then Langevin dynamics that leave p_t as it is. After Chen, Chewi, Lee, Li,
Lu and Salim, "The probability flow ODE is provably fast" (NeurIPS 2023): the ODE loses nothing but its steps are off,
and a corrector forgets the error before it grows. The corrector draws from p_t, where RTK draws from p(z | x'): the
distribution of z is right, that of z given x' is not.
"""

from __future__ import annotations

import math
from typing import final

from torch import Tensor

from drawahead.rtk.kernels import Info, Kernel, MarkovKernel, Noise
from drawahead.rtk.langevin import ULA, ULD
from drawahead.rtk.segments import Marginal, RTKTarget
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class ReverseSDE(Kernel):
    """The reverse SDE, in `steps` equal steps per segment: one call of the score each."""

    steps: int = 1

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
    """The probability-flow ODE, in `steps` equal steps per segment: one call of the score each, and no noise."""

    steps: int = 1

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        h, z = target.eta / self.steps, target.x_prime
        for s in range(self.steps):
            z = math.exp(h) * z + math.expm1(h) * target.score_at(z, target.time + target.eta - s * h)
        return z, Info.sure(z, self.steps)


@final
@dataclass(frozen=True)
class DPOM(Kernel):
    """`predictor_steps` of the ODE, then `steps` overdamped Langevin steps of size `tau` at the segment's end."""

    tau: float
    steps: int
    predictor_steps: int = 1

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        return _corrected(target, noise, self.predictor_steps, ULA(self.tau, self.steps))


@final
@dataclass(frozen=True)
class DPUM(Kernel):
    """`predictor_steps` of the ODE, then `steps` underdamped Langevin steps, from a fresh velocity, at its end."""

    tau: float
    gamma: float
    steps: int
    predictor_steps: int = 1

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        return _corrected(target, noise, self.predictor_steps, ULD(self.tau, self.gamma, self.steps))


def _corrected(target: RTKTarget, noise: Noise, predictor_steps: int, corrector: MarkovKernel) -> tuple[Tensor, Info]:
    z, predicted = ProbabilityFlow(predictor_steps).draw(target, noise)
    level = Marginal(target.score, target.time)
    state, corrected = corrector.run(level, corrector.start(level, z, noise), noise)
    return state.z, predicted + corrected
