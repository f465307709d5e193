"""The Metropolis-adjusted Langevin algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from torch import Tensor

from drawahead.rtk.kernels.base import Info, MarkovKernel, State
from drawahead.rtk.kernels.metropolis import decided, langevin, langevin_log_ratio
from drawahead.rtk.kernels.noise import Noise
from drawahead.rtk.kernels.starts import DEFAULT_START, GaussianStart, Start
from drawahead.rtk.potentials import Difference, Potential
from drawahead.rtk.segments import positive
from drawahead.validate import whole


@final
@dataclass(frozen=True)
class MALA(MarkovKernel):
    """Proposes z' = z - tau grad g(z) + sqrt(2 tau) xi and accepts so that exp(-g) is left unchanged, whatever tau is.

    It needs energy differences. Where they come from a line integral of a score, its law is off by their errors.
    """

    needs_energy = True

    tau: float
    steps: int
    begin: Start = DEFAULT_START

    def __post_init__(self) -> None:
        positive("tau", self.tau)
        whole("steps", self.steps, 1)

    @staticmethod
    def from_theory(smoothness: float, d: int, eps: float) -> MALA:
        """A choice for segments of log(1 + 1/(2 L)) / 2 and an error of about `eps` in total variation.

        The kernel's curvature is then between L and 3 L. tau = 1 / (3 L d) and steps = 3 d (d log 2 + log(1/eps)): the
        classical d kappa log(beta / eps) steps with the condition number kappa = 3 and beta = 2^d, the largest ratio of
        the starting density, `GaussianStart(2 L)`, to the final one (at x' = 0). So d^2 log(1/eps) at most, as in the
        theorem, whose own constants and step size were not at hand: all constants here are ours.
        """
        smooth, d, eps = positive("smoothness", smoothness), whole("d", d, 1), positive("eps", eps)
        steps = math.ceil(3 * d * (d * math.log(2) + max(0.0, -math.log(eps))))
        return MALA(1 / (3 * smooth * d), steps, GaussianStart(2 * smooth))

    def start(self, target: Potential, z: Tensor, noise: Noise) -> State:
        return State(z, gradient=target.gradient(z))

    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        """The log of the Metropolis-Hastings ratio (rows,): a move is accepted with probability min(1, ratio)."""
        return langevin_log_ratio(target, old, new, self.tau)

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        new = langevin(target, state, self.tau, noise)
        return decided(state, new, self.log_acceptance(target, state, new), noise)
