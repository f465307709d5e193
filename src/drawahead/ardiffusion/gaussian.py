"""A Gaussian in parts: its conditional means are known exactly, and so is the law of every chain that asks for them."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.ardiffusion.parts import Parts
from drawahead.errors import InputError
from drawahead.validate import as_float64, instance


@final
class GaussianParts:
    """N(mean, covariance) on data that `parts` cuts: `covariance` (K d, K d) and `mean` (K d,) in the order of the
    parts, one after another."""

    def __init__(self, covariance: Tensor, parts: Parts, mean: Tensor | None = None) -> None:
        instance("parts", parts, Parts, "a Parts")
        entries = parts.number * parts.size
        self._parts = parts
        self.covariance = as_float64("covariance", covariance, finite=True)
        self.centre = self.covariance.new_zeros(entries) if mean is None else as_float64("mean", mean, finite=True)
        if self.covariance.shape != (entries, entries) or self.centre.shape != (entries,):
            raise InputError(
                f"covariance must be ({entries}, {entries}) and mean ({entries},) for these parts, not "
                f"{tuple(self.covariance.shape)} and {tuple(self.centre.shape)}"
            )
        if not torch.allclose(self.covariance, self.covariance.T) or bool(
            (torch.linalg.eigvalsh(self.covariance) <= 0).any()
        ):
            raise InputError("covariance must be symmetric and positive definite")
        regressions, spectra, bases = [], [], []
        for j in range(parts.number):
            regression, covariance_left = self._conditional(j)
            regressions.append(regression)
            spectrum, basis = torch.linalg.eigh(covariance_left)
            spectra.append(spectrum)
            bases.append(basis)
        self._regression = torch.stack(regressions)  # (K, d, K d): of a part on all before it, zeros elsewhere
        self._spectrum, self._basis = torch.stack(spectra), torch.stack(bases)  # (K, d), (K, d, d): of what is left

    @property
    def parts(self) -> Parts:
        return self._parts

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        """See `Conditionals.mean`: Bayes' rule, with the finished parts giving the prior."""
        number, size = self.parts.number, self.parts.size
        centre = self.centre.view(number, size)
        finished = torch.arange(number) < part[:, None]
        moved = torch.where(finished[..., None], state.double() - centre, 0.0).flatten(1)  # (m, K d)
        prior = centre[part] + torch.bmm(self._regression[part], moved[..., None])[..., 0]
        own = state[torch.arange(len(part)), part].double()
        spectrum, basis = self._spectrum[part], self._basis[part]
        gain = signal[:, None] * spectrum / (signal[:, None] ** 2 * spectrum + noise[:, None] ** 2)
        surprise = torch.bmm((own - signal[:, None] * prior)[:, None], basis)[:, 0]
        return prior + torch.bmm(basis, (gain * surprise)[..., None])[..., 0]

    def _conditional(self, j: int) -> tuple[Tensor, Tensor]:
        """Of part j on those before: regression (d, K d) and the covariance that is left (d, d)."""
        size, sigma = self.parts.size, self.covariance
        before, own = slice(0, j * size), slice(j * size, (j + 1) * size)
        slope = torch.linalg.solve(sigma[before, before], sigma[before, own]).T
        left = sigma[own, own] - slope @ sigma[before, own]
        regression = torch.zeros(size, len(sigma), dtype=torch.float64)
        regression[:, before] = slope
        return regression, (left + left.T) / 2
