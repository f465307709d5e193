"""How far two sets of samples are apart: the energy distance, with an interval and a test."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

RESAMPLED = 400
PERMUTED = 999


@dataclass(frozen=True)
class Distance:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| as a share of E|Y - Y'|: 0 where the laws agree, below it only by chance.

    `low` and `high` bound the middle 95% of a bootstrap; `p_value` is that of a permutation test of equal laws.
    """

    share: float
    low: float
    high: float
    p_value: float


def energy(first: Tensor, second: Tensor, seed: int = 0) -> Distance:
    """Of samples (n, ...) from a reference (m, ...)."""
    both = torch.cat([first.flatten(1), second.flatten(1)]).double()
    apart = torch.cdist(both, both)
    n, total = len(first), len(both)
    generator = torch.Generator().manual_seed(seed)
    groups = [torch.arange(total), *(torch.randperm(total, generator=generator) for _ in range(PERMUTED))]
    chosen = (torch.stack(groups) < n).to(apart).T  # (total, permutations)
    permuted = _share(apart, chosen, 1 - chosen)
    drawn = [_counts(n, generator), _counts(total - n, generator)]
    zero = [torch.zeros(total - n, RESAMPLED), torch.zeros(n, RESAMPLED)]
    one, other = torch.cat([drawn[0], zero[0]]).to(apart), torch.cat([zero[1], drawn[1]]).to(apart)
    spread = _share(apart, one, other)
    low, high = torch.quantile(spread, torch.tensor([0.025, 0.975]).to(spread)).tolist()
    p_value = float((permuted >= permuted[0]).double().mean())
    return Distance(float(permuted[0]), low, high, p_value)


def _share(apart: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """For weights (total, k) of either set: the distance, pairs of one and the same sample left out."""
    to_one, to_other = apart @ one, apart @ other
    between = (to_one * other).sum(0) / (one.sum(0) * other.sum(0))
    inside, outside = (
        (to * w).sum(0) / (w.sum(0) ** 2 - (w**2).sum(0)) for to, w in ((to_one, one), (to_other, other))
    )
    return (2 * between - inside - outside) / outside


def _counts(number: int, generator: torch.Generator) -> Tensor:
    """How often a bootstrap draws each of so many (number, RESAMPLED)."""
    drawn = torch.randint(number, (RESAMPLED, number), generator=generator)
    return torch.stack([torch.bincount(row, minlength=number) for row in drawn], 1).float()
