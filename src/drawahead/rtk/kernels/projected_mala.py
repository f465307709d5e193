"""Projected MALA: MALA that rejects every proposal which goes too far at once or too far out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from torch import Tensor

from drawahead.rtk.kernels.base import Info, MarkovKernel, State
from drawahead.rtk.kernels.mala import MALA
from drawahead.rtk.kernels.metropolis import decided, langevin, langevin_log_ratio
from drawahead.rtk.kernels.noise import Noise
from drawahead.rtk.kernels.starts import DEFAULT_START, Start
from drawahead.rtk.potentials import Difference, Potential
from drawahead.rtk.segments import positive
from drawahead.validate import whole


@final
@dataclass(frozen=True)
class ProjectedMALA(MarkovKernel):
    """MALA whose moves stay within `reach` of the state they start from and within `radius` of the origin.

    It leaves exp(-g), restricted to the ball of that radius, unchanged. A chain that starts outside may move in, and
    not out again. A proposal that is rejected unseen is evaluated all the same, so that a batch has one shape.
    """

    needs_energy = True

    tau: float
    steps: int
    reach: float
    """r: the most one move may cover."""
    radius: float
    """R: the ball that the chain stays in."""
    begin: Start = DEFAULT_START

    def __post_init__(self) -> None:
        for name in ("tau", "reach", "radius"):
            positive(name, getattr(self, name))
        whole("steps", self.steps, 1)

    @staticmethod
    def from_theory(smoothness: float, d: int, eps: float, second_moment: float | None = None) -> ProjectedMALA:
        """`MALA.from_theory` with balls that all of S steps stay in with probability of about 1 - eps.

        r = 2 sqrt(2 tau) (sqrt(d) + sqrt(2 log(2 S / eps))): twice what the noise of a step covers, but for a chance of
        eps / (2 S). R = 3 sqrt((d + m) log(2 S / eps)), m the second moment E|Y|^2 of the data (d by default). Both
        grow as in the theorem; the constants are ours.
        """
        plain = MALA.from_theory(smoothness, d, eps)
        moment = float(d) if second_moment is None else positive("second_moment", second_moment)
        log = math.log(2 * plain.steps / min(eps, 1.0))
        reach = 2 * math.sqrt(2 * plain.tau) * (math.sqrt(d) + math.sqrt(2 * log))
        return ProjectedMALA(plain.tau, plain.steps, reach, 3 * math.sqrt((d + moment) * log), plain.begin)

    def start(self, target: Potential, z: Tensor, noise: Noise) -> State:
        return State(z, gradient=target.gradient(z))

    def allows(self, old: State, new: State) -> Tensor:
        """Whether the move stays within both balls (rows,)."""
        step, distance = ((vectors**2).sum(1).sqrt() for vectors in (new.z - old.z, new.z))
        return (step <= self.reach) & (distance <= self.radius)

    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        """The log of the Metropolis-Hastings ratio (rows,) of a move that is allowed."""
        return langevin_log_ratio(target, old, new, self.tau)

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        new = langevin(target, state, self.tau, noise)
        return decided(state, new, self.log_acceptance(target, state, new), noise, self.allows(state, new))
