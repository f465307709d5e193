"""The segments of the reverse process, and the distribution of each: the reverse transition kernel.

Given the state x' at time t + eta, the state z at time t has the density, up to a constant,

    p(z | x') = exp(-f_t(z) - |x' - exp(-eta) z|^2 / (2 (1 - exp(-2 eta)))),    f_t = -log p_t.

With an L-smooth f_t and eta = log(1 + 1/(2 L)) / 2 the quadratic term has curvature exactly 2 L, so that -log p(z | x')
has a curvature between L and 3 L: easy for a Markov chain.
"""

from __future__ import annotations

import itertools
import math
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.rtk.potentials import Difference, Potential
from drawahead.rtk.scores import ScoreOracle
from drawahead.schedules.ladder import levels
from drawahead.validate import number, whole
from drawahead.values import dataclass

MOST = 10_000_000
"""Segments at most."""


def longest(smoothness: float) -> float:
    """eta = log(1 + 1/(2 L)) / 2, the segment length at which the quadratic term has curvature 2 L."""
    return math.log1p(1 / (2 * positive("smoothness", smoothness))) / 2


def positive(name: str, value: float) -> float:
    """`value` as a number above 0 whose square is a number, too, or an InputError that names it."""
    result = number(name, value, above=0)
    if not 1e-100 <= result <= 1e100:
        raise InputError(f"{name} is too large or too small to work with: {result}")
    return result


@final
@dataclass(frozen=True)
class Segments:
    """Times of the forward process that fall from T (noise) to `last` >= 0 (data): K + 1 of them, K segments."""

    times: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", levels("times", self.times))

    @staticmethod
    def even(first: float, count: int, last: float = 0.0) -> Segments:
        """`count` segments of equal length from time `first` to `last`."""
        count = whole("count", count, 1)
        if not 0 <= number("last", last) < positive("first", first):
            raise InputError(f"last must be at least 0 and below first = {first}, not {last!r}")
        return Segments(tuple(last + (first - last) * (count - k) / count for k in range(count + 1)))

    @staticmethod
    def from_smoothness(smoothness: float, first: float = 5.0, last: float = 0.0) -> Segments:
        """The fewest equal segments no longer than log(1 + 1/(2 L)) / 2, for L-smooth energies."""
        length = positive("first", first) - number("last", last)
        return Segments.even(first, _rounded_up(length / longest(smoothness) - 1e-9), last)

    @staticmethod
    def from_theory(smoothness: float, d: int, eps: float, gradient_at_zero: float = 0.0) -> Segments:
        """The theorems' choice for an error of about `eps` in total variation, down to time 0.

        K = 4 L log(((1 + L^2) d + |grad f_0(0)|^2) / eps^2), rounded up, segments of log(1 + 1/(2 L)) / 2.
        """
        smooth, d, eps = positive("smoothness", smoothness), whole("d", d, 1), positive("eps", eps)
        slope = number("gradient_at_zero", gradient_at_zero)
        slope = positive("gradient_at_zero", abs(slope)) if slope else 0.0
        count = _rounded_up(4 * smooth * math.log(((1 + smooth**2) * d + slope**2) / eps**2))
        return Segments.even(count * longest(smooth), count)

    def __len__(self) -> int:
        return len(self.times) - 1

    @property
    def lengths(self) -> tuple[float, ...]:
        """eta of each segment."""
        return tuple(start - end for start, end in itertools.pairwise(self.times))


def _rounded_up(segments: float) -> int:
    """At least 1; more than anybody has time for are refused."""
    if not segments <= MOST:
        raise InputError(f"that asks for {segments:.3g} segments, more than {MOST:,}: is the smoothness right?")
    return max(1, math.ceil(segments))


@dataclass(frozen=True, eq=False)
class Marginal(Potential):
    """p_t itself, the same for all rows."""

    score: ScoreOracle
    time: float
    """t, where the segment ends."""

    def gradient(self, z: Tensor) -> Tensor:
        return -self.score_at(z, self.time)

    def energy_difference(self, old: Tensor, new: Tensor) -> Difference:
        ratio = self.score.log_ratio(old, new, self._times(old, self.time))
        return Difference(-ratio.value, ratio.error)

    def score_at(self, z: Tensor, time: float) -> Tensor:
        """grad log p at `time`, which may be another than the end: (rows, d)."""
        return self.score(z, self._times(z, time))

    def _times(self, z: Tensor, time: float) -> Tensor:
        return torch.full((len(z),), time, dtype=torch.float64, device=z.device)


@final
@dataclass(frozen=True, eq=False)
class RTKTarget(Marginal):
    """The reverse transition kernel of one segment, for a batch of rows with an x' each."""

    eta: float
    """The length of the segment: x' is a state at time t + eta."""
    x_prime: Tensor  # (rows, d) float64

    @property
    def curvature(self) -> float:
        """Of the quadratic term, which is curvature / 2 |z - centre|^2."""
        return 1 / math.expm1(2 * self.eta)

    @property
    def centre(self) -> Tensor:
        """Of the quadratic term: exp(eta) x' (rows, d)."""
        return math.exp(self.eta) * self.x_prime

    def gradient(self, z: Tensor) -> Tensor:
        return self.curvature * (z - self.centre) + super().gradient(z)

    def energy_difference(self, old: Tensor, new: Tensor) -> Difference:
        of_time = super().energy_difference(old, new)
        # |new - c|^2 - |old - c|^2 without the squares of large numbers
        quadratic = self.curvature * ((new - old) * ((new + old) / 2 - self.centre)).sum(1)
        return Difference(quadratic + of_time.value, of_time.error)
