"""The very samples that Sequential draws: how many may differ, if all that differs is the model's rounding.

Both draw each token as argmax(log p + G) with the same Gumbel noise G, that is as argmin(E / p) with the same
exponentials E. Asked in another batch the model may answer q for p. Token i wins under both if E_j / E_i is at least
max(p_j / p_i, q_j / q_i) for every j, which has probability 1 / sum_j max(p_j / p_i, q_j / q_i), at least
min(p_i, q_i) / sum_j max(p_j, q_j). Summed over i that is (1 - d) / (1 + d), d the total variation of p and q. So a
step differs with probability 2 d / (1 + d) at most. The noise of a step is independent of the steps before: a sample of
n steps is the same with probability ((1 - d) / (1 + d))^n at least, and samples are independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from drawahead.verification.findings import Finding


def explained(rounding: float, steps: int) -> float:
    """The probability that a sample differs, at most, if answers differ by `rounding` in total variation."""
    d = min(1.0, rounding)
    return -math.expm1(steps * (math.log1p(-d) - math.log1p(d))) if d < 1 else 1.0


def at_least(number: int, of: int, probability: float) -> float:
    """The probability that so many of so many happen, each with this probability, or more."""
    return float(_tails(of, probability)[number]) if number > 0 else 1.0


def _tails(of: int, probability: float) -> Tensor:
    """The probability that 0, 1, ... or more of so many happen (of + 1,)."""
    k = torch.arange(of + 1, dtype=torch.float64)
    chance = torch.lgamma(k[-1] + 1) - torch.lgamma(k + 1) - torch.lgamma(of - k + 1)
    chance += torch.special.xlogy(k, probability) + torch.special.xlog1py(of - k, -probability)
    return chance.flip(0).logcumsumexp(0).flip(0).exp().clamp(max=1)


@final
@dataclass(frozen=True)
class Bound:
    """How many samples may differ."""

    steps: int
    rounding: float
    """How far, in total variation, the model's answer to a question may be from run to run."""
    level: float
    """How often more samples may be called too many, though rounding explains them."""

    @property
    def probability(self) -> float:
        """That a sample differs, at most."""
        return explained(self.rounding, self.steps)

    def finding(self, check: str, samples: Tensor, sequential: Tensor, *, sound: bool) -> Finding:
        """Whether rounding explains the samples (m, n) that differ, if the model's answers are `sound`."""
        number = len(samples)
        other = int((samples != sequential).any(1).sum())
        p = at_least(other, number, self.probability) if sound or not other else 0.0
        if not other:
            words = f"all {number} samples are the same, token by token"
        elif not sound:
            words = f"{other} of {number} samples differ: the model does not answer the same question alike, see above"
        else:
            words = f"{other} of {number} samples differ (p = {p:.2g}); rounding of {self.rounding:.1g} a step "
            words += f"explains {number * self.probability:.2g} of them on average, at most"
        return Finding(check, p >= self.level, words, p_value=p)

    def least_found(self, number: int) -> float | None:
        """The least share of wrong samples that is found nine times in ten; None if none ever is."""
        failing = (_tails(number, self.probability) < self.level).nonzero()
        if not len(failing):
            return None
        too_few, enough = 0.0, 1.0
        for _ in range(30):
            share = (too_few + enough) / 2
            seen = at_least(int(failing[0]), number, share) >= 0.9
            too_few, enough = (too_few, share) if seen else (share, enough)
        return enough
