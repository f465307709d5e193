"""Kernels and targets that are wrong on purpose. The checks that pass the real ones must reject each of these."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from drawahead.rtk import (
    HMC,
    MALA,
    ULA,
    ULD,
    Difference,
    Info,
    Kernel,
    MarkovKernel,
    Noise,
    Potential,
    ProjectedMALA,
    RTKTarget,
    State,
    ULDStep,
)
from drawahead.rtk.metropolis import decided, gradient_of, langevin
from tests.rtk.laws import gaussian_case, mixture_case, unadjusted_p_value


class QuadraticMissing(RTKTarget):
    """The law p_t instead of the kernel: the quadratic term is left out."""

    curvature = 0.0  # type: ignore[assignment]


class QuadraticMissingFromEnergies(RTKTarget):
    """Right gradients, energies without the quadratic term."""

    def energy_difference(self, old: Tensor, new: Tensor) -> Difference:
        ratio = self.score.log_ratio(old, new, self._times(old, self.time))
        return Difference(-ratio.value, ratio.error)


class SquaredDecay(RTKTarget):
    """|x' - exp(-2 eta) z|^2 in the place of |x' - exp(-eta) z|^2."""

    @property
    def curvature(self) -> float:
        return math.exp(-4 * self.eta) / -math.expm1(-2 * self.eta)

    @property
    def centre(self) -> Tensor:
        return math.exp(2 * self.eta) * self.x_prime


class WrongTime(RTKTarget):
    """The score at the segment's start, where that at its end belongs."""

    def _times(self, z: Tensor, time: float) -> Tensor:
        return super()._times(z, time + self.eta)


class InvertedProposalRatio(MALA):
    """q(z -> z') / q(z' -> z) in the place of its inverse."""

    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        right, energy = super().log_acceptance(target, old, new), target.energy_difference(old.z, new.z)
        return Difference(-energy.value - (right.value + energy.value), energy.error)


class NoProposalRatio(MALA):
    """The acceptance of a symmetric proposal."""

    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        energy = target.energy_difference(old.z, new.z)
        return Difference(-energy.value, energy.error)


class AlwaysAccepts(MALA):
    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        return Difference(torch.zeros(len(old.z), dtype=torch.float64), torch.zeros(len(old.z), dtype=torch.float64))


class StaleGradient(MALA):
    """A row that stays goes on with the gradient of the proposal it rejected."""

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        new = langevin(target, state, self.tau, noise)
        after, info = decided(state, new, self.log_acceptance(target, state, new), noise)
        return replace(after, gradient=new.gradient), info


class SameNoise(MALA):
    """Every step uses the noise of the first."""

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        return super().step(target, state, Noise(noise.stream, 0))


class DependentUniform(MALA):
    """Accepts by a number made from the proposal's own noise."""

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        new = langevin(target, state, self.tau, noise)
        log_ratio = self.log_acceptance(target, state, new)
        accepted = torch.special.log_ndtr(noise.normal(state.z.shape[1])[:, 0]) <= log_ratio.value
        moved = accepted[:, None]
        z, gradient = torch.where(moved, new.z, state.z), torch.where(moved, gradient_of(new), gradient_of(state))
        return State(z, gradient=gradient), Info(1, accepted.long(), log_ratio.error)


class ProjectsInsteadOfRejecting(ProjectedMALA):
    """Moves a proposal outside onto the ball, and decides about it as if it had been proposed."""

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        far = langevin(target, state, self.tau, noise)
        z = far.z * (self.radius / far.z.norm(dim=1, keepdim=True)).clamp(max=1)
        new = State(z, gradient=target.gradient(z))
        return decided(state, new, self.log_acceptance(target, state, new), noise)


class OneSidedReach(ProjectedMALA):
    """Forbids long moves in one direction only: their reverses stay allowed."""

    def allows(self, old: State, new: State) -> Tensor:
        return ((new.z - old.z)[:, 0] <= self.reach) & super().allows(replace(old, z=new.z), new)


class KineticSign(HMC):
    """The kinetic energy with the wrong sign."""

    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        right, energy = super().log_acceptance(target, old, new), target.energy_difference(old.z, new.z)
        return Difference(-energy.value - (right.value + energy.value), energy.error)


class KineticMissing(HMC):
    def log_acceptance(self, target: Potential, old: State, new: State) -> Difference:
        energy = target.energy_difference(old.z, new.z)
        return Difference(-energy.value, energy.error)


class VelocityKept(HMC):
    """The velocity is drawn once, not in every step."""

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        velocity = noise.normal(state.z.shape[1]) if state.velocity is None else state.velocity
        old = State(state.z, velocity, state.gradient)
        new = self.leapfrog(target, old)
        after, info = decided(old, new, self.log_acceptance(target, old, new), noise)
        assert new.velocity is not None
        return replace(after, velocity=torch.where(info.accepted[:, None] > 0, new.velocity, velocity)), info


