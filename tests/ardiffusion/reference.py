"""A Gaussian in parts, the law of the discretised chain that draws it, and how samples are compared with that law.

The law is worked out here from the joint covariance alone: at every step the whole of (finished parts, noisy part) is
one Gaussian vector with the part that is wanted, and the prediction is its regression. Nothing of the library's own
closed form is used. The chains are coarse on purpose: drafts are then far from their targets.

Power of the combined Kolmogorov-Smirnov tests at LEVEL: a distance of 0.04 in one coordinate shows with probability
0.99 from about 10 000 draws on, 0.07 from 3 000.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.special import ndtr

import drawahead as da
from drawahead import ardiffusion as ar
from drawahead import rtk
from drawahead.schedules import Plan, Schedule, linear_betas
from drawahead.verification.statistics import kolmogorov
from tests.exactness import combined

NUMBER, SIZE = 3, 2
PARTS = ar.Parts((NUMBER * SIZE,), (NUMBER,))
SCHEDULES: dict[str, Schedule] = {
    "ou": da.OUExponential.even(5, first=2.0, last=0.05),
    "ddpm": da.DDPM(betas=linear_betas(5, 0.2, 0.7)),  # its last step has no noise
    "localization": da.StochasticLocalization(5, radius=1.5, delta=0.1),  # a finished part is the state over T
}


def _strong() -> tuple[Tensor, Tensor]:
    """Parts that depend strongly on each other, with a mean that is not 0."""
    entries = NUMBER * SIZE
    generator = torch.Generator().manual_seed(3)
    root = torch.randn(entries, entries, dtype=torch.float64, generator=generator) / entries**0.5
    return root @ root.T + 0.1 * torch.eye(entries), torch.linspace(-1, 1, entries, dtype=torch.float64)


COVARIANCE, MEAN = _strong()
TARGET = ar.GaussianParts(COVARIANCE, PARTS, MEAN)


def chain_law(plan: Plan) -> tuple[Tensor, Tensor]:
    """Mean and covariance of what the chain draws, parts one after another."""
    n = NUMBER * SIZE
    mean, covariance = torch.zeros(n).double(), plan.start**2 * torch.eye(n).double()
    for j in range(NUMBER):
        own = slice(j * SIZE, (j + 1) * SIZE)
        for r in range(len(plan.a)):
            slope, offset = _regression(j, float(plan.signal[r]), float(plan.noise[r]))
            move = torch.eye(n).double()
            move[own, own] = plan.a[r] * torch.eye(SIZE)
            move[own, : (j + 1) * SIZE] += plan.b[r] * slope
            mean = move @ mean
            mean[own] += plan.b[r] * offset
            covariance = move @ covariance @ move.T
            covariance[own, own] += plan.s[r] ** 2 * torch.eye(SIZE)
        mean[own] *= plan.final
        covariance[own] *= plan.final
        covariance[:, own] *= plan.final
    return mean, covariance


def _regression(j: int, signal: float, noise: float) -> tuple[Tensor, Tensor]:
    """Of part j on (the parts before it, signal * itself + noise): slope (d, (j + 1) d) and offset (d,)."""
    before, own = slice(0, j * SIZE), slice(j * SIZE, (j + 1) * SIZE)
    seen = COVARIANCE[: (j + 1) * SIZE, : (j + 1) * SIZE].clone()
    seen[own, before] *= signal
    seen[before, own] *= signal
    seen[own, own] = signal**2 * seen[own, own] + noise**2 * torch.eye(SIZE)
    cross = COVARIANCE[own, : (j + 1) * SIZE].clone()
    cross[:, own] *= signal
    slope = cross @ torch.linalg.pinv(seen)
    centre = MEAN[: (j + 1) * SIZE].clone()
    centre[own] *= signal
    return slope, MEAN[own] - slope @ centre


def normal_p_value(x: Tensor, mean: Tensor, covariance: Tensor) -> float:
    """That rows of x (m, n) have this Gaussian law: every coordinate, and every whitened one, and their radius."""
    root = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(root, (x.double() - mean).T, upper=False).T
    plain = (x.double() - mean) / covariance.diagonal().sqrt()
    radius = torch.special.gammainc(torch.tensor(x.shape[1] / 2).double(), (white**2).sum(1) / 2)
    tables = [*white.T, *plain.T]
    return combined([*(kolmogorov(ndtr(z)) for z in tables), kolmogorov(radius)])


def law_p_value(chain: da.Chain, name: str, sampler: da.Sampler, draws: int, seed: int = 0) -> float:
    """Draw from the chain and compare with the law of the schedule called so."""
    samples = da.sample(chain, draws, sampler=sampler, seed=seed, max_live=draws).samples
    law = langevin_law() if name == "langevin" else chain_law(SCHEDULES[name].plan())
    return normal_p_value(samples.flatten(1), *law)


LANGEVIN = ar.RTK(rtk.ULD(tau=0.25, gamma=1.5, steps=4), rtk.Segments((1.5, 0.7, 0.3, 0.1)))


def langevin_law(inner: ar.RTK = LANGEVIN) -> tuple[Tensor, Tensor]:
    """The same for ULD inside segments, from its update as it is written down. The state is (parts, z, v, x')."""
    assert isinstance(inner.kernel, rtk.ULD)
    n, c = NUMBER * SIZE, inner.kernel.coefficients
    eye = torch.eye(n + 3 * SIZE).double()
    z, v, x = (eye[n + i * SIZE : n + (i + 1) * SIZE] for i in range(3))  # what picks them out of a state
    at = slice(n, n + SIZE), slice(n + SIZE, n + 2 * SIZE), slice(n + 2 * SIZE, n + 3 * SIZE)
    mean, covariance = torch.zeros(len(eye)).double(), torch.zeros_like(eye)
    for j in range(NUMBER):
        own = slice(j * SIZE, (j + 1) * SIZE)
        move, noise = eye.clone(), torch.zeros_like(eye)
        move[at[0]], noise[at[0], at[0]] = 0.0, torch.eye(SIZE).double()  # the first x' is noise
        mean, covariance = move @ mean, move @ covariance @ move.T + noise
        for time, eta in zip(inner.segments.times[1:], inner.segments.lengths, strict=True):
            slope, scale = inner.kernel.begin.coefficients(eta)
            move, noise = eye.clone(), torch.zeros_like(eye)
            move[at[0]], move[at[1]], move[at[2]] = slope * z, 0.0, z
            noise[at[0], at[0]], noise[at[1], at[1]] = scale**2 * torch.eye(SIZE), torch.eye(SIZE).double()
            mean, covariance = move @ mean, move @ covariance @ move.T + noise
            signal, variance = math.exp(-time), -math.expm1(-2 * time)
            regression, offset = _regression(j, signal, variance**0.5)
            answer = regression[:, : j * SIZE] @ eye[: j * SIZE] + regression[:, j * SIZE :] @ z
            score, shift = (signal * answer - z) / variance, signal * offset / variance
            gradient = (z - math.exp(eta) * x) / math.expm1(2 * eta) - score
            move, push = eye.clone(), torch.zeros(len(eye)).double()
            move[at[0]], move[at[1]] = z + c.drift * v - c.z_push * gradient, c.keep * v - c.v_push * gradient
            push[at[0]], push[at[1]] = c.z_push * shift, c.v_push * shift
            var_z, cov, var_v = c.covariance
            noise = torch.zeros_like(eye)
            for row, column, value in ((0, 0, var_z), (0, 1, cov), (1, 0, cov), (1, 1, var_v)):
                noise[at[row], at[column]] = value * torch.eye(SIZE).double()
            for _ in range(inner.kernel.steps):
                mean, covariance = move @ mean + push, move @ covariance @ move.T + noise
        move = eye.clone()
        move[own] = z
        mean, covariance = move @ mean, move @ covariance @ move.T
    return mean[:n], covariance[:n, :n]
