"""Which sampler draws fastest here: decided by timings and by pilots on noise of their own, by nothing that is drawn.

Speculation trades queries for rounds. It pays where a round of many queries takes little longer than a round of one,
which depends on the machine, the model and the number of samples drawn together. So a few rounds are timed, and how
many rounds a sample will take is predicted by a formula, which a pilot sample corrects where it costs little.

Two constants are tuned. With window w, N steps take `Coupled` about N / (w + 1) rounds, and some more in which guesses
settle. Those hardly depend on the window: 15 to 19 for an image in 1000 steps with windows from 8 to 128, 4 for a power
spectrum, 12 for a text, 8 for a robot's 100 steps. SETTLING times the cube root of N is about that. WORTH is the least
predicted gain for which packed rounds leave `Sequential`: other models need twice as many, or half. Captured rounds are
left for less, for they hardly cost anything to try.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, final

from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential

SETTLING = 1.65
WORTH = 1.5
_CAPTURED_WORTH = 1.05  # the least gain that is more than the error of a timing
_BUDGET = 0.1  # of the time that single steps would take: what choosing may take
_AT_ONCE = 128  # queries in the first captured round that is timed
_PROBES = 4  # rounds of one query that finding out costs at least


class Timings(Protocol):
    """What may be measured about one call."""

    steps: int
    live: int
    """How many samples are drawn together."""
    batches: int
    """How often that many are drawn, one after another."""
    whole: bool
    """Whether a round costs no more for a wider window: asking about a whole path costs as much as about one step."""
    captured: bool
    """Whether rounds are captured: then a round costs little beside the model, and timing one little, too."""

    def seconds(self, window: int) -> float:
        """How long a round with this window takes (0: one step each)."""

    def pilot(self, sampler: Sampler, most: float) -> float | None:
        """How many rounds so many samples take together, on other noise; None if that takes more than `most` rounds."""


@final
@dataclass(frozen=True)
class Choice:
    """A sampler, and why it was chosen."""

    sampler: Sampler
    reason: str
    single: float = 0.0
    """Seconds of a round of single steps."""


def choose(timings: Timings) -> Choice:
    """What to draw with."""
    steps, all_steps = timings.steps, timings.steps * timings.batches
    if all_steps * (2 if timings.captured else 1) < _PROBES / _BUDGET:
        return Choice(Sequential(), f"there are only {steps} steps")
    seconds = {0: timings.seconds(0)}
    worth, windows = (_CAPTURED_WORTH if timings.captured else WORTH), _ladder(steps)
    # A GPU answers about as many queries as quickly as one; elsewhere two tell how time grows.
    first = 1 << (max(4, min(_AT_ONCE // timings.live, steps - 1)).bit_length() - 1) if timings.captured else 1
    if timings.whole:
        windows, first = [steps - 1], steps - 1

    def cost(window: int) -> float:
        return expected_rounds(steps, window) * between(seconds, window)

    following: int | None = first
    while following is not None:
        seconds[following] = max(timings.seconds(following), seconds[0])
        # Not much wider than what was timed: a guess may be wrong by as much as that costs.
        best = min((window for window in windows if window <= 4 * max(seconds)), key=cost, default=windows[0])
        following = None if best in seconds or steps * seconds[0] < worth * cost(best) else best
    single, tried = seconds[0], [window for window in windows if window in seconds]
    best = min(tried or windows, key=cost)
    gain = steps * single / cost(best)
    if gain < worth or best not in seconds:
        twice = between(seconds, 1) / single
        return Choice(Sequential(), f"twice the queries take {twice:.2f} times as long: {gain:.2f}x at best", single)
    ratio = seconds[best] / single
    # Alone, a sample gives up speculation where it does not pay; among others it would hold all of them up.
    least = float(f"{ratio if timings.live == 1 else 0.75 * ratio:.2g}")
    sampler = Coupled(window=None if timings.whole else best, least=least)
    if cost(best) <= _BUDGET * all_steps * single:
        sampler = Coupled(window=sampler.window)  # a pilot shows what samples take: none need give up
        rounds = timings.pilot(sampler, steps / ratio)
        if rounds is None:
            return Choice(Sequential(), f"a pilot sample took more than {steps / ratio:.0f} rounds", single)
        gain = steps / (rounds * ratio)
    reason = f"a round with window {best} takes {ratio:.2f} times as long as one without; about {gain:.1f}x less time"
    return Choice(sampler, reason, single)


def expected_rounds(steps: int, window: int) -> float:
    """How many rounds a sample takes with a window, as the formula above has it."""
    return min(float(steps), steps / (window + 1) + SETTLING * math.cbrt(steps))


def between(seconds: dict[int, float], window: int) -> float:
    """The seconds of a round with this window, from those that were timed: on straight lines between them."""
    timed = sorted(seconds)
    if window in seconds or len(timed) == 1:
        return seconds.get(window, seconds[timed[0]])
    low = max((other for other in timed[:-1] if other < window), default=timed[0])
    high = timed[timed.index(low) + 1]
    slope = max(0.0, (seconds[high] - seconds[low]) / (high - low))
    return seconds[low] + slope * (window - low)


def _ladder(steps: int) -> list[int]:
    """2, 4, 8 ... 1024, or up to all steps but one."""
    return [1 << i for i in range(1, 11) if 1 << i < steps - 1] + [steps - 1] * (steps <= 1024)


def timed(rounds: Iterable[object], wait: Callable[[], None] = lambda: None) -> float:
    """Seconds of each of these rounds; infinite if there are none."""
    began, count = time.perf_counter(), sum(1 for _ in rounds)
    wait()
    return (time.perf_counter() - began) / count if count else math.inf