class EulerForLeapfrog(HMC):
    """Euler steps: they neither keep volume nor run backwards."""

    def leapfrog(self, target: Potential, state: State) -> State:
        z, v, gradient = state.z, state.velocity, gradient_of(state)
        assert v is not None
        for _ in range(self.leaps):
            z, v = z + self.tau * v, v - self.tau * gradient
            gradient = target.gradient(z)
        return State(z, v, gradient)


class WrongVariance(ULD):
    """Var z = (2/g)(tau - (2/g)(1 - exp(-g tau))) + (1/(2 g))(1 - exp(-2 g tau)): right at g = 2 only."""

    @property
    def coefficients(self) -> ULDStep:
        right, g = super().coefficients, self.gamma
        gone, gone_twice = -math.expm1(-g * self.tau), -math.expm1(-2 * g * self.tau)
        var_z = 2 / g * (self.tau - 2 / g * gone) + gone_twice / (2 * g)
        _, cov, var_v = right.covariance
        z_u1 = math.sqrt(var_z)
        return replace(right, z_u1=z_u1, v_u1=cov / z_u1, v_u2=math.sqrt(var_v - (cov / z_u1) ** 2))


class NoiseUncorrelated(ULD):
    """z and v get the right variances and no covariance."""

    @property
    def coefficients(self) -> ULDStep:
        right = super().coefficients
        return replace(right, v_u1=0.0, v_u2=math.sqrt(right.covariance[2]))


class VelocityFromRest(ULD):
    """The velocity starts at zero."""

    def start(self, target: Potential, z: Tensor, noise: Noise) -> State:
        return State(z, torch.zeros_like(z))


class HalfTheNoise(ULA):
    """sqrt(tau) xi in the place of sqrt(2 tau) xi."""

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        z = state.z - self.tau * target.gradient(state.z) + math.sqrt(self.tau) * noise.normal(state.z.shape[1])
        return State(z), Info.sure(z)


@dataclass(frozen=True)
class Mutant:
    """What it is called, what it is a mutant of, and the p-value of the check that must reject it."""

    name: str
    of: str
    p_value: Callable[[], float]


Make = Callable[..., Any]


def on_gaussian(kernel: Kernel, of: type[RTKTarget] = RTKTarget) -> float:
    return gaussian_case(of=of).draw_p_value(kernel)


def on_mixture(kernel: MarkovKernel, radius: float = math.inf) -> float:
    return mixture_case(radius=radius).stays_p_value(kernel)


def each(of: str, check: Callable[..., float], *mutants: Make) -> list[Mutant]:
    return [Mutant(mutant.__name__, of, functools.partial(check, mutant)) for mutant in mutants]


# The settings under which the real ones pass (test_kernels.py): long steps, so that what is wrong shows.
MALA_GAUSSIAN, MALA_MIXTURE = (0.25, 40), (0.5, 30)
BALL = (0.3, 30, 1.2, 1.5)  # reach 1.2 and radius 1.5: both cut off a good part of the moves
HMC_GAUSSIAN = (0.4, 2, 25)
ULA_GAUSSIAN, ULD_GAUSSIAN = (0.1, 6), (0.35, 3.0, 2)

MUTANTS = [
    *each(
        "RTKTarget",
        lambda wrong: on_gaussian(MALA(*MALA_GAUSSIAN), wrong),
        *(QuadraticMissing, QuadraticMissingFromEnergies, SquaredDecay, WrongTime),
    ),
    *each(
        "RTKTarget, by ULA",
        lambda wrong: unadjusted_p_value(ULA(*ULA_GAUSSIAN), wrong),
        *(QuadraticMissing, SquaredDecay, WrongTime),
    ),
    *each(
        "MALA",
        lambda wrong: on_mixture(wrong(*MALA_MIXTURE)),
        *(InvertedProposalRatio, NoProposalRatio, AlwaysAccepts, SameNoise, DependentUniform),
    ),
    *each("MALA", lambda wrong: gaussian_case().stays_p_value(wrong(*MALA_GAUSSIAN)), StaleGradient),
    *each(
        "ProjectedMALA",
        lambda wrong: on_mixture(wrong(*BALL), radius=1.5),
        *(ProjectsInsteadOfRejecting, OneSidedReach),
    ),
    *each(
        "HMC",
        lambda wrong: on_gaussian(wrong(*HMC_GAUSSIAN)),
        *(KineticSign, KineticMissing, VelocityKept, EulerForLeapfrog),
    ),
    *each(
        "ULD",
        lambda wrong: unadjusted_p_value(wrong(*ULD_GAUSSIAN)),
        *(WrongVariance, NoiseUncorrelated, VelocityFromRest),
    ),
    *each("ULA", lambda wrong: unadjusted_p_value(wrong(*ULA_GAUSSIAN)), HalfTheNoise),
]
