"""Hamiltonian Monte Carlo: a fresh velocity, a few leapfrog steps, and a decision."""

from __future__ import annotations

from typing import final

from torch import Tensor

from drawahead.rtk.kernels.base import DEFAULT_START, Info, Noise, Start, State
from drawahead.rtk.kernels.metropolis import AdjustedKernel, decided, gradient_of
from drawahead.rtk.potentials import Difference, Potential
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class HMC(AdjustedKernel):
    """Every step draws a velocity from N(0, I), makes `leaps` leapfrog steps of length `tau`, and accepts or stays.

    It leaves exp(-g) unchanged whatever tau is. A step costs `leaps` gradients and one energy difference.
    """

    tau: float
    leaps: int
    steps: int
    begin: Start = DEFAULT_START

    def leapfrog(self, target: Potential, state: State) -> State:
        """The trajectory's end. With its velocity turned round it leads back to its beginning."""
        z, gradient = state.z, gradient_of(state)
        v = _velocity(state)
        for _ in range(self.leaps):
            v = v - self.tau / 2 * gradient
            z = z + self.tau * v
            gradient = target.gradient(z)
            v = v - self.tau / 2 * gradient
        return State(z, v, gradient)

    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        """The fall of the total energy g + |v|^2 / 2 from the trajectory's beginning to its end (rows,)."""
        energy = target.energy_difference(old.z, new.z)
        kinetic = (_velocity(new).square() - _velocity(old).square()).sum(1) / 2
        return Difference(-energy.value - kinetic, energy.error)

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        old = State(state.z, noise.normal(state.z.shape[1]), state.gradient)
        new = self.leapfrog(target, old)
        return decided(old, new, self.log_acceptance(target, old, new), noise)


def _velocity(state: State) -> Tensor:
    assert state.velocity is not None  # `step` gives one
    return state.velocity
