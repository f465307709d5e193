"""The default: a policy that chooses a sampler and a window from what rounds cost and what earlier samples took.

Speculation trades queries for rounds. It pays where a round of many queries takes little longer than a round of one,
which depends on the machine, the model and the number of samples drawn together. So a few rounds are timed, on other
noise than the samples', and how many rounds a sample takes is at first a guess, which samples that are drawn correct.

The choice reads times, and rounds of samples of earlier calls, whose noise is spent: never noise of the samples that
are about to be drawn. So it changes no law, and a seed that was drawn before is drawn as it was then. On tokens it does
not even change a sample: `Coupled` gives what `Sequential` gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, final

from drawahead.chains.base import Paths
from drawahead.engine.threads import Thread
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential

# Rounds of a sample with window w, of N steps: a sqrt(N) + b N / w. These fit the shipped image model.
SETTLING, SHARE = 0.56, 0.8
_FEW = 8  # steps for which measuring does not pay
_MEASURED = 4  # windows that are timed at most for one choice
_BETTER = 0.9  # of the time that another window must promise to take for it to be chosen after all
_MUCH_BETTER = 0.6  # and where samples depend on the window: calls should seldom draw others than the call before
WORTH = 1.5  # the least gain for which `Sequential` is left on the word of a guess, where a trial is not cheap
_PATIENCE = 0.75  # of its costs that a sample must win back among others: alone, it would hold up all of them
_PAST = 1024  # calls whose choices are remembered
_GAIN = 1.05  # and where it is, or where the rounds are known


class Timings(Protocol):
    """What `Auto` may measure about one call."""

    steps: int
    live: int
    """How many samples are drawn together."""
    whole: bool
    """Whether a round costs no more for a wider window: asking about a whole path costs as much as about one step."""
    harmless: bool
    """Whether the choice changes no sample: on tokens."""
    captured: bool
    """Whether rounds are captured: then a round costs little beside the model, and timing one little, too."""
    first: int
    """The window to time first."""

    def seconds(self, window: int) -> float:
        """How long a round with this window takes (0: one step each), as it was timed now; asked again, the same."""


class Choice(NamedTuple):
    sampler: Sampler
    reason: str


@dataclass
class Experience:
    """What is known of drawing from a model, so many samples at a time."""

    seconds: dict[int, float] = field(default_factory=dict)
    """Of a round, by window."""
    rounds: dict[int, tuple[float, int]] = field(default_factory=dict)
    """Of a sample, by window: the mean, and over how many samples."""
    choice: Choice | None = None
    past: dict[Any, Choice] = field(default_factory=dict)
    """What was chosen for each noise, by what tells one from another; the last ones."""
    whole: bool | None = None
    """Whether a round costs no more for a wider window; None before anybody asked."""

    def note(self, noise: Any, choice: Choice) -> None:
        """Remember what was chosen for this noise: to choose by what it took would be to choose by the noise itself."""
        self.past[noise] = choice
        if len(self.past) > _PAST:
            del self.past[next(iter(self.past))]

    def learn(self, window: int, seconds: float | None, rounds: float, samples: int) -> None:
        """Take in what drawing so many samples with this window has shown."""
        if seconds is not None:
            self.seconds[window] = seconds
        mean, count = self.rounds.get(window, (0.0, 0))
        self.rounds[window] = (mean * count + rounds * samples) / (count + samples), count + samples


@final
@dataclass(frozen=True)
class Auto(Sampler):
    """Chooses between `Sequential` and `Coupled` and its window; the report says what and why.

    Where speculation cannot pay, finding that out costs about three steps, once for a model and a number of samples
    drawn together. Calls after the first know how many rounds samples took, and may choose anew; on a diffusion only
    if that is much better, for there samples depend on the window. The distribution is the same whatever is chosen. To
    draw the same samples of a diffusion again in another process, name the sampler that the report names.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="n at most", reference="Sequential or Coupled, by measurement"
    )

    def choose(self, timings: Timings, known: Experience) -> Choice:
        """What to draw with; `known` belongs to the model."""
        if timings.steps < _FEW:
            return Choice(Sequential(), f"there are only {timings.steps} steps")
        try:
            known.choice = _chosen(timings, known)
        except Exception as error:  # the run itself will meet it, and say where
            return Choice(Sequential(), f"measuring failed: {error}")
        return known.choice

    def run(self, paths: Paths) -> Thread:
        return Coupled().run(paths)


