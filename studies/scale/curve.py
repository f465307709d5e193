"""How long a heavy network takes on several GPUs: rounds x the measured seconds of a pass with a GPU's share of states.

Unlike the straight line of `sizing`, the curve is used as it was measured: where it bends decides what one GPU gains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from studies.scale.sizing import Line, Row


@dataclass(frozen=True)
class Curve:
    """Seconds of a pass by the states in it: interpolated between what was measured, in proportion beyond that."""

    points: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, heavy: Row) -> Curve:
        return cls(tuple((row["items"], row["seconds"]) for row in heavy["curve"]))

    def __call__(self, states: int) -> float:
        most, _ = self.points[-1]
        return max(1.0, states / most) * float(np.interp(states, *np.array(self.points).T))

    def times(self, states: int, of: int = 1) -> float:
        """What a pass costs, in passes of `of` states."""
        return self(states) / self(of)


class Best(NamedTuple):
    """The window that takes the fewest seconds."""

    seconds: float
    items: int
    rounds: float


@dataclass(frozen=True)
class Network:
    """A network with a measured curve, and the rounds that another one took."""

    curve: Curve
    steps: int
    windows: tuple[tuple[int, float], ...]
    """States in a round of one sample, and the rounds that takes: one pair for each window measured."""
    overhead: Line
    """Seconds that `Replicas` adds to a round, by the number of replicas."""

    def sequential(self, samples: int) -> float:
        """Step by step on one GPU, all samples at once."""
        return self.steps * self.curve(samples)

    def shared_round(self, states: int, gpus: int) -> float:
        """A round cut into a shard for each GPU, as `Replicas` does."""
        used = min(gpus, states)
        return self.curve(math.ceil(states / used)) + self.overhead(used)

    def coupled(self, samples: int, gpus: int, more: float = 0.0) -> Best:
        """With the best window. One GPU needs no executor; several have one, and `more` seconds a round beside it."""

        def seconds(states: int) -> float:
            return self.curve(states) if gpus == 1 else self.shared_round(states, gpus) + more

        return min(Best(rounds * seconds(samples * items), items, rounds) for items, rounds in self.windows)

    def by_samples(self, samples: int, gpus: int) -> float:
        """Every GPU draws its share by itself, in the better of both ways."""
        share = math.ceil(samples / gpus)
        return min(self.sequential(share), self.coupled(share, 1).seconds)
