"""Every step of a drawn path against the model's own answer for it.

The model is asked once more about each finished path: what was its law of every step, given the steps before? Seen
against that law a step turns into a standard normal (an *innovation*), and the innovations of a path are independent,
if and only if the path has the sequential law. So this needs no reference samples, whatever the model.

Tokens are compared with one other law besides, which they might have been drawn from where things go wrong. Let p be
the law a token should have and q the other. The score h = (q - p) / (q + p) of the token, between -1 and 1, has a known
mean and variance under p. Minus its mean it is a martingale difference, whatever the tokens before; and its mean is
larger by the sum of (q - p)^2 / (q + p) where the token is drawn from q instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from torch import Tensor

from drawahead.verification.white import EXACT, Off, white

ENOUGH = 1.2816
"""Standard deviations below its mean that nine of ten values lie above."""


@final
@dataclass(frozen=True)
class Score:
    """Sums over all steps."""

    total: float = 0.0
    """Of scores minus their means."""
    variance: float = 0.0
    gain: float = 0.0
    """What `total` would grow by, were all tokens drawn from the other law."""
    count: int = 0

    @staticmethod
    def of(law: Tensor, other: Tensor, token: Tensor) -> Score:
        """Of tokens (cells,) with these laws (cells, q)."""
        both = law + other
        score = ((other - law) / both.where(both > 0, both.new_ones(()))).where(both > 0, both.new_zeros(()))
        mean = (law * score).sum(1)
        variance = (law * score.square()).sum(1) - mean.square()
        total = score.gather(1, token[:, None])[:, 0] - mean
        gain = (other * score).sum(1) - mean
        return Score(float(total.sum()), float(variance.clamp(min=0).sum()), float(gain.sum()), len(token))

    def __add__(self, other: Score) -> Score:
        return Score(
            self.total + other.total,
            self.variance + other.variance,
            self.gain + other.gain,
            self.count + other.count,
        )

    @property
    def differs(self) -> bool:
        """Whether the other law is another one at all."""
        return self.gain > 1e-12 * self.count

    def p_value(self, off: float) -> float:
        """Two-sided, by Freedman's inequality. `off` is how far, in total variation, the laws may be off."""
        beyond = abs(self.total) - self._slack(off)
        if beyond <= 0:
            return 1.0
        return min(1.0, 2 * math.exp(-(beyond**2) / (2 * (self.variance + 2 * beyond / 3))))

    def least_found(self, level: float, off: float) -> float | None:
        """The share of tokens that, drawn from the other law, is found nine times in ten; None if there is none."""
        log = math.log(2 / level)
        needed = 2 * log / 3 + math.sqrt((2 * log / 3) ** 2 + 2 * log * self.variance)  # where the p-value is the level
        needed += self._slack(off) + ENOUGH * math.sqrt(self.variance)
        return needed / self.gain if needed < self.gain / 2 else None

    def _slack(self, off: float) -> float:
        return 2 * off * self.count


@final
@dataclass(frozen=True, eq=False)
class Steps:
    """What the steps of one sampler's samples come to."""

    tables: tuple[Tensor, ...]
    """Innovations, each table (m, steps, d) independent within itself; NaN where nothing was drawn."""
    off: Off = EXACT
    """How far the law of a step may be from run to run."""
    impossible: int = 0
    """Steps whose value has probability zero."""
    missed: float | None = None
    """By how much states miss what is not random in them, relative to the step; None if all of it is random."""
    scores: Mapping[str, Score] = field(default_factory=dict)
    """How much more the steps look as if they had gone wrong in some way."""
    untested: tuple[str, ...] = ()
    """What of the steps is not in the tables, and why."""

    @property
    def count(self) -> int:
        """How many innovations there are."""
        return int((~self.tables[0].isnan()).sum())

    @property
    def p_value(self) -> float:
        if self.impossible:
            return 0.0
        p_values = [white(table, self.off) for table in self.tables]
        p_values += [score.p_value(self.off.step) for score in self.scores.values()]
        return min(1.0, len(p_values) * min(p_values))

    @property
    def tests(self) -> int:
        """How many p-values are combined."""
        return len(self.tables) + len(self.scores)
