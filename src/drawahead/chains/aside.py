"""What the laws along a path depend on beside the answers of a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from drawahead.randomness import Stream


@final
@dataclass(frozen=True, eq=False)
class Aside:
    """A row for each path; None where there is nothing of the kind."""

    free: Tensor | None = None  # (rows, d) which entries are not overwritten
    copies: Stream | None = None  # of noise that no answer has a part in
    before: Tensor | None = None  # (rows, entries of an answer) the answer at the state before the committed one


NOTHING = Aside()