def _chosen(timings: Timings, known: Experience) -> Choice:
    steps, seconds = timings.steps, known.seconds
    windows = [steps - 1] if timings.whole else _ladder(steps)
    rounds = expected_rounds(steps, known)

    def cost(window: int) -> float:
        return rounds(window) * between(seconds, window)

    if known.choice is None:
        _measured(timings, seconds, windows[-1] if timings.whole else timings.first)
    single = seconds[0]
    worth = _GAIN if timings.captured or known.rounds else WORTH
    for _ in range(_MEASURED):
        # Not much wider than what is known: a guess may be wrong by as much as that costs.
        best = min((w for w in windows if w <= 4 * max(seconds)), default=windows[0], key=cost)
        if best in seconds or steps * single < worth * cost(best):
            break
        if known.choice is not None and cost(best) > _BETTER * min(map(cost, set(windows) & set(seconds))):
            break
        _measured(timings, seconds, best)
        single = seconds[0]
    best = min(set(windows) & set(seconds) or windows, key=cost)
    one_by_one = steps * single
    gain = one_by_one / cost(best)
    if known.choice is not None:  # is another one so much better?
        before = known.choice.sampler
        spent = cost(before.window or steps - 1) if isinstance(before, Coupled) else one_by_one
        enough = _BETTER if timings.harmless else _MUCH_BETTER
        if min(cost(best) / enough, one_by_one) >= spent:
            return known.choice
    if gain < worth:
        twice = between(seconds, 1) / single
        if not math.isfinite(twice):
            return Choice(Sequential(), f"{steps} steps are too few to time rounds")
        return Choice(Sequential(), f"twice the queries take {twice:.2f} times as long: {gain:.2f}x at best")
    window = None if timings.whole else best
    ratio = seconds[best] / single
    reason = f"a round with window {best} takes {ratio:.2f} times as long as one without; about {gain:.1f}x less time"
    least = ratio if timings.live == 1 else _PATIENCE * ratio
    return Choice(Coupled(window=window, least=float(f"{least:.2g}")), reason)


def _measured(timings: Timings, seconds: dict[int, float], window: int) -> float:
    """Time a round, if that was not done before. The first of all is slow: that without a window is timed again."""
    if window not in seconds:
        seconds[window] = timings.seconds(window)
        seconds[0] = min(seconds.get(0, math.inf), timings.seconds(0))
        seconds[window] = max(seconds[window], seconds[0])
    return seconds[window]


def _ladder(steps: int) -> list[int]:
    """4, 8, 16 ... 1024, or up to all steps but one."""
    return [1 << i for i in range(2, 11) if 1 << i < steps - 1] + [steps - 1] * (steps <= 1024)


def between(seconds: dict[int, float], window: int) -> float:
    """The seconds of a round with this window, from those that are known: on straight lines between them."""
    if window in seconds:
        return seconds[window]
    known = sorted(seconds)
    if len(known) == 1:
        return seconds[known[0]]
    low = max((w for w in known[:-1] if w < window), default=known[0])
    high = known[known.index(low) + 1]
    slope = max(0.0, (seconds[high] - seconds[low]) / (high - low))
    return seconds[low] + slope * (window - low)


def expected_rounds(steps: int, known: Experience) -> Callable[[int], float]:
    """How many rounds a sample takes with a window: the formula above, corrected by what samples took."""
    settling, share = SETTLING * math.sqrt(steps), SHARE * steps
    seen = [(1.0 / w, mean, count) for w, (mean, count) in known.rounds.items() if w]
    if len(seen) > 1:
        # Least squares on a + b / w, held to the guess by the weight of one sample at either end.
        points = [*seen, (1 / 32, settling + share / 32, 1), (1 / steps, settling + share / steps, 1)]
        weight = sum(n for _, _, n in points)
        middle = sum(n * x for x, _, n in points) / weight
        mean = sum(n * y for _, y, n in points) / weight
        spread = sum(n * (x - middle) ** 2 for x, _, n in points)
        share = max(0.0, sum(n * (x - middle) * (y - mean) for x, y, n in points) / spread)
        settling = max(1.0, mean - share * middle)
    elif seen:
        inverse, mean, _ = seen[0]
        factor = mean / (settling + share * inverse)
        # Somewhat more than expected: perhaps windows should be wider, and then that shows.
        settling, share = (
            (settling, (mean - settling) / inverse) if 1 < factor < 3 else (factor * settling, factor * share)
        )

    def rounds(window: int) -> float:
        if window in known.rounds:
            return known.rounds[window][0]
        return min(float(steps), max(steps / (window + 1), settling + share / window))

    return rounds
