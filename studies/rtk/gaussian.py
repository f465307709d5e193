"""What RTK and DDPM draw where the target is N(0, v I): a law that is round itself, so that one number tells its error.

Every method here starts from a round law, adds round noise and is told a round score. So the output is round, and its
total variation from the target is that of the squared length |x|^2 alone. For DDPM and ULD the output is Gaussian and
its variance follows from the steps' coefficients; MALA is simulated by its lengths and one angle, whatever d is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy
import torch

from drawahead.rtk import MALA, ULD, Segments

BINS = 12


def noised(variance: float, time: float) -> float:
    """The variance at a time of what has this variance at time 0."""
    return variance * math.exp(-2 * time) - math.expm1(-2 * time)


@final
@dataclass(frozen=True)
class RoundGaussian:
    """N(0, v I) in d dimensions."""

    variance: float

    def noised(self, time: float) -> float:
        """The variance of p_t."""
        return noised(self.variance, time)

    @property
    def smoothness(self) -> float:
        """L for all times."""
        return max(1.0, 1 / self.variance)

    def ddpm(self, segments: Segments) -> float:
        """The variance of what `ReverseSDE()` draws."""
        variance = 1.0
        for time, h in zip(segments.times, segments.lengths, strict=False):
            factor = math.exp(h) - 2 * math.expm1(h) / self.noised(time)
            variance = factor**2 * variance + math.expm1(2 * h)
        return variance

    def uld(self, kernel: ULD, segments: Segments) -> list[float]:
        """The variances of what this `ULD` draws with 1, 2, ... `kernel.steps` steps a segment."""
        variances = [1.0] * kernel.steps
        for time, eta in zip(segments.times[1:], segments.lengths, strict=True):
            given = self._uld_segment(kernel, time, eta)
            variances = [slope**2 * before + own for before, (slope, own) in zip(variances, given, strict=True)]
        return variances

    def _uld_segment(self, kernel: ULD, time: float, eta: float) -> Iterator[tuple[float, float]]:
        """After each step, the mean of z as a multiple of x', and its variance given x': (z, v) is a linear chain."""
        c = kernel.coefficients
        var_z, cov, var_v = c.covariance
        quadratic = 1 / math.expm1(2 * eta)
        curvature, pull = 1 / self.noised(time) + quadratic, quadratic * math.exp(eta)
        slope, scale = kernel.begin.coefficients(eta)
        z, v = slope, 0.0
        zz, zv, vv = scale**2, 0.0, 1.0
        a, b = 1 - c.z_push * curvature, c.drift
        e, f = -c.v_push * curvature, c.keep
        for _ in range(kernel.steps):
            z, v = a * z + b * v + c.z_push * pull, e * z + f * v + c.v_push * pull
            zz, zv, vv = (
                a * a * zz + 2 * a * b * zv + b * b * vv + var_z,
                a * e * zz + (a * f + b * e) * zv + b * f * vv + cov,
                e * e * zz + 2 * e * f * zv + f * f * vv + var_v,
            )
            yield z, zz

    def mala(self, kernel: MALA, segments: Segments, d: int, number: int, seed: int) -> numpy.ndarray:
        """Squared lengths |x|^2 of what this `MALA` draws in d >= 2 dimensions (number,).

        The law of a segment is N(m, w I) with m along x', and a proposal is accepted by the length of u = z - m alone.
        So u is followed by its part along x' and the length of the rest, which noise moves in law like this: one
        direction is its own, the other d - 2 add a chi-square.
        """
        draw = numpy.random.default_rng(seed)
        square = draw.chisquare(d, number)
        for time, eta in zip(segments.times[1:], segments.lengths, strict=True):
            quadratic = 1 / math.expm1(2 * eta)
            w = 1 / (1 / self.noised(time) + quadratic)
            mean = quadratic * math.exp(eta) * w * numpy.sqrt(square)
            slope, scale = kernel.begin.coefficients(eta)
            along = slope * numpy.sqrt(square) - mean + scale * draw.standard_normal(number)
            across = scale**2 * draw.chisquare(d - 1, number)  # squared
            keep, spread = 1 - kernel.tau / w, math.sqrt(2 * kernel.tau)
            for _ in range(kernel.steps):
                new = keep * along + spread * draw.standard_normal(number)
                rest = (keep * numpy.sqrt(across) + spread * draw.standard_normal(number)) ** 2
                if d > 2:
                    rest += spread**2 * draw.chisquare(d - 2, number)
                growth = new**2 + rest - along**2 - across
                accepted = numpy.log(draw.random(number)) <= -kernel.tau / (4 * w**2) * growth
                along, across = numpy.where(accepted, new, along), numpy.where(accepted, rest, across)
            square = (mean + along) ** 2 + across
        return square

    def sampled_distance(self, squares: numpy.ndarray, d: int) -> float:
        """The total variation of squared lengths from those of the target, in 12 bins of equal mass."""
        ranks = torch.special.gammainc(
            torch.tensor(d / 2, dtype=torch.float64), torch.from_numpy(squares) / (2 * self.variance)
        )
        counts = torch.histc(ranks, BINS, 0, 1)
        return float((counts / len(squares) - 1 / BINS).abs().sum()) / 2


def distance(ratio: float, d: int) -> float:
    """The total variation between N(0, I) and N(0, ratio I) in d dimensions, exactly."""
    if abs(ratio - 1) < 1e-12:
        return 0.0
    crossing = d * math.log(ratio) / (1 - 1 / ratio)  # where |x|^2 is equally likely under both
    half = torch.tensor(d / 2, dtype=torch.float64)
    masses = [torch.special.gammainc(half, torch.tensor(crossing / (2 * v), dtype=torch.float64)) for v in (1, ratio)]
    return abs(float(masses[0] - masses[1]))


def largest_ratio(eps: float, d: int) -> float:
    """The ratio above 1 at which `distance` is eps."""
    low, high = 0.0, 50.0  # of log ratio
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if distance(math.exp(middle), d) < eps else (low, middle)
    return math.exp(low)
