"""Does drawing ahead pay on this machine? Two timings tell: a round of one query, and a round of many."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, final

import torch

from drawahead.chains import Chain
from drawahead.errors import InputError
from drawahead.sample import as_chain, sample
from drawahead.samplers import Coupled, Sequential
from drawahead.validate import number, whole
from drawahead.values import dataclass

__all__ = ["Gain", "gain", "gain_of_function"]

_WIDEST = 128  # queries that a round has unless it is said: more save few rounds
_TIMED = 24  # rounds of one query that are timed
_SAMPLES = 3
_REPEATS = 7


@final
@dataclass(frozen=True)
class Gain:
    """Two timings, and how much time they say drawing ahead saves for one sample."""

    steps: int
    """Queries that a sample takes one by one."""
    queries: int
    """The most that a round of many has."""
    one: float
    """Seconds of a round of one query."""
    many: float
    """Seconds of a round of many."""
    rounds: float
    """Of many queries, that a sample takes."""

    @property
    def times(self) -> float:
        """How many times less a sample takes in rounds of many."""
        return self.steps * self.one / (self.rounds * self.many)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return asdict(self) | {"times": self.times}

    def __str__(self) -> str:
        ratio = self.many / self.one
        words = (
            f"One query takes {_milliseconds(self.one)}, and a round of up to {self.queries} takes "
            f"{_milliseconds(self.many)}: {ratio:.1f} times as long.\n"
            f"One by one a sample takes {self.steps} queries, {_milliseconds(self.steps * self.one)}; "
            f"drawn ahead {self.rounds:.1f} rounds, {_milliseconds(self.rounds * self.many)}.\n"
        )
        if self.times > 1:
            return words + f"Drawing ahead pays here: {self.times:.1f} times less time."
        least = self.steps / self.rounds
        return words + (
            f"Drawing ahead does not pay here: {1 / self.times:.1f} times the time. It would if a round took less than "
            f"{least:.1f} times as long as one query, as on a machine that is not busy with a single one."
        )


def gain(target: Any, *, window: int | None = None, seed: int = 0) -> Gain:
    """Time a target by drawing from it: a few steps one by one, and a few samples ahead.

    window: queries of a round, at most; by default all steps but the last, or 128 if they are more.
    """
    chain: Chain = as_chain(target)
    if window is None:
        window = max(1, min(_WIDEST, chain.steps - 1))
    window = whole("window", window, 1)
    ahead = Coupled(window=window)
    for sampler in (Sequential(), ahead):  # captured, compiled, or warm at least
        sample(chain, 1, sampler=sampler, seed=seed, stop=_After(3))
    reports = [sample(chain, 1, sampler=ahead, seed=seed + i).report for i in range(_SAMPLES)]
    rounds = sum(report.rounds for report in reports)
    taken = sum(sum(report.committed) for report in reports)  # fewer steps where samples end early
    return Gain(
        round(taken / _SAMPLES),
        window,
        _one_by_one(chain, seed),
        sum(report.seconds for report in reports) / rounds,
        rounds / _SAMPLES,
    )


def gain_of_function(function: Callable[[int], object], *, steps: int, rounds: float, queries: int = 100) -> Gain:
    """Time a function that asks a network so many queries in one batch.

    steps: of a sample. rounds: that a sample takes, from a report: they depend on the network, not on the machine.
    """
    steps, queries = whole("steps", steps, 1), whole("queries", queries, 1)
    rounds = number("rounds", rounds, above=0)
    return Gain(steps, queries, _seconds(function, 1), _seconds(function, queries), rounds)


def _one_by_one(chain: Chain, seed: int) -> float:
    """Seconds of a round of one query, without what a call takes before its first one."""
    few, more = (
        sample(chain, 1, sampler=Sequential(), seed=seed, stop=_After(looks)).report for looks in (2, 2 + _TIMED)
    )
    spread = more.rounds - few.rounds
    difference = (more.seconds - few.seconds) / spread if spread else 0.0
    return difference if difference > 0 else more.seconds / more.rounds  # a chain so short, or a machine so busy


class _After:
    """Stops a call when it has been looked at so often."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def _seconds(function: Callable[[int], object], queries: int) -> float:
    """The median of a few calls, each until the device is done."""
    seconds = []
    for _ in range(_REPEATS + 2):
        _wait()
        began = time.perf_counter()
        try:
            function(queries)
        except Exception as error:
            raise InputError(f"the function failed for {queries} queries: {type(error).__name__}: {error}") from error
        _wait()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[2:])


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
