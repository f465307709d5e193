"""So many seconds to draw samples in."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import final

from drawahead.rounds.run import Stop


@final
class Deadline(Stop):
    """Stops `sample` between rounds so many seconds after it was first looked at, as `clock` tells them (real time by
    default): a round is made in any case.

    Samples that finish early are not typical: no law should be checked on an incomplete result.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock, self._end = seconds, clock, math.inf

    def is_set(self) -> bool:
        if self._end == math.inf:
            self._end = self._clock() + self._seconds
            return False
        return self._clock() > self._end
