"""Chains whose model is affine: their law is Gaussian, and worked out instead of drawn."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.chains.stacked import StackedChain
from drawahead.errors import InputError
from drawahead.validate import instance
from drawahead.values import dataclass


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
        # x - log(1 + x) is a difference of nearly equal numbers where the laws are close
        excess = torch.where(moved.abs() < 1e-4, moved**2 / 2 - moved**3 / 3, moved - torch.log1p(moved))
        return float(excess.sum() + (gap**2).sum()) / 2

    def along(self, entries: Tensor | slice) -> Normal:
        """The law of some of the entries."""
        return Normal(self.mean[entries], self.covariance[entries][:, entries])


def law(chain: StackedChain) -> Normal:
    """The law of a chain's output, its lanes one after another, if the oracle is affine in the state. Nothing is drawn:
    the oracle is asked at 0 and at the unit vectors."""
    instance("chain", chain, StackedChain, "a StackedChain")
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
            raise InputError(f"the oracle is not affine in the state at step {k}, so its law can only be sampled")
        push = torch.kron(chain.plan.s[k] @ chain.plan.b[k][:, None], eye)  # (n, d)
        move = torch.kron(chain.plan.a[k], eye) + push @ slope
        mean = move @ mean + push @ answers[0]
        spread = torch.kron(chain.plan.s[k], eye) * (not chain.plan.is_deterministic[k])
        covariance = move @ covariance @ move.T + spread @ spread.T
        mean, covariance = refreshed(mean, covariance, k + 1)
    final = torch.kron(chain.plan.final.view(-1, lanes), eye)
    return Normal(final @ mean, final @ covariance @ final.T)
