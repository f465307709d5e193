"""What the tests would have found: each is run on samples or steps that are spoiled on purpose, more and more.

Samples come from the sequential reference, drawn from it again with replacement, so both sides have one law until one
of them is spoiled. Steps are independent standard normals until some of them are spoiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from drawahead.verification.statistics import same_law
from drawahead.verification.steps import DrawnSteps
from drawahead.verification.white import moments

RUNS = 10
WANTED = 9
SHARES = (0.5, 0.25, 0.125, 0.06, 0.03, 0.015, 0.008, 0.004, 0.002)
ENTRIES = 2**16  # of innovations that are spoiled; a test of more finds more
Finds = Callable[[float, torch.Generator], bool]
Spoil = Callable[[Tensor, float, torch.Generator], Tensor]


def power_of_samples(samples: Tensor, level: float) -> dict[str, float | None]:
    """For each way to spoil samples (m, ...), the least share found in at least nine runs of ten at this level."""
    ways: dict[str, Spoil]
    if samples.is_floating_point():
        ways = {"a spread wrong": lambda x, share, _: x.mean(0) + (1 + share) * (x - x.mean(0))}
    else:
        ways = {"wrong tokens": _replaced}
    flat, things = samples.flatten(1), "coordinates" if samples.is_floating_point() else "tokens"
    if flat.shape[1] > 1:
        ways[f"{things} drawn without regard to the others"] = _shuffled

    def finds(spoil: Spoil, share: float, generator: torch.Generator) -> bool:
        one, other = (flat[torch.randint(len(flat), (len(flat),), generator=generator)] for _ in range(2))
        return same_law(one, spoil(other, share, generator)) < level

    return {name: _least(partial(finds, spoil)) for name, spoil in ways.items()}


def power_of_steps(steps: DrawnSteps, level: float, tokens: bool) -> dict[str, float | None]:
    """The same for steps. Only their moments are tested, on part of them: the whole test finds as much or more."""
    table = _part_of(steps.tables[0])
    ways: dict[str, Spoil] = {"noise used twice": _twice} if table.shape[1] > 1 else {}
    if not tokens:
        ways["a spread wrong"] = lambda noise, share, _: (1 + share) * noise
        ways["a mean off"] = lambda noise, share, _: noise + share  # of a standard deviation

    def finds(spoil: Spoil, share: float, generator: torch.Generator) -> bool:
        return 3 * steps.tests * moments(spoil(_fresh(table, generator), share, generator), steps.off) < level

    scores = {
        way: score.least_found(level / steps.tests, steps.off.step)
        for way, score in steps.scores.items()
        if score.differs  # otherwise nothing goes wrong that way
    }
    return {**scores, **{name: _least(partial(finds, spoil)) for name, spoil in ways.items()}}


def _part_of(table: Tensor) -> Tensor:
    """At most `ENTRIES` of innovations (m, steps, d): of all samples, steps and then entries from the first."""
    m, steps, d = table.shape
    entries = max(1, min(d, ENTRIES // max(1, m * min(steps, 64))))
    return table[:, : max(1, ENTRIES // max(1, m * entries)), :entries]


def _fresh(table: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.randn(table.shape, dtype=torch.float64, generator=generator)
    return torch.where(table.isnan(), torch.nan, noise)


def _least(finds: Finds) -> float | None:
    """By bisection over `SHARES`: what finds a share finds every larger one."""
    smallest, missed = -1, len(SHARES)
    while missed - smallest > 1:
        middle = (smallest + missed) // 2
        smallest, missed = (middle, missed) if _often(finds, SHARES[middle]) else (smallest, middle)
    return None if smallest < 0 else SHARES[smallest]


def _often(finds: Finds, share: float) -> bool:
    generator = torch.Generator().manual_seed(0)
    missed = 0
    for _ in range(RUNS):
        missed += not finds(share, generator)
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


def _twice(noise: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Some steps (m, steps, d) have the noise of the one before."""
    chosen = torch.rand(noise.shape[:2], generator=generator)[:, 1:, None] < share
    again = torch.where(chosen & ~noise[:, :-1].isnan(), noise[:, :-1], noise[:, 1:])
    return torch.cat([noise[:, :1], torch.where(noise[:, 1:].isnan(), torch.nan, again)], dim=1)
