"""The Metropolis-adjusted Langevin algorithm, and the projected one, which rejects every proposal that goes too far."""

from __future__ import annotations

import math
from typing import final

from torch import Tensor

from drawahead.rtk.kernels.base import DEFAULT_START, GaussianStart, Start, State
from drawahead.rtk.kernels.metropolis import AdjustedLangevin
from drawahead.rtk.segments import positive
from drawahead.validate import whole
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class MALA(AdjustedLangevin):
    """Proposes z' = z - tau grad g(z) + sqrt(2 tau) xi and accepts so that exp(-g) is left unchanged, for any tau."""

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
