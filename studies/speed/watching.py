"""Which captured rounds a call was made of, and how long each takes by itself. This looks inside the library.

The time of captured rounds alone is found so: while a call is timed, the shape of every round is noted. After it the
graph of each shape is replayed 20 times in a row, the device waiting for nothing, and the mean is the time of a round
of that shape. The sum over the rounds of the call is what it would take if there were nothing but captured rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from drawahead.chains.base import Chain
from drawahead.rounds.captured.batch import CapturedBatch
from drawahead.rounds.captured.shapes import Shape
from studies.speed.place import Place

Round = tuple[CapturedBatch, Chain, Shape]


@dataclass
class Watched:
    """What was replayed, round by round, and how many rounds were captured for it."""

    rounds: list[Round] = field(default_factory=list)
    captures: int = 0


@contextmanager
def watched() -> Iterator[Watched]:
    """Note every captured round meanwhile. It costs a call a microsecond or so per round."""
    found, plain_round, plain_warm = Watched(), CapturedBatch.round, CapturedBatch.warm

    def noted_round(self: CapturedBatch, chain: Chain, shape: Shape) -> Shape:
        used = plain_round(self, chain, shape)
        found.rounds.append((self, chain, used))
        return used

    def noted_warm(self: CapturedBatch, chain: Chain, shape: Shape) -> None:
        known = shape in self.graphs
        plain_warm(self, chain, shape)
        found.captures += not known

    patched: Any = CapturedBatch
    patched.round, patched.warm = noted_round, noted_warm
    try:
        yield found
    finally:
        patched.round, patched.warm = plain_round, plain_warm


class RoundTimes:
    """Seconds of single rounds; every shape is timed once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._seconds: dict[tuple[int, Shape], float] = {}
        self._held: list[CapturedBatch] = []  # so that no id is used twice

    def __call__(self, rounds: list[Round]) -> float:
        """Of all of these together."""
        return sum(self._of(*one) for one in rounds)

    def _of(self, batch: CapturedBatch, chain: Chain, shape: Shape) -> float:
        key = id(batch), shape
        if key not in self._seconds:
            self._held.append(batch)
            with replaying(batch, chain, shape) as replay:
                self._seconds[key] = on_average(self.place, replay)
        return self._seconds[key]


@contextmanager
def replaying(batch: CapturedBatch, chain: Chain, shape: Shape) -> Iterator[Callable[[], None]]:
    """What replays a round of this shape; afterwards the batch is as it was before."""
    with torch.no_grad():
        batch.warm(chain, shape)
        graph, tensors = batch.graphs[shape], [batch._status, *batch._state.values(), *batch._drafts.values()]
        kept = [tensor.clone() for tensor in tensors]

        def replay() -> None:
            if graph is None:  # on a CPU
                batch._round(chain.model, shape)
            else:
                graph.replay()

        try:
            yield replay
        finally:
            for tensor, before in zip(tensors, kept, strict=True):
                tensor.copy_(before)


def on_average(place: Place, work: Callable[[], Any], times: int = 20, repeats: int = 3) -> float:
    """Seconds that `work` takes when it is done again and again: the median of a few averages."""
    times = times if place.real else 1
    work()
    averages = []
    for _ in range(repeats):
        began = place.now()
        for _ in range(times):
            work()
        averages.append((place.now() - began) / times)
    return statistics.median(averages)
