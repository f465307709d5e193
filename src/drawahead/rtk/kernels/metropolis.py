"""Blocks the adjusted kernels share: the Langevin proposal, and the decision to accept."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drawahead.rtk.kernels.base import Info, State
from drawahead.rtk.kernels.noise import Noise
from drawahead.rtk.potentials import Difference, Potential


def gradient_of(state: State) -> Tensor:
    assert state.gradient is not None  # `start` of the kernels that use it gives one
    return state.gradient


def langevin(target: Potential, state: State, tau: float, noise: Noise) -> State:
    """A proposal from N(z - tau grad g(z), 2 tau I)."""
    z = state.z - tau * gradient_of(state) + math.sqrt(2 * tau) * noise.normal(state.z.shape[1])
    return State(z, gradient=target.gradient(z))


def langevin_log_ratio(target: Potential, old: State, new: State, tau: float) -> Difference:
    """log of p(new) q(new -> old) / (p(old) q(old -> new)), q the Langevin proposal (rows,)."""
    energy = target.energy_difference(old.z, new.z)
    forth = (new.z - old.z + tau * gradient_of(old)).square().sum(1)
    back = (old.z - new.z + tau * gradient_of(new)).square().sum(1)
    return Difference((forth - back) / (4 * tau) - energy.value, energy.error)


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
