"""A limit on the seconds that a call of `sample` may take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import final

from drawahead.rounds.run import Stop


@final
class TimeLimit(Stop):
    """Stops `sample` between rounds so many seconds after its first check, so at least one round is made.

    Samples that finish early are not typical: no distribution should be tested on an incomplete result. `clock` returns
    seconds; real time by default.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock, self._end = seconds, clock, math.inf

    def is_set(self) -> bool:
        if self._end == math.inf:
            self._end = self._clock() + self._seconds
            return False
        return self._clock() > self._end
