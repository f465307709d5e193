"""What a test of samples would have found: it is run on samples that are spoiled on purpose, more and more.

The samples come from the sequential reference, drawn from it again with replacement, so both sides have one law until
one of them is spoiled.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drawahead.agreement import same_law

RUNS = 10
WANTED = 9
SHARES = (0.5, 0.25, 0.125, 0.06, 0.03, 0.015, 0.008, 0.004, 0.002)
Spoil = Callable[[Tensor, float, torch.Generator], Tensor]


def power(samples: Tensor, level: float) -> dict[str, float | None]:
    """For each way to spoil samples (m, ...), the least share found in at least nine runs of ten at this level."""
    ways: dict[str, Spoil] = (
        {"a spread wrong": _wider, "coordinates drawn without regard to the others": _shuffled}
        if samples.is_floating_point()
        else {"wrong tokens": _replaced, "tokens drawn without regard to the others": _shuffled}
    )
    if samples[0].numel() == 1:
        ways = dict(list(ways.items())[:1])
    return {name: _least(samples.flatten(1), level, way) for name, way in ways.items()}


def _least(samples: Tensor, level: float, spoil: Spoil) -> float | None:
    """By bisection over `SHARES`: what finds a share finds every larger one."""
    found, missed = -1, len(SHARES)
    while missed - found > 1:
        middle = (found + missed) // 2
        found, missed = (middle, missed) if _finds(samples, level, spoil, SHARES[middle]) else (found, middle)
    return None if found < 0 else SHARES[found]


def _finds(samples: Tensor, level: float, spoil: Spoil, share: float) -> bool:
    generator = torch.Generator().manual_seed(0)
    missed = 0
    for _ in range(RUNS):
        one, other = (samples[torch.randint(len(samples), (len(samples),), generator=generator)] for _ in range(2))
        missed += same_law(one, spoil(other, share, generator)) >= level
        if missed > RUNS - WANTED:
            return False
    return True


def _replaced(samples: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Some tokens are any token that occurs."""
    values = samples.unique()
    other = values[torch.randint(len(values), samples.shape, generator=generator)]
    return torch.where(torch.rand(samples.shape, generator=generator) < share, other, samples)


def _shuffled(samples: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Some entries are those of another sample, which keeps the law of each and forgets what it depends on."""
    other = torch.stack([column[torch.randperm(len(column), generator=generator)] for column in samples.T], dim=1)
    return torch.where(torch.rand(samples.shape, generator=generator) < share, other, samples)


def _wider(samples: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Wider around the mean by this share; no chance in it."""
    centre = samples.mean(0)
    return centre + (1 + share) * (samples - centre)
