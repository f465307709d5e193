"""Langevin dynamics without a decision: overdamped, dz = -grad g dt + sqrt(2) dB by Euler steps, and underdamped,
dz = v dt, dv = -gamma v dt - grad g(z) dt + sqrt(2 gamma) dB with unit mass.

An underdamped step of length tau holds the gradient fixed and solves the rest exactly: z and v move to a Gaussian whose
mean and 2 x 2 covariance (the same for each coordinate) are known.
"""

from __future__ import annotations

import math
from typing import final

from torch import Tensor

from drawahead.rtk.kernels import DEFAULT_START, CentredStart, Info, MarkovKernel, Noise, Start, State
from drawahead.rtk.potentials import Potential
from drawahead.rtk.segments import positive
from drawahead.validate import whole
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class ULA(MarkovKernel):
    """The unadjusted Langevin algorithm, z' = z - tau grad g(z) + sqrt(2 tau) xi. Its distribution is off by O(tau)
    however many steps it makes."""

    tau: float
    steps: int
    begin: Start = DEFAULT_START

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        xi = noise.normal(state.z.shape[1])
        z = state.z - self.tau * target.gradient(state.z) + math.sqrt(2 * self.tau) * xi
        return State(z), Info.sure(z)


@final
@dataclass(frozen=True)
class ULDStep:
    """One step of ULD, coordinate by coordinate, from (z, v) with gradient g and independent standard normals u1, u2:

    z' = z + drift v - z_push g + z_u1 u1
    v' = keep v - v_push g + v_u1 u1 + v_u2 u2
    """

    drift: float
    keep: float
    z_push: float
    v_push: float
    z_u1: float
    v_u1: float
    v_u2: float

    @property
    def covariance(self) -> tuple[float, float, float]:
        """Var z, Cov(z, v), Var v of a step's noise."""
        return self.z_u1**2, self.z_u1 * self.v_u1, self.v_u1**2 + self.v_u2**2


@final
@dataclass(frozen=True)
class ULD(MarkovKernel):
    """Underdamped steps of length `tau`, friction `gamma`. Its distribution is off by a little that falls with tau."""

    tau: float
    gamma: float
    steps: int
    begin: Start = DEFAULT_START

    @staticmethod
    def from_theory(smoothness: float, d: int, eps: float, second_moment: float | None = None) -> ULD:
        """The theorem's choice for segments of log(1 + 1/(2 L)) / 2 and an error of about `eps` in total variation.

        With Lambda = max(1, log(2 L (d + m) / eps^2)), m the second moment E|Y|^2 of the data (d by default; |x'|^2 is
        put at its mean, at most d + m):

        tau = eps / sqrt(d L Lambda), the theorem's with the constant 1; gamma = 2 sqrt(L), which damps the flattest
        direction (curvature L) critically; steps = Lambda / (sqrt(L) tau), the theorem's with Lambda for its constant:
        time for exp(-sqrt(L) t) to fall to about eps^2. The chain starts where the theorem lets it: `CentredStart`.
        """
        smooth, d, eps = positive("smoothness", smoothness), whole("d", d, 1), positive("eps", eps)
        moment = float(d) if second_moment is None else positive("second_moment", second_moment)
        log = max(1.0, math.log(2 * smooth * (d + moment) / eps**2))
        tau = eps / math.sqrt(d * smooth * log)
        return ULD(tau, 2 * math.sqrt(smooth), math.ceil(log / (math.sqrt(smooth) * tau)), CentredStart())

    @property
    def coefficients(self) -> ULDStep:
        """The step as numbers, to full accuracy for any gamma tau."""
        gamma, x = self.gamma, self.gamma * self.tau
        gone = -math.expm1(-x)  # 1 - exp(-x)
        var_z, cov, var_v = 2 * _spread(x) / gamma**2, gone**2 / gamma, -math.expm1(-2 * x)
        z_u1 = math.sqrt(var_z)
        v_u1 = cov / z_u1
        return ULDStep(
            drift=gone / gamma,
            keep=math.exp(-x),
            z_push=_lag(x) / gamma**2,
            v_push=gone / gamma,
            z_u1=z_u1,
            v_u1=v_u1,
            v_u2=math.sqrt(var_v - v_u1**2),
        )

    def start(self, target: Potential, z: Tensor, noise: Noise) -> State:
        size = z.shape[1]
        return State(z, noise.initial(2 * size)[:, size:])

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        c, size = self.coefficients, state.z.shape[1]
        noises = noise.normal(2 * size)
        u1, u2 = noises[:, :size], noises[:, size:]
        assert state.velocity is not None  # `start` gives one
        gradient = target.gradient(state.z)
        z = state.z + c.drift * state.velocity - c.z_push * gradient + c.z_u1 * u1
        v = c.keep * state.velocity - c.v_push * gradient + c.v_u1 * u1 + c.v_u2 * u2
        return State(z, v), Info.sure(z)


_SERIES_BELOW = 0.5  # where the closed forms below would lose digits to cancellation
_TERMS = 24


def _lag(x: float) -> float:
    """x - (1 - exp(-x)) = x^2/2 - x^3/6 + ..."""
    if x >= _SERIES_BELOW:
        return x + math.expm1(-x)
    return math.fsum((-x) ** k / math.factorial(k) for k in range(2, _TERMS))


def _spread(x: float) -> float:
    """x - 2 (1 - exp(-x)) + (1 - exp(-2 x)) / 2 = x^3/3 - x^4/4 + ..."""
    if x >= _SERIES_BELOW:
        return x + 2 * math.expm1(-x) - math.expm1(-2 * x) / 2
    return math.fsum((-x) ** k / math.factorial(k) * (2 - 2 ** (k - 1)) for k in range(3, _TERMS))
