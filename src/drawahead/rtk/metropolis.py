"""Kernels that propose a move and accept it so that exp(-g) is left unchanged: Langevin steps, and Hamiltonian ones."""

from __future__ import annotations

import abc
import math
from typing import final

import torch
from torch import Tensor

from drawahead.rtk.kernels import DEFAULT_START, GaussianStart, Info, MarkovKernel, Noise, Start, State
from drawahead.rtk.potentials import Difference, Potential
from drawahead.rtk.segments import positive
from drawahead.validate import whole
from drawahead.values import dataclass


class AdjustedKernel(MarkovKernel):
    """Its states carry the gradient, which proposal and decision share. It needs energy differences: where they come
    from a line integral of a score, its distribution is off by their errors."""

    def start(self, target: Potential, z: Tensor, noise: Noise) -> State:
        return State(z, gradient=target.gradient(z))

    @abc.abstractmethod
    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        """The log of the Metropolis-Hastings ratio (rows,): a move is accepted with probability min(1, ratio)."""


def gradient_of(state: State) -> Tensor:
    assert state.gradient is not None  # `start` of the kernels that use it gives one
    return state.gradient


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


def langevin(target: Potential, state: State, tau: float, noise: Noise) -> State:
    """A proposal from N(z - tau grad g(z), 2 tau I)."""
    z = state.z - tau * gradient_of(state) + math.sqrt(2 * tau) * noise.normal(state.z.shape[1])
    return State(z, gradient=target.gradient(z))


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


@final
@dataclass(frozen=True)
class MALA(AdjustedLangevin):
    """The Metropolis-adjusted Langevin algorithm: z' = z - tau grad g(z) + sqrt(2 tau) xi, accepted so that exp(-g) is
    left unchanged, for any tau."""

    tau: float
    steps: int
    begin: Start = DEFAULT_START

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


@final
@dataclass(frozen=True)
class ProjectedMALA(AdjustedLangevin):
    """MALA whose moves stay within `reach` of the state they start from and within `radius` of the origin.

    It leaves exp(-g), restricted to the ball of that radius, unchanged. A chain that starts outside may move in, and
    not out again. A proposal that is rejected unseen is evaluated all the same, so that a batch has one shape.
    """

    tau: float
    steps: int
    reach: float
    """r: the most one move may cover."""
    radius: float
    """R: the ball that the chain stays in."""
    begin: Start = DEFAULT_START

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

    def allows(self, old: State, new: State) -> Tensor:
        """Whether the move stays within both balls (rows,)."""
        step, distance = ((vectors**2).sum(1).sqrt() for vectors in (new.z - old.z, new.z))
        return (step <= self.reach) & (distance <= self.radius)


@final
@dataclass(frozen=True)
class HMC(AdjustedKernel):
    """Hamiltonian Monte Carlo: a fresh velocity from N(0, I), `leaps` leapfrog steps of length `tau`, and a decision.

    It leaves exp(-g) unchanged whatever tau is. A step costs `leaps` gradients and one energy difference.
    """

    tau: float
    leaps: int
    steps: int
    begin: Start = DEFAULT_START

    def leapfrog(self, target: Potential, state: State) -> State:
        """The trajectory's end. With its velocity turned round it leads back to its beginning."""
        z, v, gradient = state.z, _velocity(state), gradient_of(state)
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
