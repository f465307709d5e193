"""A Gaussian in parts, whose conditional means are known exactly; and the distributions of chains with affine answers,
which are Gaussian, worked out instead of drawn."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.ardiffusion.parts import Parts
from drawahead.chains.stacked import StackedChain
from drawahead.errors import InputError
from drawahead.validate import as_float64
from drawahead.values import dataclass


@final
class GaussianParts:
    """N(mean, covariance) on data that `parts` cuts: `covariance` (K d, K d) and `mean` (K d,) in the order of the
    parts, one after another."""

    def __init__(self, covariance: Tensor, parts: Parts, mean: Tensor | None = None) -> None:
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
        regressions, left = zip(*map(self._conditional, range(parts.number)), strict=True)
        self._regression = torch.stack(regressions)  # (K, d, K d): of a part on all before it, zeros elsewhere
        self._spectrum, self._basis = torch.linalg.eigh(torch.stack(left))  # (K, d), (K, d, d): of what is left

    @property
    def parts(self) -> Parts:
        return self._parts

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        """See `Conditionals.mean`: Bayes' rule, with a prior from the finished parts."""
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


@final
@dataclass(frozen=True, eq=False)
class Normal:
    """N(mean (n,), covariance (n, n)), in float64."""

    mean: Tensor
    covariance: Tensor

    def divergence(self, other: Normal) -> float:
        """The relative entropy KL(self || other) in nats."""
        root = torch.linalg.cholesky(other.covariance)
        white = torch.linalg.solve_triangular(root, self.covariance, upper=False)
        white = torch.linalg.solve_triangular(root, white.T, upper=False)  # other's covariance taken out
        gap = torch.linalg.solve_triangular(root, (other.mean - self.mean)[:, None], upper=False)
        moved = torch.linalg.eigvalsh((white + white.T) / 2) - 1
        # x - log(1 + x) is a difference of nearly equal numbers where the two are close
        excess = torch.where(moved.abs() < 1e-4, moved**2 / 2 - moved**3 / 3, moved - torch.log1p(moved))
        return float(excess.sum() + (gap**2).sum()) / 2

    def along(self, entries: Tensor | slice) -> Normal:
        """The distribution of some of the entries."""
        return Normal(self.mean[entries], self.covariance[entries][:, entries])


def law(chain: StackedChain) -> Normal:
    """The distribution of a chain's output, its lanes one after another, if the oracle is affine in the state.

    Nothing is drawn: the oracle answers about 0 and the unit vectors.
    """
    if chain.start_state is not None:
        raise InputError("law() is for chains without start=: leave it out")
    lanes, size = chain.plan.lanes, chain.size
    n = lanes * size
    probes = torch.cat([torch.zeros(1, n), torch.eye(n), torch.linspace(-1, 1, n)[None]]).double()
    eye = torch.eye(size, dtype=torch.float64)
    mean = torch.zeros(n, dtype=torch.float64)
    covariance = torch.diag(chain.plan.start.repeat_interleave(size) ** 2)

    def refreshed(mean: Tensor, covariance: Tensor, taken: int) -> tuple[Tensor, Tensor]:
        if chain.plan.refresh is None:
            return mean, covariance
        keep, add = (torch.kron(table[taken], eye) for table in chain.plan.refresh)
        return keep @ mean, keep @ covariance @ keep.T + add @ add.T

    mean, covariance = refreshed(mean, covariance, 0)
    for k in range(chain.steps):
        step = torch.full((len(probes),), k)
        answers = torch.as_tensor(chain.predict(probes.view(-1, lanes, size), step, {})).double().view(-1, size)
        slope = (answers[1:-1] - answers[0]).T  # (d, n)
        if not torch.allclose(slope @ probes[-1] + answers[0], answers[-1], rtol=1e-9, atol=1e-9):
            raise InputError(
                f"the oracle is not affine in the state at step {k}, so its distribution can only be sampled"
            )
        push = torch.kron(chain.plan.s[k] @ chain.plan.b[k][:, None], eye)  # (n, d)
        move = torch.kron(chain.plan.a[k], eye) + push @ slope
        mean = move @ mean + push @ answers[0]
        spread = torch.kron(chain.plan.s[k], eye) * (not chain.plan.is_deterministic[k])
        covariance = move @ covariance @ move.T + spread @ spread.T
        mean, covariance = refreshed(mean, covariance, k + 1)
    final = torch.kron(chain.plan.final.view(-1, lanes), eye)
    return Normal(final @ mean, final @ covariance @ final.T)
