"""The ring of Gaussians: its score and energies, exact samples, and how far other samples are from it."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from drawahead.rtk import Difference, ScoreOracle, Segments
from drawahead.rtk.segments import longest
from studies.rtk.gaussian import distance, noised

MODES = 18
VARIANCE = 0.007


@final
class Ring(ScoreOracle):
    """18 modes of variance 0.007, 20 degrees apart on the unit circle, in the plane of the first two coordinates.

    The other d - 2 coordinates are N(0, 0.007), independent of all else. Turning the plane would change nothing: every
    method here is told a score and adds round noise, so that the law it draws turns with the target.
    """

    dtype = torch.float64

    def __init__(self, d: int) -> None:
        super().__init__()
        self.d, self.shape = d, (d,)
        angle = torch.arange(MODES, dtype=torch.float64) * (2 * math.pi / MODES)
        self.modes = torch.stack([angle.cos(), angle.sin()], 1)  # (18, 2)

    def log_ratio(self, old: Tensor, new: Tensor, t: Tensor) -> Difference:
        self.energy_calls += 1
        self.energy_queries += 2 * len(old)
        signal, spread = _levels(t)
        value = (old**2 - new**2).sum(1) / (2 * spread[:, 0])
        for sign, x in ((1, new), (-1, old)):
            value += sign * (signal / spread * (x[:, :2] @ self.modes.T)).logsumexp(1)
        return Difference(value, torch.zeros_like(value))

    def _answer(self, x: Tensor, t: Tensor) -> Tensor:
        signal, spread = _levels(t)
        share = (signal / spread * (x[:, :2] @ self.modes.T)).softmax(1)  # (m, 18)
        score = -x / spread
        score[:, :2] += signal / spread * (share @ self.modes)
        return score

    def draw(self, number: int, seed: int) -> Tensor:
        """Exact samples (number, d)."""
        generator = torch.Generator().manual_seed(seed)
        x: Tensor = VARIANCE**0.5 * torch.randn(number, self.d, dtype=torch.float64, generator=generator)
        x[:, :2] += self.modes[torch.randint(MODES, (number,), generator=generator)]
        return x


def _levels(t: Tensor) -> tuple[Tensor, Tensor]:
    """exp(-t), and the variance of each mode at time t (m, 1)."""
    return torch.exp(-t)[:, None], (VARIANCE * torch.exp(-2 * t) - torch.expm1(-2 * t))[:, None]


def spread(time: float) -> float:
    """The variance of each mode at a time."""
    return noised(VARIANCE, time)


def smoothness(time: float) -> float:
    """L: the largest curvature, in size, of -log p_t anywhere.

    The Hessian is I / s - C / s^2, C the covariance of exp(-t) mode given x: between 0 and exp(-2 t) / 2, which it is
    in the middle of the ring.
    """
    s = spread(time)
    return max(1 / s, math.exp(-2 * time) / (2 * s**2) - 1 / s)


def geometric(first: float, count: int, variance: float = VARIANCE) -> Segments:
    """Times at which the noise-to-signal ratio of a mode, exp(2 t) - 1 + variance, is geometric: fine near the data."""
    high, low = math.log(math.expm1(2 * first) + variance), math.log(variance)
    ratios = [math.exp(high + (low - high) * k / count) for k in range(1, count)]
    return Segments((first, *(math.log1p(ratio - variance) / 2 for ratio in ratios), 0.0))


def from_smoothness(first: float) -> Segments:
    """The theorem's segments with the smoothness of each time: each has L of its own end."""
    times = [0.0]
    while times[-1] < first:
        times.append(times[-1] + longest(smoothness(times[-1])))
    return Segments((first, *times[-2::-1]))


