"""Every step of a drawn path against the model's own answer for it.

The model is asked once more about each finished path: what was its law of every step, given the steps before? Seen
against that law a step turns into a standard normal (an *innovation*), and the innovations of a path are independent,
if and only if the path has the sequential law. So this needs no reference samples, whatever the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from torch import Tensor

from drawahead.verification.scores import Score
from drawahead.verification.white import EXACT, Off, white


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
