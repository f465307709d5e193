"""The bound on the error of auto-regressive diffusion, term by term, where everything is linear and so known exactly.

The theorem (Huang et al. 2025), for R steps of length eta a part, T = R eta, exact up to score errors of eps^2 a part:

    KL <~ 2 exp(-2 T) L (m + d)  +  (L^2 R eta^2 + T eta) d + eta m  +  eta K R eps^2

L bounds the curvature of the log density, m = E|x|^2. The data here are Gaussian, so the chain's law is Gaussian, and
KL(data || drawn) is worked out. Beside it stands the *path* KL: of the whole reverse diffusion from the chain that
holds the score fixed over each step (Girsanov). Proofs of such bounds go through it, and it bounds the KL itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy
import torch
from torch import Tensor

from drawahead.ardiffusion import GaussianParts, Normal, Parts, chain, law
from drawahead.schedules import OUExponential

_END = 1e-9  # stands for time 0
_NODES, _WEIGHTS = (torch.from_numpy(x) for x in numpy.polynomial.legendre.leggauss(8))


@final
@dataclass(frozen=True)
class Biased:
    """A target whose score is wrong by a constant vector of length `error` in every part."""

    target: GaussianParts
    error: float

    @property
    def parts(self) -> Parts:
        return self.target.parts

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        # score = (signal mean - x) / noise^2
        push: Tensor = self.error * self.parts.size**-0.5 * noise**2 / signal
        return self.target.mean(state, part, signal, noise) + push[:, None]


@dataclass(frozen=True)
class Case:
    """One chain: what is drawn, how, and how wrong the score is."""

    number: int = 2
    size: int = 2
    correlation: float = 0.5
    """Of neighbouring entries; it falls geometrically from there."""
    shift: float = 0.0
    """The mean of every entry."""
    variance: float | None = None
    """If given, the covariance is this times the identity."""
    duration: float = 6.0
    steps: int = 60
    error: float = 0.0

    @property
    def target(self) -> GaussianParts:
        d = self.number * self.size
        place = torch.arange(d, dtype=torch.float64)
        covariance = self.correlation ** (place[:, None] - place).abs()
        if self.variance is not None:
            covariance = self.variance * torch.eye(d, dtype=torch.float64)
        return GaussianParts(covariance, Parts((d,), (self.number,)), torch.full((d,), self.shift))

    @property
    def schedule(self) -> OUExponential:
        times = torch.linspace(self.duration, 0, self.steps + 1, dtype=torch.float64).tolist()
        return OUExponential((*times[:-1], _END))


def measured(case: Case) -> dict[str, float]:
    """What is known of a case: the bound's terms, the path KL's, and the KL itself."""
    target, eta = case.target, case.duration / case.steps
    d, spectra = len(target.centre), _conditional_spectra(target)
    smooth = float(1 / torch.linalg.eigvalsh(target.covariance).min())
    moment = float(target.covariance.trace() + (target.centre**2).sum())
    truth = Normal(target.centre, target.covariance)
    return {
        "kl": truth.divergence(law(chain(Biased(target, case.error), case.schedule))),
        "path truncation": _path_truncation(target, spectra, case.duration),
        "path discretisation": _path_discretisation(spectra, case.schedule.times),
        "path score": case.number * case.duration * case.error**2,
        "bound truncation": 2 * math.exp(-2 * case.duration) * smooth * (moment + d),
        "bound discretisation": (smooth**2 * case.steps * eta**2 + case.duration * eta) * d + eta * moment,
        "bound score": eta * case.number * case.steps * case.error**2,
    }


def _conditional_spectra(target: GaussianParts) -> Tensor:
    """The variances of each part given those before, along its own axes (K, d)."""
    number, size = target.parts.number, target.parts.size
    root = torch.linalg.cholesky(target.covariance)  # its diagonal blocks are those of the conditional covariances
    blocks = [root[j * size : (j + 1) * size, j * size : (j + 1) * size] for j in range(number)]
    return torch.stack([torch.linalg.eigvalsh(block @ block.T) for block in blocks])


def _path_truncation(target: GaussianParts, spectra: Tensor, duration: float) -> float:
    """The KL of each part at time T from standard noise, in the mean over the parts before it."""
    gone = math.exp(-2 * duration)
    moved = gone * (spectra.flatten() - 1)
    # The conditional mean of a part has the variance that its conditional covariance lacks, and the mean of the part.
    means = target.covariance.diagonal().sum() - spectra.sum() + (target.centre**2).sum()
    return float((moved - torch.log1p(moved)).sum() + gone * means) / 2


def _path_discretisation(spectra: Tensor, times: Sequence[float]) -> float:
    """The integral over time of E|score now - score at the start of the step|^2, by quadrature on every step."""
    grid = torch.tensor(times, dtype=torch.float64)
    start, length = grid[:-1, None], -grid.diff()[:, None]
    back = length * (1 + _NODES) / 2  # (steps, nodes): how far a node is from the step's start
    spectrum = spectra.flatten()[:, None, None]
    here, there = (spectrum * torch.exp(-2 * t) - torch.expm1(-2 * t) for t in (start - back, start))  # variances
    change = 1 / here + 1 / there - 2 * torch.exp(-back) / there
    return float((change * length / 2 * _WEIGHTS).sum())
