"""Chains whose steps are more than A x + B m + S xi, and the law of their paths.

Given every state, the noise of a step is what is left of it over its standard deviation, whatever a sampler did to draw
it: an exact one leaves independent standard normals (`reference.path_p_value`).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

import drawahead as da
from drawahead import GaussianChain
from drawahead.samplers import Sampler
from drawahead.schedules import Given, LearnedVariance, Plan, linear_betas
from tests.gaussian.reference import path_p_value

STEPS = 7


def learned(x: Tensor, k: Tensor) -> Tensor:
    """Predictions that bend, and log variances from far below their range to above it."""
    return torch.cat([torch.tanh(2 * x.roll(1, -1)), 2.2 * torch.sin(3 * x) - 1.0], dim=1)


def variances(x: Tensor, k: Tensor) -> Tensor:
    """Predictions that bend, and variances, some of them below the least that is expected."""
    return torch.cat([torch.tanh(2 * x.roll(1, -1)), 0.02 + torch.sin(2 * x) ** 2], dim=1)


def bent(x: Tensor, k: Tensor) -> Tensor:
    return torch.tanh(2 * x.roll(1, -1)) + 0.5 * torch.cos(3 * x)


def plan(s: float = 0.5, a: float = 0.7, b: float = 0.6) -> Plan:
    ones = torch.ones(STEPS, dtype=torch.float64)
    levels = torch.ones(STEPS + 1, dtype=torch.float64)
    return Plan(a * ones, b * ones, s * ones, levels, 0.3 * levels, torch.arange(STEPS), start=1.0)


def history() -> Plan:
    """As second-order multistep solvers have it: more of the newest prediction, and less of the one before."""
    c = torch.full((STEPS,), -0.5, dtype=torch.float64)
    c[0] = 0.0
    return replace(plan(b=1.1), c=c)


def centred(x: Tensor) -> Tensor:
    """The zero-centre-of-mass subspace of three particles on a line."""
    return x - x.mean(dim=1, keepdim=True)


RECORD = range(1, STEPS)
CHAINS: dict[str, GaussianChain] = {
    "learned range": GaussianChain(
        learned,
        da.DDPM(linear_betas(STEPS, 0.15, 0.7), learned_range=True),
        (2,),
        record=RECORD,
        dtype=torch.float64,
    ),
    "learned": GaussianChain(
        variances,
        Given(replace(plan(0.3), spread=LearnedVariance())),
        (2,),
        record=RECORD,
        dtype=torch.float64,
    ),
    "history": GaussianChain(bent, Given(history()), (2,), record=RECORD, dtype=torch.float64),
    "forgets": GaussianChain(bent, Given(plan(a=0.0)), (2,), record=RECORD, dtype=torch.float64),
    "subspace": GaussianChain(bent, Given(plan()), (3,), record=RECORD, dtype=torch.float64, project=centred),
    "all of it": GaussianChain(
        variances,
        Given(replace(history(), s=plan(0.3).s, spread=LearnedVariance())),
        (3,),
        record=RECORD,
        dtype=torch.float64,
        project=centred,
    ),
}
PLANE = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]], dtype=torch.float64).T / torch.tensor([2.0, 6.0]).sqrt()


def innovations(chain: GaussianChain, samples: Tensor) -> Tensor:
    """The noise of every random step from the second on (m, steps, d); of chains in a subspace, inside of it."""
    x, steps, noises = samples.flatten(2), chain.plan, []
    answers: list[Tensor] = []
    for k in range(1, chain.steps):
        answer = chain.denoiser(x[:, k - 1], torch.full((len(x),), k))
        answers.append(answer)
        data, spread = answer[:, : chain.size], answer[:, chain.size :]
        mean = steps.b[k] * chain.schedule.adjust(data)
        if steps.c is not None:
            if len(answers) == 1:  # the state before the first that is kept is not known
                continue
            mean = mean + steps.c[k] * answers[-2][:, : chain.size]
        rest = x[:, k] - steps.a[k] * x[:, k - 1] - (mean if chain.subspace is None else centred(mean))
        if not float(steps.s[k]):
            continue
        scale = steps.s[k]
        if steps.spread is not None:
            scale = steps.spread.scale(steps.spread.read(spread)[:, None], torch.tensor([[k]]))[:, 0]
        noises.append(rest / scale if chain.subspace is None else whitened(rest, scale))
    xi = torch.stack(noises, dim=1)
    outside = chain.subspace is not None and bool((x.sum(-1).abs() > 1e-9).any())
    return torch.full_like(xi, 1e9) if outside else xi  # a state outside of its subspace fails any check


def whitened(rest: Tensor, scale: Tensor) -> Tensor:
    """The noise of a projected step: the projection of noise with standard deviations `scale` (m, 3), made white."""
    scale = scale.expand_as(rest)
    covariance = PLANE.T @ (scale[..., None] ** 2 * PLANE)  # (m, 2, 2)
    root = torch.linalg.cholesky(covariance)
    return torch.linalg.solve_triangular(root, (rest @ PLANE)[..., None], upper=False)[..., 0]


def p_value(name: str, sampler: Sampler, draws: int, seed: int = 0, graphs: bool | None = None) -> float:
    """Draw whole paths, and check their innovations."""
    chain = CHAINS[name]
    samples = da.sample(chain, draws, sampler=sampler, seed=seed, max_live=draws, graphs=graphs).samples
    return path_p_value(innovations(chain, samples))
