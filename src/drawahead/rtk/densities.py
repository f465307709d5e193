"""Distributions whose noised versions p_t are known in closed form: log densities and scores, down to time 0.

X_t = exp(-t) Y + sqrt(1 - exp(-2 t)) g, so that a Gaussian stays Gaussian and a mixture of them a mixture.
"""

from __future__ import annotations

import math
from typing import TypeAlias, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.targets import GaussianMixture, GaussianTarget
from drawahead.validate import readable

Density: TypeAlias = "GaussianDensity | MixtureDensity"
"""The densities p_t of a distribution under the Ornstein-Uhlenbeck process, for x (m, d) and t (m,): `log_density`,
normalised (m,), and `score`, its gradient (m, d)."""


def density_of(target: DenoisingTarget) -> Density | None:
    """The closed form of this target's densities, where there is one."""
    if isinstance(target, GaussianTarget):
        return GaussianDensity(target)
    return MixtureDensity(target) if isinstance(target, GaussianMixture) else None


def _noised(variances: Tensor, t: Tensor) -> Tensor:
    """The variances of X_t where those of Y are `variances` (c,), at t (m,): (m, c)."""
    t = t[:, None]
    noised = variances * torch.exp(-2 * t) - torch.expm1(-2 * t)
    if readable(noised) and not bool((noised > 0).all()):
        raise InputError("the target has no density at time 0: let the times end above 0 (last=...)")
    return noised


@final
class GaussianDensity:
    def __init__(self, target: GaussianTarget) -> None:
        self.target = target

    def log_density(self, x: Tensor, t: Tensor) -> Tensor:
        pull, variances = self._along(x, t)
        return -(pull**2 / variances + (2 * math.pi * variances).log()).sum(1) / 2

    def score(self, x: Tensor, t: Tensor) -> Tensor:
        pull, variances = self._along(x, t)
        slope = -pull / variances
        return slope if self.target.basis is None else slope @ self.target.basis.T

    def _along(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """x - E X_t along the axes of the covariance, and its variances there (m, d)."""
        pull = x - torch.exp(-t)[:, None] * self.target.centre
        return pull if self.target.basis is None else pull @ self.target.basis, _noised(self.target.spectrum, t)


@final
class MixtureDensity:
    def __init__(self, target: GaussianMixture) -> None:
        self.means, self.variances = target.means, target.variances
        self.log_weights = target.log_weights.log_softmax(0)

    def log_density(self, x: Tensor, t: Tensor) -> Tensor:
        return self._parts(x, t)[0].logsumexp(1)

    def score(self, x: Tensor, t: Tensor) -> Tensor:
        log_part, variances = self._parts(x, t)
        share = log_part.softmax(1) / variances  # (m, c)
        return torch.exp(-t)[:, None] * (share @ self.means) - share.sum(1, keepdim=True) * x

    def _parts(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """The log density of each component, weighted, and its variance (m, c)."""
        variances = _noised(self.variances, t)
        signal = torch.exp(-t)[:, None]
        # |x - signal mean|^2, by differences: |x|^2 and |mean|^2 may be large beside it. (m, c)
        square = (signal * torch.cdist(x / signal, self.means, compute_mode="donot_use_mm_for_euclid_dist")) ** 2
        size = self.means.shape[1]
        return self.log_weights - (square / variances + size * (2 * math.pi * variances).log()) / 2, variances
