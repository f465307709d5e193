"""How large a shard is unless the user says: about half a minute of work, and not too many bytes.

What is lost when a process dies is at most the shard under way, so it should be short; but samples drawn together are
quicker than one by one, and every shard ends with rounds in which few samples are left. So pilot samples are timed,
more and more of them together for about a second, and thrown away. Their noise is not that of the samples of the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

from drawahead.chains.base import Chain
from drawahead.jobs.config import MOST_SHARDS
from drawahead.report import Report
from drawahead.sample import Result, Stop

SECONDS = 30.0
BYTES = 64 * 2**20
_PILOT_SECONDS = 1.0


@final
class Pace(Stop):
    """Sees how fast steps are committed, from the first round on: what was measured before it does not count."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def __call__(self, report: Report) -> None:
        self._seen = [*self._seen[:1], (time.perf_counter(), sum(report.committed))]

    def is_set(self) -> bool:
        return bool(self._seen) and self._seen[-1][0] - self._seen[0][0] > _PILOT_SECONDS

    def samples_per_second(self, report: Report) -> float:
        """How fast samples come."""
        committed, seconds = sum(report.committed), report.seconds
        if len(self._seen) > 1:
            (begin, before), (end, after) = self._seen
            committed, seconds = after - before, end - begin
        return committed / max(1, report.steps) / max(seconds, 1e-6)


def shard_size(chain: Chain, num: int, pilot: Callable[[int, Pace], Result]) -> int:
    """How many samples a shard of this job should have. `pilot` draws some, and stops when told."""
    most = min(num, max(1, BYTES // max(1, chain.empty(1).nbytes)))
    together = min(4, most)
    while True:
        pace = Pace()
        began = time.perf_counter()
        result = pilot(together, pace)
        seconds = time.perf_counter() - began
        if not result.complete or seconds > _PILOT_SECONDS / 4 or together >= min(1024, most):
            break
        together = min(4 * together, most)
    wanted = max(1, int(SECONDS * pace.samples_per_second(result.report)))
    rounded = 1 << (wanted.bit_length() - 1)
    return max(min(most, rounded), -(-num // MOST_SHARDS))
