"""Stacked chains whose law is known, and how samples are compared with it.

Every plan here ends in all lanes and every state is recorded, so a sample is a whole path X_1 ... X_N of lanes (c, d),
each as the next step meets it. With M_k = [R_{k+1} S_k | T_{k+1}], the noise of a step and of the refresh after it, the
departure of X_{k+1} from its mean given X_k is M_k (xi, zeta). Its whitened parts, found by the singular values of M_k,
are independent standard normals when a sampler is exact, and what M_k cannot reach is zero.

The first state has a Gaussian law of its own, worked out here for oracles that are linear: with it the whole path is
known, and so is the law of the last state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import drawahead as da
from drawahead import StackedChain, StackedPlan
from drawahead.samplers import Sampler
from tests.exactness import combined
from tests.gaussian.reference import normal_p_value, path_p_value

D = 2
GAINS = torch.tensor([1.0, 0.4], dtype=torch.float64)  # the two entries of a vector are answered differently
Oracle = Callable[[Tensor, Tensor], Tensor]


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Linear:
    """An oracle that is linear in the lanes: entry i of the answer is GAINS_i sum_j weights_kj X_ji + offset_k."""

    weights: Tensor  # (N, c)
    offset: Tensor  # (N,)

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        return GAINS * (self.weights[k][:, :, None] * x).sum(1) + self.offset[k, None]


@dataclass(frozen=True)
class Bent:
    """An oracle that is not linear: neighbouring entries and lanes meet in a sine."""

    weights: Tensor

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        return 1.5 * torch.sin((self.weights[k][:, :, None] * x.roll(1, -1)).sum(1)) + GAINS * x[:, 0] / 2


def parts(plan: StackedPlan) -> tuple[Tensor, Tensor]:
    """R (N + 1, c, c) and T (N + 1, c, q) of every refresh, done or not."""
    if plan.refresh is not None:
        return plan.refresh
    n, c = plan.steps, plan.lanes
    return torch.eye(c, dtype=torch.float64).expand(n + 1, c, c), torch.zeros(n + 1, c, 1, dtype=torch.float64)


def _mixing() -> StackedPlan:
    """Two lanes that mix, with correlated noise."""
    a = 0.9 * torch.linalg.qr(normal(6, 2, 2, seed=1)).Q
    s = torch.tensor([[0.8, 0.0], [0.6, 0.5]], dtype=torch.float64) * (1 + 0.3 * normal(6, 1, 1, seed=2).abs())
    start = torch.tensor([1.0, 0.5])
    return StackedPlan(a, 0.7 * normal(6, 2, seed=3), s, start=start, final=torch.eye(2), reads=normal(6, 2, seed=4))


def _refreshed() -> StackedPlan:
    """Position, velocity and where the segment began: three segments of two to three steps, as a sampler of kernels
    has, and one more refresh, partial, at the end."""
    n, c = 7, 3
    a = torch.tensor([[0.9, 0.5, 0.1], [-0.2, 0.7, 0.1], [0.0, 0.0, 1.0]], dtype=torch.float64).expand(n, c, c)
    s = torch.tensor([[0.6, 0.0], [0.5, 0.7], [0.0, 0.0]], dtype=torch.float64).expand(n, c, 2)
    b = torch.tensor([1.1, 0.4], dtype=torch.float64).expand(n, 2)
    keep, add = torch.eye(c, dtype=torch.float64).repeat(n + 1, 1, 1), torch.zeros(n + 1, c, 2, dtype=torch.float64)
    for k in (0, 3, 5):
        keep[k] = torch.tensor([[0.6, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
        add[k] = torch.tensor([[0.8, 0.3], [0.0, 1.0], [0.0, 0.0]])
    add[n, 0, 1] = 0.5
    return StackedPlan(
        a,
        b,
        s,
        start=torch.tensor([1.0, 0.0, 0.0]),
        final=torch.eye(c),
        refresh=(keep, add),
        reads=torch.eye(c)[:1].expand(n, c),
        slopes=(torch.full((n,), -2.0), torch.full((n,), 0.5)),
    )


def _in_turn() -> StackedPlan:
    """Three parts, one after another: in each step one lane moves, and the oracle reads them all."""
    n, c = 9, 3
    a, s = torch.eye(c, dtype=torch.float64).repeat(n, 1, 1), torch.zeros(n, c, 1, dtype=torch.float64)
    reads = torch.zeros(n, c, dtype=torch.float64)
    for k in range(n):
        a[k, k // 3, k // 3], s[k, k // 3, 0], reads[k, k // 3] = 0.7, 0.6, 1.0
    return StackedPlan(a, torch.full((n, 1), 0.9), s, start=torch.ones(c), final=torch.eye(c), reads=reads)


def _driven() -> StackedPlan:
    """One lane that moves, pushed by another that is noise anew before every step: short, for Recursive."""
    n, c = 4, 2
    a, s = torch.eye(c, dtype=torch.float64).expand(n, c, c), torch.tensor([[0.8], [0.0]]).expand(n, c, 1)
    keep = torch.diag(torch.tensor([1.0, 0.0])).expand(n + 1, c, c)
    add = torch.tensor([[0.0], [1.5]]).expand(n + 1, c, 1)
    return StackedPlan(a, torch.ones(n, 1), s, start=torch.ones(c), final=torch.eye(c), refresh=(keep, add))


PLANS = {"mixing": _mixing(), "refreshed": _refreshed(), "in turn": _in_turn(), "driven": _driven()}
LINEAR: dict[str, Oracle] = {
    "mixing": Linear(normal(6, 2, seed=4), normal(6, seed=5)),
    "refreshed": Linear(torch.tensor([[-0.9, 0.2, 0.7]], dtype=torch.float64).expand(7, 3), normal(7, seed=6)),
    "in turn": Linear(
        torch.tensor([[1.0, 0.0, 0.0], [0.8, -0.6, 0.0], [0.5, -0.9, 0.7]], dtype=torch.float64).repeat_interleave(
            3, 0
        ),
        torch.zeros(9, dtype=torch.float64),
    ),
    "driven": Linear(torch.tensor([[-0.5, 1.2]], dtype=torch.float64).expand(4, 2), normal(4, seed=8)),
}
BENT: dict[str, Oracle] = {name: Bent(oracle.weights) for name, oracle in LINEAR.items()}  # type: ignore[attr-defined]


def whole(plan: StackedPlan, oracle: Oracle, start: Tensor | None = None) -> StackedChain:
    """The chain with every state recorded."""
    return StackedChain(oracle, plan, (D,), record=range(1, plan.steps), start=start, dtype=torch.float64)


def innovations(plan: StackedPlan, oracle: Oracle, paths: Tensor, start: Tensor | None = None) -> Tensor:
    """The whitened noise of every step whose first state is known (m, parts of noise, d), from X_1 ... (m, N, c, d).

    The first state is known where it is given and no refresh comes before the first step.
    """
    keep, add = parts(plan)
    if start is not None:
        paths = torch.cat([start.expand_as(paths[:, :1]), paths], dim=1)
    found = []
    for i in range(paths.shape[1] - 1):
        k = i if start is not None else i + 1
        before, after = paths[:, i], paths[:, i + 1]
        answer = oracle(before, torch.full((len(before),), k))
        drift = plan.a[k] @ before + (plan.s[k] @ plan.b[k])[:, None] * answer[:, None]
        rest = after - keep[k + 1] @ drift
        u, size, _ = torch.linalg.svd(torch.cat([keep[k + 1] @ plan.s[k], add[k + 1]], dim=1))
        rank = int((size > 1e-9).sum())
        within = u.T @ rest
        if bool((within[:, rank:].abs() > 1e-9).any()):  # off what noise can reach: fails any check
            return torch.full_like(paths, 1e9).flatten(1, 2)
        found.append(within[:, :rank] / size[:rank, None])
    return torch.cat(found, dim=1)


@dataclass(frozen=True)
class Moments:
    """The exact law of the lanes after every number of steps, entry by entry."""

    mean: Tensor  # (N + 1, d, c)
    covariance: Tensor  # (N + 1, d, c, c)

    def white(self, k: int, lanes: Tensor) -> Tensor:
        """Lanes (m, c, d) after k steps as independent standard normals (m, rank, d)."""
        rest = (lanes.transpose(1, 2) - self.mean[k])[..., None]  # (m, d, c, 1)
        size, vector = torch.linalg.eigh(self.covariance[k])
        rank = int((size > 1e-9).all(0).sum())  # the same for every entry
        white: Tensor = (vector.mT @ rest)[..., -rank:, 0] / size[:, -rank:].sqrt()
        return white.transpose(1, 2)


def moments(plan: StackedPlan, oracle: Oracle) -> Moments:
    """Of a linear chain."""
    assert isinstance(oracle, Linear)
    keep, add = parts(plan)
    mean = torch.zeros(D, plan.lanes, dtype=torch.float64)
    covariance = torch.diag(plan.start**2).expand(D, -1, -1)
    means, covariances = [], []
    for k in range(plan.steps + 1):
        mean = mean @ keep[k].T
        covariance = keep[k] @ covariance @ keep[k].T + add[k] @ add[k].T
        means.append(mean)
        covariances.append(covariance)
        if k < plan.steps:
            push = plan.s[k] @ plan.b[k]  # (c,) where an answer of one leads
            slope = plan.a[k] + GAINS[:, None, None] * push[:, None] * oracle.weights[k]  # (d, c, c)
            mean = (slope @ mean[..., None])[..., 0] + push * oracle.offset[k]
            covariance = slope @ covariance @ slope.mT + plan.s[k] @ plan.s[k].T
    return Moments(torch.stack(means), torch.stack(covariances))


def linear_p_value(
    name: str, sampler: Sampler, draws: int, chain: StackedChain | None = None, graphs: bool | None = None
) -> float:
    """Draw whole paths; the first state, the last one, and all innovations against their laws, in one p-value.

    `chain` is what is drawn from, if it is not the chain of that name itself.
    """
    plan, oracle = PLANS[name], LINEAR[name]
    drawn = chain or whole(plan, oracle)
    paths = da.sample(drawn, draws, sampler=sampler, seed=0, max_live=draws, graphs=graphs).samples
    law = moments(plan, oracle)
    first, last = law.white(1, paths[:, 0]), law.white(plan.steps, paths[:, -1])
    path = torch.cat([first, innovations(plan, oracle, paths)], dim=1)
    return combined([*(normal_p_value(z) for z in last.flatten(1).T), path_p_value(path)])


def bent_p_value(name: str, sampler: Sampler, draws: int) -> float:
    """Draw whole paths of a chain that is not linear, from a given start; all innovations in one p-value."""
    plan, oracle = PLANS[name], BENT[name]
    start = normal(plan.lanes, D, seed=7)
    paths = da.sample(whole(plan, oracle, start), draws, sampler=sampler, seed=0, max_live=draws).samples
    known = None if plan.refresh is not None else start
    return path_p_value(innovations(plan, oracle, paths, known))
