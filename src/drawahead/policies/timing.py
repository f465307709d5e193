"""Time in a control loop: how long calls took, and when one must come to its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

_ROUNDS = 2  # that a call which is told to hurry still takes: the one already asked, and one for what it left


@final
@dataclass(frozen=True)
class Latency:
    """How long the latest calls took, in milliseconds."""

    calls: int
    """How many. The first call of each kind, which builds the chain and may capture rounds, is not counted."""
    p50: float
    p95: float
    p99: float
    late: int
    """How many of them were finished by drafts, to meet a deadline."""

    @staticmethod
    def of(calls: Sequence[tuple[float, bool]]) -> Latency:
        """Of the seconds that calls took, and whether each was late."""
        seconds = torch.tensor([seconds for seconds, _ in calls] or [torch.nan], dtype=torch.float64)
        ranks = torch.tensor([0.5, 0.95, 0.99], dtype=torch.float64)
        p50, p95, p99 = (1e3 * seconds.quantile(ranks)).tolist()
        return Latency(len(calls), p50, p95, p99, sum(late for _, late in calls))

    def __str__(self) -> str:
        times = f"p50 {self.p50:.1f} ms, p95 {self.p95:.1f} ms, p99 {self.p99:.1f} ms"
        return f"{times} over {self.calls} calls, of which {self.late} were finished by drafts"


@final
class Deadline:
    """Set when the rounds that are then still needed would end after it. Look at it once a round."""

    def __init__(self, began: float, milliseconds: float) -> None:
        self._end, self._last, self._longest = began + milliseconds / 1e3, began, 0.0

    def is_set(self) -> bool:
        now = time.perf_counter()
        self._longest, self._last = max(self._longest, now - self._last), now
        return now + _ROUNDS * self._longest >= self._end
