"""How a law is checked: enumerate it, draw, count, compare. And the one budget all checks share.

Every stochastic check of the suite makes its verdict through the fixture `check` of conftest.py, which compares one
p-value with LEVEL. So with at most CHECKS of them (collection fails if there are more) the whole suite raises a
false alarm with probability at most BUDGET. Seeds are fixed: a suite that passes goes on passing until the noise
changes. A mutant is rejected when the same check gives less than LEVEL.

Sample sizes come from the power at LEVEL. A law at total variation d from the true one moves Pearson's statistic by
at least m (2 d)^2 with m draws, whatever the difference looks like, so on k cells (test_exactness.py checks it):

    draws     cells   rejected with probability 0.99 from d =
     2 000     81      0.128     Recursive, in CI
    20 000     81      0.041     all others, in CI
    20 000    243      0.050
   200 000    243      0.016     marked slow
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.samplers import Recursive, Sampler
from drawahead.verification.statistics import chi_square

BUDGET = 1e-3
CHECKS = 1250
LEVEL = BUDGET / CHECKS


def draws_for(sampler: Sampler, *, slow: bool = False) -> int:
    """How many draws a check takes; Recursive takes longest and gets fewer."""
    draws = 2_000 if isinstance(sampler, Recursive) else 20_000
    return 10 * draws if slow else draws


def outcomes(length: int, vocab_size: int) -> Tensor:
    """All sequences in lexical order (q^n, n)."""
    return torch.cartesian_prod(*[torch.arange(vocab_size)] * length).view(-1, length)


def joint_law(oracle: TokenOracle, order: Tensor | None = None, evidence: Tensor | None = None) -> Tensor:
    """The probability of every outcome (q^n,), by the chain rule along `order` through the masked rows.

    Outcomes that contradict `evidence` have none. The order matters only where the conditionals are inconsistent.
    """
    atoms = outcomes(oracle.length, oracle.vocab_size)
    known = torch.full((oracle.length,), HIDDEN) if evidence is None else evidence
    tokens = known.expand(len(atoms), -1).clone()
    law = ((known == HIDDEN) | (atoms == known)).all(1).double()
    for i in (torch.arange(oracle.length) if order is None else order).tolist():
        if known[i] == HIDDEN:
            law *= oracle.rows(tokens)[torch.arange(len(atoms)), i, atoms[:, i]].double().exp()
            tokens[:, i] = atoms[:, i]
    return law


def averaged_law(oracle: TokenOracle, evidence: Tensor | None = None) -> Tensor:
    """The law of a sample drawn in a uniformly random order: the mean of `joint_law` over all of them."""
    orders = list(itertools.permutations(range(oracle.length)))
    return torch.stack([joint_law(oracle, torch.tensor(order), evidence) for order in orders]).mean(0)


def outcome_counts(samples: Tensor, vocab_size: int) -> Tensor:
    """How often each outcome was drawn, in lexical order: (m, n) -> (q^n,)."""
    n = samples.shape[1]
    index = (samples * vocab_size ** torch.arange(n - 1, -1, -1)).sum(1)
    return torch.bincount(index, minlength=vocab_size**n)


def law_p_value(
    chain: Any,
    law: Tensor,
    sampler: Sampler,
    draws: int,
    seed: int = 0,
    max_live: int = 20_000,
    graphs: bool | None = None,
) -> float:
    """The check itself: draw from `chain` and compare the counts of whole outcomes with `law`."""
    result = da.sample(chain, draws, sampler=sampler, seed=seed, max_live=max_live, graphs=graphs)
    oracle = chain.oracle if isinstance(chain, da.TokenChain) else chain
    return chi_square(outcome_counts(result.samples, oracle.vocab_size), law)


def combined(p_values: list[float]) -> float:
    """One p-value from several (Bonferroni)."""
    return min(1.0, len(p_values) * min(p_values))
