"""Where the Markov chain of a segment starts: a Gaussian around a multiple of x'."""

from __future__ import annotations

import abc
import math
from typing import final

from drawahead.validate import number
from drawahead.values import dataclass


class Start(abc.ABC):
    """z = slope x' + scale xi, xi standard normal."""

    @abc.abstractmethod
    def coefficients(self, eta: float) -> tuple[float, float]:
        """(slope, scale) for a segment of length eta."""


@final
@dataclass(frozen=True)
class GaussianStart(Start):
    """The reverse transition kernel itself if p_t were N(0, I / curvature): exp(-curvature |z|^2 / 2 - quadratic).

    1: a standard normal, which is what p_t is for large t: the chain then starts in its own law. 2 L: where the theorem
    on MALA starts. 0: the quadratic term alone, N(exp(eta) x', (exp(2 eta) - 1) I).
    """

    curvature: float = 1.0

    def __post_init__(self) -> None:
        number("curvature", self.curvature, least=0)

    def coefficients(self, eta: float) -> tuple[float, float]:
        quadratic = 1 / math.expm1(2 * eta)
        precision = self.curvature + quadratic
        return quadratic * math.exp(eta) / precision, precision**-0.5


@final
@dataclass(frozen=True)
class CentredStart(Start):
    """N(0, (exp(2 eta) - 1) I), whatever x' is: where the theorem on ULD starts."""

    def coefficients(self, eta: float) -> tuple[float, float]:
        return 0.0, math.expm1(2 * eta) ** 0.5


DEFAULT_START = GaussianStart()
"""Far closer after few steps than where the theorems start, which forget x' or half of it; after many, no different."""
