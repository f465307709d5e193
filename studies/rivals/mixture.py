"""The Gaussian mixture on which arXiv 2609.17691 and its code measure: 512 dimensions, 5 components, 30 steps.

A linear path x_t = (1 - t) x_0 + t noise, t from 1 to 0; the velocity (x - E[x_0 | x]) / t is a formula. Steps add
noise in proportion to the churn, but for the first and the last. Those two are left out, as its authors do: what is
counted is the calls for the 28 random steps, and the chain starts from a standard normal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import drawahead as da
from drawahead.schedules import Given, Plan
from studies.rivals.trees import Steps

SEED = 20260714


@dataclass(frozen=True)
class Mixture:
    """Means (m, d) and standard deviations (m,) of components of equal weight."""

    means: Tensor
    deviations: Tensor

    @staticmethod
    def published(dimension: int = 512, components: int = 5) -> Mixture:
        """The one that is drawn from its authors' seed."""
        random = np.random.default_rng(SEED)
        means = random.uniform(-2, 2, (components, dimension))
        return Mixture(torch.from_numpy(means), torch.from_numpy(random.uniform(0.1, 0.25, components)))

    def clean(self, x: Tensor, t: Tensor) -> Tensor:
        """E[x_0 | x_t = x] for states (m, d) at t (m,)."""
        signal = (1 - t)[:, None]
        variance = signal**2 * self.deviations**2 + t[:, None] ** 2  # (m, components)
        squares = x.square().sum(1)[:, None] - 2 * signal * x @ self.means.T + signal**2 * self.means.square().sum(1)
        weight = (-squares / (2 * variance) - self.means.shape[1] / 2 * variance.log()).softmax(1)
        gain = weight * signal * self.deviations**2 / variance
        return (weight - gain * signal) @ self.means + gain.sum(1)[:, None] * x


@dataclass(frozen=True)
class Protocol:
    """The mixture with its steps, at some churn."""

    mixture: Mixture
    churn: float
    steps: int = 30
    whole: bool = False
    """With the two deterministic steps."""

    @property
    def times(self) -> Tensor:
        """Before every step, and after the last."""
        times = torch.cat([torch.linspace(1, 1e-3, self.steps, dtype=torch.float64), torch.zeros(1).double()])
        return times if self.whole else times[1:-1]

    def coefficients(self) -> tuple[Tensor, Tensor, Tensor]:
        """a, b and s of x' = a x + b v + s noise."""
        here, after = self.times[:-1], self.times[1:]
        span, noisy = here - after, (here < 1) & (after > 0)
        left = torch.where(noisy, 1 - here, 1.0)
        a = 1 - torch.where(noisy, span * self.churn**2 / left, 0.0)
        b = -span * torch.where(noisy, 1 + self.churn**2, 1.0)
        return a, b, torch.where(noisy, self.churn * (2 * here / left * span).sqrt(), 0.0)

    def for_trees(self) -> Steps:
        """As the speculative baselines take it, in terms of velocities."""
        times = self.times

        def velocity(x: Tensor, step: Tensor) -> Tensor:
            t = times[step]
            return (x - self.mixture.clean(x, t)) / t[:, None]

        return Steps(velocity, *self.coefficients())

    def chain(self) -> da.GaussianChain:
        """As drawahead takes it, in terms of predictions of x_0."""
        times, (a, b, s) = self.times, self.coefficients()
        here = times[:-1]
        plan = Plan(a + b / here, -b / here, s, 1 - times, times, here, start=1.0)

        def denoiser(x: Tensor, step: Tensor) -> Tensor:
            return self.mixture.clean(x, here[step])

        return da.GaussianChain(denoiser, Given(plan), self.mixture.means.shape[1:], dtype=torch.float64)
