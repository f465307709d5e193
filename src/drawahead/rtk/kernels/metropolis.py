"""Kernels that propose a move and accept it so that exp(-g) is left unchanged."""

from __future__ import annotations

import abc
import math

import torch
from torch import Tensor

from drawahead.rtk.kernels.base import Info, MarkovKernel, Noise, State
from drawahead.rtk.potentials import Difference, Potential


class AdjustedKernel(MarkovKernel):
    """Its states carry the gradient, which proposal and decision share. It needs energy differences: where they come
    from a line integral of a score, its law is off by their errors."""

    needs_energy = True

    def start(self, target: Potential, z: Tensor, noise: Noise) -> State:
        return State(z, gradient=target.gradient(z))

    @abc.abstractmethod
    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        """The log of the Metropolis-Hastings ratio (rows,): a move is accepted with probability min(1, ratio)."""


class AdjustedLangevin(AdjustedKernel):
    """Proposes from q = N(z - tau grad g(z), 2 tau I)."""

    tau: float

    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        """log of p(new) q(new -> old) / (p(old) q(old -> new))."""
        energy = target.energy_difference(old.z, new.z)
        forth = (new.z - old.z + self.tau * gradient_of(old)).square().sum(1)
        back = (old.z - new.z + self.tau * gradient_of(new)).square().sum(1)
        return Difference((forth - back) / (4 * self.tau) - energy.value, energy.error)

    def allows(self, old: State, new: State) -> Tensor | None:
        """Which moves may be made at all (rows,); None: all."""
        return None

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        new = langevin(target, state, self.tau, noise)
        return decided(state, new, self.log_acceptance(target, state, new), noise, self.allows(state, new))


def gradient_of(state: State) -> Tensor:
    assert state.gradient is not None  # `start` of the kernels that use it gives one
    return state.gradient


def langevin(target: Potential, state: State, tau: float, noise: Noise) -> State:
    """A proposal from N(z - tau grad g(z), 2 tau I)."""
    z = state.z - tau * gradient_of(state) + math.sqrt(2 * tau) * noise.normal(state.z.shape[1])
    return State(z, gradient=target.gradient(z))


def decided(
    old: State, new: State, log_ratio: Difference, noise: Noise, allowed: Tensor | None = None
) -> tuple[State, Info]:
    """The new state with probability min(1, ratio) where it is allowed (rows,), the old one otherwise."""
    accepted = noise.uniform().log() <= log_ratio.value
    if allowed is not None:
        accepted = accepted & allowed
    moved = accepted[:, None]
    state = State(torch.where(moved, new.z, old.z), gradient=torch.where(moved, gradient_of(new), gradient_of(old)))
    return state, Info(1, accepted.long(), log_ratio.error)