def truncation(first: float, d: int) -> float:
    """At most how far p_T is from the standard normals that all methods start with, in total variation.

    The plane of the ring by quadrature, the other coordinates exactly: their errors add up at most.
    """
    grid = torch.linspace(-8, 8, 401, dtype=torch.float64)
    x = torch.cartesian_prod(grid, grid)
    modes = math.exp(-first) * Ring(2).modes
    s = spread(first)
    drawn = torch.exp(-(x[:, None] - modes).square().sum(-1) / (2 * s)).mean(1) / (2 * math.pi * s)
    normal = torch.exp(-x.square().sum(1) / 2) / (2 * math.pi)
    plane = float((drawn - normal).abs().sum()) * float(grid[1] - grid[0]) ** 2 / 2
    return plane + (distance(s, d - 2) if d > 2 else 0.0)


@final
class Distances:
    """How far samples (m, d) are from the ring. Laws are cut into bins whose masses are known exactly."""

    def __init__(self, ring: Ring) -> None:
        self.ring, d = ring, ring.d
        along = [ring.modes[:, 0], ring.modes[:, 1]] + [torch.zeros(1, dtype=torch.float64)] * (d - 2)
        ends = [1.3, 1.3] + [3 * VARIANCE**0.5] * (d - 2)
        self.edges = [torch.linspace(-end, end, 31, dtype=torch.float64) for end in ends]
        self.masses = [_masses(centres, edges).mean(0) for centres, edges in zip(along, self.edges, strict=True)]
        self.plane_edges = torch.linspace(-1.35, 1.35, 19, dtype=torch.float64)
        x, y = (_masses(ring.modes[:, i], self.plane_edges) for i in range(2))
        self.plane = torch.einsum("ci,cj->ij", x, y) / MODES
        generator = torch.Generator().manual_seed(0)
        turns = torch.randn(32, d, dtype=torch.float64, generator=generator)
        self.directions = turns / turns.norm(dim=1, keepdim=True)

    def __call__(self, samples: Tensor) -> dict[str, float]:
        """All three, by name."""
        return {
            "marginal accuracy": 1 - self.marginal(samples),
            "total variation": self.total_variation(samples),
            "wasserstein": self.wasserstein(samples),
        }

    def marginal(self, samples: Tensor) -> float:
        """The mean over coordinates of the total variation of their laws, in 30 bins and two tails each."""
        parts = []
        for column, edges, mass in zip(samples.T, self.edges, self.masses, strict=True):
            counts = torch.bincount(torch.bucketize(column.contiguous(), edges), minlength=len(mass))
            parts.append(float((counts / len(samples) - mass).abs().sum()) / 2)
        return sum(parts) / len(parts)

    def total_variation(self, samples: Tensor) -> float:
        """In the plane of the ring, in 18 x 18 squares of side 0.15 and what is outside of them."""
        x, y = (torch.bucketize(samples[:, i].contiguous(), self.plane_edges) for i in range(2))
        counts = torch.bincount(x * len(self.plane) + y, minlength=self.plane.numel())
        return float((counts / len(samples) - self.plane.flatten()).abs().sum()) / 2

    def wasserstein(self, samples: Tensor) -> float:
        """W1 to the exact law, in the mean over 32 random directions: the area between distribution functions."""
        total = 0.0
        for direction in self.directions:
            values = (samples @ direction).sort().values
            centres = self.ring.modes @ direction[:2]
            grid = torch.linspace(float(min(values[0], -1.6)), float(max(values[-1], 1.6)), 1601, dtype=torch.float64)
            exact = torch.special.ndtr((grid - centres[:, None]) / VARIANCE**0.5).mean(0)
            drawn = torch.searchsorted(values, grid, right=True) / len(values)
            total += float(torch.trapezoid((drawn - exact).abs(), grid))
        return total / len(self.directions)


def _masses(centres: Tensor, edges: Tensor) -> Tensor:
    """The mass of N(centre, variance) between the edges, and in both tails: (centres, edges + 1)."""
    inner = torch.special.ndtr((edges - centres[:, None]) / VARIANCE**0.5)
    ends = torch.zeros(len(centres), 1, dtype=torch.float64)
    return torch.cat([ends, inner, 1 - ends], 1).diff(dim=1)
