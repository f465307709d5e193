"""The default: measure how the model's time grows with the batch, then choose a sampler and a window.

Speculation trades queries for rounds. It pays where a round of many queries takes little longer than a round of one,
which depends on the machine, the model and the number of samples drawn together. So a few calls are timed, and pilot
samples, which are thrown away, show how many steps a round commits. Both are remembered with the oracle.

The choice reads times and committed steps, never noise of the samples that are drawn, so it changes no law. On tokens
it does not even change a sample: `Coupled` gives what `Sequential` gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, final

from drawahead.chains.base import Paths
from drawahead.engine.threads import Thread
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential

SHARE = 0.3  # of a window that a round commits, where no pilot has shown it
_OWN_SECONDS = 2e-3  # about what a round of Coupled takes beside the model
_FEW = 8  # steps for which measuring does not pay
WORTH = 1.5  # the least predicted gain for which anything but Sequential is chosen without a pilot


class Bench(Protocol):
    """What `Auto` may measure about one job."""

    steps: int
    live: int
    """Samples drawn together."""
    whole: bool
    """Whether asking about a whole path costs no more than one step of it."""
    pilots: bool
    """Whether pilot samples are cheap: where rounds are captured."""
    where: str
    """What else the times depend on."""

    def seconds(self, window: int) -> float:
        """How long a round with this window takes (0: one step each)."""

    def rounds(self, window: int) -> float:
        """How many rounds a pilot sample took with this window."""


class Choice(NamedTuple):
    sampler: Sampler
    reason: str


@final
@dataclass(frozen=True)
class Auto(Sampler):
    """Chooses between `Sequential` and `Coupled` and its window, by measurement; the report says what and why.

    Where speculation cannot pay, finding that out costs about as much as three to five steps, once for a model and a
    number of samples drawn together. The law is the same whatever it chooses. Samples of a diffusion are not, and the
    choice depends on timings: to draw them again, name the sampler that the report names.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="n at most", reference="Sequential or Coupled, by measurement"
    )

    def choose(self, bench: Bench, memory: dict[Any, Choice]) -> Choice:
        """What to draw with; `memory` belongs to the oracle."""
        if bench.steps < _FEW:
            return Choice(Sequential(), f"there are only {bench.steps} steps")
        key = (bench.live, bench.steps, bench.where)
        if key not in memory:
            try:
                memory[key] = (_by_pilots if bench.pilots else _by_times)(bench)
            except Exception as error:  # the run itself will meet it, and say where
                return Choice(Sequential(), f"measuring failed: {error}")
        return memory[key]

    def run(self, paths: Paths) -> Thread:
        return Coupled().run(paths)


def _by_times(bench: Bench) -> Choice:
    """Without pilots: assume that a round commits a fixed share of its window, and be wary."""
    single = bench.seconds(0)
    best, gain = 0, 1.0
    if not bench.whole:
        # What one more query a sample costs, in rounds; the sampler's own work, which does not grow, left out.
        more = max((bench.seconds(1) - _OWN_SECONDS) / single - 1, 1e-3)
        if SHARE / more < WORTH:
            return Choice(Sequential(), f"twice the queries take {1 + more:.2f} times as long: speculation cannot pay")
    for window, seconds in _rising(bench, lambda w: bench.seconds(w) / (w + 1)):
        ahead = SHARE * (window + 1) * single / seconds
        if ahead > gain:
            best, gain = window, ahead
    if gain < WORTH:
        return Choice(Sequential(), f"more queries a round take as much longer as they are (gain {gain:.2f}x at best)")
    seconds = bench.seconds(best)
    ratio = seconds / single
    return Choice(
        Coupled(window=None if bench.whole else best, least=round(ratio, 2)),
        f"a round with window {best} takes {ratio:.2f} times as long as one without; expected gain {gain:.1f}x",
    )


def _by_pilots(bench: Bench) -> Choice:
    """With pilots: the window that takes the least time."""
    single = bench.seconds(0)
    windows = [window for window, _ in _rising(bench, lambda w: bench.rounds(w) * bench.seconds(w))]
    rounds = _smoothed({window: bench.rounds(window) for window in windows})
    spent = {window: rounds[window] * bench.seconds(window) for window in windows}
    best = min(spent, key=lambda w: spent[w], default=0)
    if not best or spent[best] > 0.95 * bench.steps * single:
        gain = bench.steps * single / spent[best] if best else 1.0
        return Choice(Sequential(), f"with {bench.live} samples at once the best window gained {gain:.2f}x")
    ratio = bench.seconds(best) / single
    gain = bench.steps * single / spent[best]
    return Choice(
        Coupled(window=None if bench.whole else best, least=round(ratio, 2)),
        f"a round with window {best} takes {ratio:.2f} times as long as one without, and a pilot needed "
        f"{rounds[best]:.0f} rounds: {gain:.1f}x less time",
    )


def _smoothed(rounds: dict[int, float]) -> dict[int, float]:
    """Rounds by window, by least squares on a + b / window: pilots are few, and all of them tell about each window."""
    if len(rounds) < 3:
        return rounds
    inverse = [1 / window for window in rounds]
    middle, mean = sum(inverse) / len(rounds), sum(rounds.values()) / len(rounds)
    spread = sum((x - middle) ** 2 for x in inverse)
    slope = sum((x - middle) * y for x, y in zip(inverse, rounds.values(), strict=True)) / spread
    return {window: max(1.0, mean + slope * (1 / window - middle)) for window in rounds}


def _rising(bench: Bench, cost: Callable[[int], float]) -> list[tuple[int, float]]:
    """Windows to consider, each wider than the one before, until the cost rises; with the seconds of a round."""
    if bench.whole:
        return [(bench.steps - 1, bench.seconds(bench.steps - 1))]
    windows = []
    window, last = (32 if bench.pilots else 4), float("inf")
    window = min(window, bench.steps - 1)
    while True:
        here = cost(window)
        windows.append((window, bench.seconds(window)))
        # Rounds of pilots vary by a tenth or so: the search ends where the cost has risen by more than that.
        if here > (1.15 if bench.pilots else 0.9) * last or window >= bench.steps - 1 or window >= 1024:
            return windows
        last = here
        window = min(bench.steps - 1, window * 2 if bench.pilots else window * 4)
