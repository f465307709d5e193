"""Reverse transition kernels whose law is known, and how draws are compared with it.

Two cases. A mixture in one dimension: its conditional distribution function is worked out on a grid, straight from
Bayes' rule. A correlated Gaussian in three: mean and covariance in closed form. Each row has an x' of its own, one of
sixteen, and a draw z becomes F(z | x'), uniform if the kernel is right.

The unadjusted kernels have laws of their own: on a Gaussian, linear recursions of a mean and a covariance.

Kolmogorov-Smirnov at LEVEL with 10 000 rows sees a distance of 0.038 with probability 0.99.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.special import gammainc, ndtr

from drawahead import rtk
from drawahead.rtk import ULA, ULD, Kernel, MarkovKernel, Noise, RTKTarget
from drawahead.targets import GaussianMixture, GaussianTarget
from drawahead.verification.statistics import kolmogorov
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
        return halves(low + (place - index) * (high - low), which < len(places) // 2)

    def exact(seed: int) -> Tensor:
        u = torch.rand(rows, dtype=torch.float64, generator=generator(seed))
        index = torch.empty_like(which)
        for k in range(len(places)):
            index[which == k] = (torch.searchsorted(cdf[k], u[which == k]) - 1).clamp(0, len(grid) - 2)
        low, high = cdf[which, index], cdf[which, index + 1]
        return (grid[index] + (u - low) / (high - low) * (grid[1] - grid[0]))[:, None]

    return Case(of(score, time, eta, places[which, None]), uniforms, exact)


def gaussian_case(rows: int = ROWS, of: type[RTKTarget] = RTKTarget, time: float = TIME, eta: float = ETA) -> Case:
    """The Gaussian in three dimensions."""
    x_prime = 1.5 * normals(16, 3, seed=1)[torch.arange(rows) % 16]
    precision, pull = gaussian_kernel(x_prime, time, eta)
    covariance = torch.linalg.inv(precision)
    mean, root = pull @ covariance, torch.linalg.cholesky(covariance)

    return Case(
        of(rtk.exact(GAUSSIAN), time, eta, x_prime),
        lambda z: [v for u in gaussian_uniforms(z, mean, covariance) for v in halves(u, x_prime[:, 0] < 0)],
        lambda seed: mean + normals(rows, 3, seed=seed) @ root.T,
    )


def halves(u: Tensor, first: Tensor) -> list[Tensor]:
    """All, and each half of the x' apart: an error that depends on x' may vanish on average."""
    return [u, u[first], u[~first]]


def gaussian_kernel(x_prime: Tensor, time: float = TIME, eta: float = ETA) -> tuple[Tensor, Tensor]:
    """The precision P (3, 3) of the Gaussian's kernel, and P times its mean (rows, 3): grad g(z) = P z - pull."""
    signal, eye = math.exp(-time), torch.eye(3, dtype=torch.float64)
    prior = torch.linalg.inv(signal**2 * COVARIANCE - math.expm1(-2 * time) * eye)
    quadratic = 1 / math.expm1(2 * eta)
    return prior + quadratic * eye, signal * MEAN @ prior + quadratic * math.exp(eta) * x_prime


def gaussian_uniforms(z: Tensor, mean: Tensor, covariance: Tensor) -> list[Tensor]:
    """Uniform if z (rows, d) is N(mean, covariance): each whitened coordinate, and the radius."""
    root = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(root, (z - mean).T, upper=False)  # (d, rows)
    half = torch.tensor(len(root) / 2, dtype=torch.float64)
    return [*ndtr(white), gammainc(half, (white**2).sum(0) / 2)]


def integrated(gamma: float, tau: float) -> dict[str, float]:
    """A step of ULD by quadrature: what the equations dz = v dt, dv = -gamma v dt - grad dt + sqrt(2 gamma) dB carry
    from time s to the step's end is exp(-gamma s) for v and (1 - exp(-gamma s)) / gamma for z, all positive."""
    node, weight = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(200))
    s, w = tau * (1 + node) / 2, tau * weight / 2
    velocity, place = torch.exp(-gamma * s), -torch.expm1(-gamma * s) / gamma
    return {
        "drift": float(w @ velocity),
        "keep": math.exp(-gamma * tau),
        "z_push": float(w @ place),
        "v_push": float(w @ velocity),
        "var_z": 2 * gamma * float(w @ place**2),
        "cov": 2 * gamma * float(w @ (place * velocity)),
        "var_v": 2 * gamma * float(w @ velocity**2),
    }


def unadjusted_p_value(kernel: ULA | ULD, of: type[RTKTarget] = RTKTarget, seed: int = 0) -> float:
    """Of the state (z, or z and v) of ULA or ULD after all steps on the Gaussian, against its own exact law."""
    target = gaussian_case(of=of).target
    noise = Noise.of_samples(seed, ROWS)
    state, _ = kernel.run(target, kernel.init(target, noise), noise)
    precision, pull = gaussian_kernel(target.x_prime)
    slope, scale = kernel.begin.coefficients(target.eta)
    eye = torch.eye(3, dtype=torch.float64)
    mean, covariance = slope * target.x_prime, scale**2 * eye
    if isinstance(kernel, ULD):
        c = integrated(kernel.gamma, kernel.tau)
        move = torch.cat(
            [
                torch.cat([eye - c["z_push"] * precision, c["drift"] * eye], 1),
                torch.cat([-c["v_push"] * precision, c["keep"] * eye], 1),
            ]
        )
        push = torch.cat([c["z_push"] * pull, c["v_push"] * pull], 1)
        spread = torch.tensor([[c["var_z"], c["cov"]], [c["cov"], c["var_v"]]], dtype=torch.float64)
        spread = torch.kron(spread, eye)
        mean, covariance = torch.cat([mean, 0 * mean], 1), torch.block_diag(covariance, eye)
        assert state.velocity is not None
        z = torch.cat([state.z, state.velocity], 1)
    else:
        move, push, spread, z = eye - kernel.tau * precision, kernel.tau * pull, 2 * kernel.tau * eye, state.z
    for _ in range(kernel.steps):
        mean, covariance = mean @ move.T + push, move @ covariance @ move.T + spread
    return combined([kolmogorov(u) for u in gaussian_uniforms(z, mean, covariance)])
