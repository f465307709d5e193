"""Reverse transition kernels whose law is known, and how draws are compared with it.

Two cases. A mixture in one dimension: its conditional distribution function is worked out on a grid, straight from
Bayes' rule. A correlated Gaussian in three: mean and covariance in closed form. Each row has an x' of its own, one of
sixteen, and a draw z becomes F(z | x'), uniform if the kernel is right.

Kolmogorov-Smirnov at LEVEL with 10 000 rows sees a distance of 0.038 with probability 0.99.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.special import gammainc, ndtr

from drawahead import rtk
from drawahead.agreement import kolmogorov
from drawahead.rtk import Kernel, MarkovKernel, Noise, RTKTarget
from drawahead.targets import GaussianMixture, GaussianTarget
from tests.exactness import combined

ROWS = 10_000
TIME, ETA = 0.15, 0.25
MIXTURE = GaussianMixture(
    torch.tensor([[-1.5], [0.3], [1.8]]), torch.tensor([0.2, 0.1, 0.3]), torch.tensor([0.5, 0.2, 0.3])
)
COVARIANCE = torch.tensor([[1.5, 0.6, -0.3], [0.6, 0.8, 0.1], [-0.3, 0.1, 0.4]], dtype=torch.float64)
MEAN = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
GAUSSIAN = GaussianTarget(covariance=COVARIANCE, mean=MEAN)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normals(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, dtype=torch.float64, generator=generator(seed))


@dataclass(frozen=True, eq=False)
class Case:
    """A segment's kernel, and its law."""

    target: RTKTarget
    uniforms: Callable[[Tensor], list[Tensor]]
    """Numbers that are uniform on (0, 1) when z (rows, d) has the law."""
    exact: Callable[[int], Tensor]
    """Draws with the law, from a seed (rows, d)."""

    def p_value(self, z: Tensor) -> float:
        return combined([kolmogorov(u) for u in self.uniforms(z)])

    def draw_p_value(self, kernel: Kernel, seed: int = 0) -> float:
        """Of draws by the kernel as a whole: started where it starts, after all its steps."""
        return self.p_value(kernel.draw(self.target, Noise.of_samples(seed, len(self.target.x_prime)))[0])

    def stays_p_value(self, kernel: MarkovKernel, seed: int = 0) -> float:
        """Of where the kernel's steps lead from draws with the law: to the same law if they leave it unchanged."""
        noise = Noise.of_samples(seed, len(self.target.x_prime))
        state = kernel.start(self.target, self.exact(seed), noise)
        return self.p_value(kernel.run(self.target, state, noise)[0].z)


def mixture_case(
    rows: int = ROWS, of: type[RTKTarget] = RTKTarget, radius: float = math.inf, time: float = TIME, eta: float = ETA
) -> Case:
    """The mixture, with `of` in the place of RTKTarget; restricted to |z| <= radius."""
    score = rtk.exact(MIXTURE)
    places = torch.linspace(-2.5, 2.5, 16, dtype=torch.float64)
    which = torch.arange(rows) % len(places)
    grid = torch.linspace(-8, 8, 8001, dtype=torch.float64)
    # Bayes: p_t(z) N(x'; exp(-eta) z, 1 - exp(-2 eta))
    prior = score.log_density(grid[:, None], torch.full_like(grid, time))
    likelihood = -((places[:, None] - math.exp(-eta) * grid) ** 2) / (2 * -math.expm1(-2 * eta))
    density = torch.where(grid.abs() <= radius, (prior + likelihood).exp(), 0.0)  # (16, grid)
    below = torch.nn.functional.pad((density[:, 1:] + density[:, :-1]).cumsum(1), (1, 0))
    cdf = below / below[:, -1:]

    def uniforms(z: Tensor) -> list[Tensor]:
        place = ((z[:, 0] + 8) / 16 * (len(grid) - 1)).clamp(0, len(grid) - 1.001)
        index = place.long()
        low, high = cdf[which, index], cdf[which, index + 1]
        return [low + (place - index) * (high - low)]

    def exact(seed: int) -> Tensor:
        u = torch.rand(rows, dtype=torch.float64, generator=generator(seed))
        index = (torch.searchsorted(cdf[which], u[:, None])[:, 0] - 1).clamp(0, len(grid) - 2)
        low, high = cdf[which, index], cdf[which, index + 1]
        return (grid[index] + (u - low) / (high - low) * (grid[1] - grid[0]))[:, None]

    return Case(of(score, time, eta, places[which, None]), uniforms, exact)


def gaussian_case(rows: int = ROWS, of: type[RTKTarget] = RTKTarget, time: float = TIME, eta: float = ETA) -> Case:
    """The Gaussian in three dimensions."""
    x_prime = 1.5 * normals(16, 3, seed=1)[torch.arange(rows) % 16]
    signal, eye = math.exp(-time), torch.eye(3, dtype=torch.float64)
    prior = torch.linalg.inv(signal**2 * COVARIANCE - math.expm1(-2 * time) * eye)
    covariance = torch.linalg.inv(prior + eye / math.expm1(2 * eta))
    mean = (signal * MEAN @ prior + math.exp(eta) * x_prime / math.expm1(2 * eta)) @ covariance
    root = torch.linalg.cholesky(covariance)

    def uniforms(z: Tensor) -> list[Tensor]:
        white = torch.linalg.solve_triangular(root, (z - mean).T, upper=False)  # (3, rows)
        return [*ndtr(white), gammainc(torch.tensor(1.5, dtype=torch.float64), (white**2).sum(0) / 2)]

    return Case(
        of(rtk.exact(GAUSSIAN), time, eta, x_prime),
        uniforms,
        lambda seed: mean + normals(rows, 3, seed=seed) @ root.T,
    )
