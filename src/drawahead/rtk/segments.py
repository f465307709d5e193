"""The segments of the reverse process, and the law of each: the reverse transition kernel.

Given the state x' at time t + eta, the state z at time t has the density, up to a constant,

    p(z | x') = exp(-f_t(z) - |x' - exp(-eta) z|^2 / (2 (1 - exp(-2 eta)))),    f_t = -log p_t.

With an L-smooth f_t and eta = log(1 + 1/(2 L)) / 2 the quadratic term has curvature exactly 2 L, so that -log p(z | x')
has a curvature between L and 3 L: easy for a Markov chain.
"""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.rtk.potentials import Difference, Potential
from drawahead.rtk.scores import ScoreOracle
from drawahead.schedules.base import falls
from drawahead.validate import as_float64, number, whole
from drawahead.values import dataclass

MOST = 10_000_000
"""Segments at most."""


def longest(smoothness: float) -> float:
    """eta = log(1 + 1/(2 L)) / 2, the segment length at which the quadratic term has curvature 2 L."""
    return math.log1p(1 / (2 * positive("smoothness", smoothness))) / 2


def positive(name: str, value: float) -> float:
    """`value` as a number above 0 whose square is a number, too, or an InputError that names it."""
    given = number(name, value, above=0)
    if not 1e-100 <= given <= 1e100:
        raise InputError(f"{name} is too large or too small to work with: {given}")
    return given


@final
@dataclass(frozen=True)
class Segments:
    """Times of the forward process that fall from T (noise) to `last` >= 0 (data): K + 1 of them, K segments."""

    times: tuple[float, ...]

    def __post_init__(self) -> None:
        times = as_float64("times", self.times)
        if times.dim() != 1:
            raise InputError(f"times must be at least two numbers, not of shape {tuple(times.shape)}")
        object.__setattr__(self, "times", tuple(times.tolist()))
        if len(self.times) < 2 or not falls(self.times) or not self.times[-1] >= 0 or not self.times[0] < math.inf:
            raise InputError("times must be at least two numbers that fall strictly, none below 0")

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
        return Segments.even(first, max(1, _counted(length / longest(smoothness) - 1e-9)), last)

    @staticmethod
    def from_theory(smoothness: float, d: int, eps: float, gradient_at_zero: float = 0.0) -> Segments:
        """The theorems' choice for an error of about `eps` in total variation, down to time 0.

        K = 4 L log(((1 + L^2) d + |grad f_0(0)|^2) / eps^2), rounded up, segments of log(1 + 1/(2 L)) / 2.
        """
        smooth, d, eps = positive("smoothness", smoothness), whole("d", d, 1), positive("eps", eps)
        slope = number("gradient_at_zero", gradient_at_zero)
        slope = positive("gradient_at_zero", abs(slope)) if slope else 0.0
        log = math.log(((1 + smooth**2) * d + slope**2) / eps**2)
        count = max(1, _counted(4 * smooth * log))
        return Segments.even(count * longest(smooth), count)

    def __len__(self) -> int:
        return len(self.times) - 1

    @property
    def lengths(self) -> tuple[float, ...]:
        """eta of each segment."""
        return tuple(-float(step) for step in torch.tensor(self.times, dtype=torch.float64).diff())


def _counted(segments: float) -> int:
    """Rounded up; more than anybody has time for are refused."""
    if not segments <= MOST:
        raise InputError(f"that asks for {segments:.3g} segments, more than {MOST:,}: is the smoothness right?")
    return math.ceil(segments)


@final
@dataclass(frozen=True, eq=False)
class RTKTarget(Potential):
    """The reverse transition kernel of one segment, for a batch of rows with an x' each."""

    score: ScoreOracle
    time: float
    """t, where the segment ends."""
    eta: float
    """Its length: x' is a state at time t + eta."""
    x_prime: Tensor  # (rows, d) float64

    @property
    def curvature(self) -> float:
        """Of the quadratic term, which is curvature / 2 |z - centre|^2."""
        return 1 / math.expm1(2 * self.eta)

    @property
    def centre(self) -> Tensor:
        """Of the quadratic term: exp(eta) x' (rows, d)."""
        return math.exp(self.eta) * self.x_prime

    def score_at(self, z: Tensor, time: float) -> Tensor:
        """grad log p at another time, such as t + eta: (rows, d)."""
        return self.score(z, self._times(z, time))

    @property
    def has_energy(self) -> bool:
        return self.score.has_energy

    def gradient(self, z: Tensor) -> Tensor:
        return self.curvature * (z - self.centre) - self.score(z, self._times(z, self.time))

    def energy_difference(self, old: Tensor, new: Tensor) -> Difference:
        ratio = self.score.log_ratio(old, new, self._times(old, self.time))
        # |new - c|^2 - |old - c|^2 without the squares of large numbers
        quadratic = self.curvature * ((new - old) * ((new + old) / 2 - self.centre)).sum(1)
        return Difference(quadratic - ratio.value, ratio.error)

    def _times(self, z: Tensor, time: float) -> Tensor:
        return torch.full((len(z),), time, dtype=torch.float64, device=z.device)
