"""Distributions of vectors whose denoiser is known exactly."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.randomness import seeded
from drawahead.validate import as_float64, whole


@final
class GaussianTarget(DenoisingTarget):
    """N(mean, covariance): give `variances` (d,), one for each coordinate, or a whole `covariance` (d, d)."""

    def __init__(
        self, *, variances: Tensor | None = None, covariance: Tensor | None = None, mean: Tensor | None = None
    ) -> None:
        if (variances is None) == (covariance is None):
            raise InputError("give either variances (d,) or covariance (d, d)")
        if covariance is not None:
            matrix = as_float64("covariance", covariance, finite=True)
            if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or not torch.allclose(matrix, matrix.T):
                raise InputError(f"covariance must be a symmetric (d, d) matrix, not {tuple(matrix.shape)}")
            spectrum, self.basis = torch.linalg.eigh(matrix)
        else:
            spectrum, self.basis = as_float64("variances", variances, finite=True), None
        if spectrum.dim() != 1 or not len(spectrum) or bool((spectrum < 0).any()):
            raise InputError("variances must be a vector of numbers that are not negative")
        self.spectrum = spectrum.clamp(min=0)
        self.shape = (len(spectrum),)
        self.centre = torch.zeros_like(spectrum) if mean is None else as_float64("mean", mean, finite=True)
        if self.centre.shape != self.shape:
            raise InputError(f"mean must have shape {self.shape}, not {tuple(self.centre.shape)}")
        self.radius = max(float(self.spectrum.max()) ** 0.5, 1e-6)

    def mean(self, x: Tensor, t: Tensor) -> Tensor:
        # Tilted by exp(<y, x> - t |y|^2 / 2): covariance C = (spectrum^-1 + t)^-1, mean centre + C (x - t centre).
        pull = x - t[:, None] * self.centre
        shrink = self.spectrum / (1 + t[:, None] * self.spectrum)
        moved = shrink * pull if self.basis is None else (shrink * (pull @ self.basis)) @ self.basis.T
        return torch.add(moved, self.centre)


@final
class GaussianMixture(DenoisingTarget):
    """sum_c weights[c] N(means[c], variances[c] I), means (c, d)."""

    def __init__(self, means: Tensor, variances: Tensor | float, weights: Tensor | None = None) -> None:
        self.means = as_float64("means", means, finite=True)
        if self.means.dim() != 2 or not self.means.numel():
            raise InputError(f"means must be (components, d), not {tuple(self.means.shape)}")
        components = len(self.means)
        spread = as_float64("variances", variances, finite=True)
        weights = torch.ones_like(self.means[:, 0]) if weights is None else as_float64("weights", weights, finite=True)
        if spread.shape not in ((), (1,), (components,)) or bool((spread < 0).any()):
            raise InputError(f"variances must be one number or {components}, none of them negative")
        if weights.shape != (components,) or bool((weights < 0).any()) or not bool(weights.any()):
            raise InputError(f"weights must be {components} numbers, none of them negative and not all 0")
        self.variances, self.log_weights = spread.expand(components), weights.log()
        self.shape = (self.means.shape[1],)
        centred = self.means - self.means.mean(0)
        square = float((centred**2).sum(1).max()) / self.means.shape[1] + float(self.variances.max())
        self.radius = max(square**0.5, 1e-6)

    @classmethod
    def random(cls, d: int, components: int = 20, variance: float = 0.1, seed: int = 0) -> GaussianMixture:
        """Standard normal means."""
        size = whole("components", components, 1), whole("d", d, 1)
        return cls(torch.randn(*size, dtype=torch.float64, generator=seeded(seed)), variance)

    def mean(self, x: Tensor, t: Tensor) -> Tensor:
        t = t[:, None]  # (m, 1)
        v, square = self.variances, (self.means**2).sum(1)  # (c,)
        wide = 1 + t * v  # (m, c)
        # log of the integral of N(y; a, v) exp(<y, x> - t |y|^2 / 2), up to what all components share
        inner = x @ self.means.T  # (m, c)
        exponent = (2 * inner + v * (x**2).sum(1, keepdim=True) - t * square) / (2 * wide)
        log_mass = self.log_weights + exponent - self.means.shape[1] / 2 * wide.log()
        share = log_mass.softmax(1) / wide  # (m, c)
        return share @ self.means + (share * v).sum(1, keepdim=True) * x


@final
class Hypercube(DenoisingTarget):
    """Uniform on {-1, +1}^d."""

    radius = 1.0

    def __init__(self, d: int) -> None:
        self.shape = (whole("d", d, 1),)

    def mean(self, x: Tensor, t: Tensor) -> Tensor:
        return torch.tanh(x)


@final
class DataSet(DenoisingTarget):
    """Uniform on the rows of `points` (p, *shape): the empirical distribution of real data.

    Its conditional mean is a softmax-weighted mean of the points, worked out in chunks of `chunk` points, so that
    60,000 images fit.
    """

    def __init__(self, points: Tensor, *, chunk: int = 8192) -> None:
        points = as_float64("points", points, finite=True)
        if points.dim() < 2 or not points.numel():
            raise InputError(f"points must be (number, *shape), not {tuple(points.shape)}")
        self.shape = tuple(points.shape[1:])
        self.points = points.flatten(1)
        self.half_square = (self.points**2).sum(1) / 2
        self.chunk = whole("chunk", chunk, 1)
        spread = (self.points - self.points.mean(0)).square().mean(1).max()
        self.radius = max(math.sqrt(float(spread)), 1e-6)

    def mean(self, x: Tensor, t: Tensor) -> Tensor:
        best = x.new_full((len(x), 1), -torch.inf)
        mass, total = torch.zeros_like(best), torch.zeros_like(x)
        for lo in range(0, len(self.points), self.chunk):  # a softmax that never holds all its weights
            points = self.points[lo : lo + self.chunk]
            score = x @ points.T - t[:, None] * self.half_square[lo : lo + self.chunk]  # (m, chunk)
            top = torch.maximum(best, score.max(1, keepdim=True).values)
            weight, fade = torch.exp(score - top), torch.exp(best - top)
            mass, total = mass * fade + weight.sum(1, keepdim=True), total * fade + weight @ points
            best = top
        return total / mass

    @classmethod
    def digits(cls) -> DataSet:
        """The 1797 handwritten digits of scikit-learn, 8 x 8, scaled to [-1, 1]. Needs the extra `digits`."""
        try:
            from sklearn.datasets import load_digits  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise InputError("the digits come with scikit-learn: pip install 'drawahead[digits]'") from None
        return cls(torch.as_tensor(load_digits().images, dtype=torch.float64) / 8 - 1)
