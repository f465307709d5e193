"""What random cases are made of: choices, samplers, and ways to ask for the same samples.

A case is a function of one number, its seed. What is rare in the wild is common in it: coefficients of either sign,
zero, tiny or huge; steps without noise, or with hardly any; models that jump, that write into what they are shown, or
that hand it back; rows that are known in part or in full. It is plain data beside the chain made of it, so that
tests/literal.py can draw it, too.

Only `random.Random` is used: its stream is the same on every machine and in every version.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

import drawahead as da
from drawahead.chains import Chain
from drawahead.samplers import Picard, Sampler
from tests.literal import Array


class Dice(random.Random):
    """Where a case's choices come from."""

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def size(self, low: float, high: float) -> float:
        """A positive number, its logarithm (base 10) between these."""
        return 10.0 ** self.uniform(low, high)

    def either(self, size: float) -> float:
        return size if self.chance(0.5) else -size

    def normals(self, *shape: int) -> Array:
        return np.array([self.gauss(0, 1) for _ in range(math.prod(shape))]).reshape(shape)


def dice(kind: str, seed: int) -> Dice:
    return Dice(f"{kind} {seed}")


@dataclass(frozen=True)
class Asked:
    """Which samples a case draws: `count` of them from number `first` on, under `seed`."""

    seed: int
    first: int
    count: int

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)


def told(condition: Tensor | None, numbers: Sequence[int]) -> dict[str, Tensor]:
    """What a model is given of a condition (1 or all samples, ...) about these samples."""
    if condition is None:
        return {}
    return {"condition": condition[[number if len(condition) > 1 else 0 for number in numbers]]}


def asked(d: Dice, count: int, tables: bool) -> Asked:
    """Far numbers only where there is no table with a row for every sample."""
    seed = d.choice([d.randrange(1000), d.randrange(2**64), 2**63, 2**64 - 1])
    first = d.choice([0, 0, 1, 3]) if tables else d.choice([0, 0, 5, 2**32 - 2, 2**40, 2**63 - 1 - count])
    return Asked(seed, first, count)


def coupled(d: Dice) -> da.Coupled:
    """The sampler with most that can go wrong, in some setting."""
    window = d.choice([None, None, None, None, 1, 2, 2, 3, 3, 4, 5, 8, 256, 256])
    least = d.choice([0.0, 0.0, 0.5, 1.2, 1.5, 2.0, 2.0, 3.0])
    return da.Coupled(window=window, secant=d.chance(0.65), least=least)


def sampler(d: Dice, steps: int, *, literal: bool = True, refining: bool = True) -> Sampler:
    """One of the named samplers in some setting. What takes long on long chains is rare there.

    Not those that take literal steps, or that refine their guesses, if they are not wanted.
    """
    window, pipelined = d.choice([None, None, 1, 2, 3, 5, 8, 256]), d.chance(0.7)
    short = steps <= 14
    some: list[tuple[float, Sampler]] = [
        (4 if refining else 0, coupled(d)),
        (2 if short else 0.1, da.Block(window=window, pipelined=pipelined)),
        (2 if short else 0.1, da.Stepwise(window=window, pipelined=pipelined)),
        (1 if steps <= 8 else 0, da.Recursive(growth=d.choice([None, 1.0, 3.0]))),
        (1 if literal else 0, da.Sequential()),
        (1 if literal else 0, Picard(tolerance=0.0, window=window)),
    ]
    return d.choices([one for _, one in some], [weight for weight, _ in some])[0]


def arrangements(d: Dice, wanted: Asked) -> list[dict[str, Any]]:
    """Other ways to ask for the same samples, or for some of them, the first for one alone: options of `sample`."""
    low, high = sorted((d.choice(wanted.numbers), d.choice(wanted.numbers)))
    some = {"first": low, "num_samples": high - low + 1}
    ways: list[dict[str, Any]] = [
        some,
        {"max_live": d.randint(1, 3)},
        {"max_batch_size": d.randint(1, 5)},
        {**some, "max_live": d.randint(1, 2), "max_batch_size": 2},
    ]
    return [{"first": d.choice(wanted.numbers), "num_samples": 1}, *d.sample(ways, len(ways))]


def drawn(chain: Chain, sampler: Sampler, wanted: Asked, **options: Any) -> Tensor:
    """The samples, in the arrangement that `options` describe."""
    options = {"first": wanted.first, "num_samples": wanted.count, **options}
    return da.sample(chain, sampler=sampler, seed=wanted.seed, **options).samples
