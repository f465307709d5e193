"""What a run did round by round, as its report keeps it.

`on_round` gets a report after every round. Copying the rounds so far each time would make a long run quadratic in its
rounds, so a history only remembers how far the run's own lists had come, and copies when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import final

import torch
from torch import Tensor


@final
class History:
    """The rounds of a run up to now. The lists it is given may grow behind their present end, and nothing else."""

    def __init__(
        self,
        widths: Sequence[int] = (),
        committed: Sequence[int] = (),
        drafts: Sequence[int] = (),
        kept: Sequence[int] = (),
        finished: Sequence[tuple[Tensor, Tensor | int]] = (),
        progress: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """finished: the numbers of samples that ended together, with the rounds they took."""
        self._widths, self._committed, self._drafts, self._kept = widths, committed, drafts, kept
        self._finished = finished
        self._ends = len(widths), len(committed), len(drafts), len(kept), len(finished)
        self._progress = {} if progress is None else {n: (steps, len(steps)) for n, steps in progress.items()}

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Queries in each round."""
        return tuple(self._widths[: self._ends[0]])

    @cached_property
    def queries(self) -> int:
        """Queries in all rounds."""
        return sum(self.widths)

    @cached_property
    def committed(self) -> tuple[int, ...]:
        """Steps committed in each round."""
        return tuple(self._committed[: self._ends[1]])

    @cached_property
    def drafts(self) -> tuple[int, ...]:
        """Drafted steps that each round judged."""
        return tuple(self._drafts[: self._ends[2]])

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Steps of those that each round accepted."""
        return tuple(self._kept[: self._ends[3]])

    @cached_property
    def sample_rounds(self) -> tuple[int, ...]:
        """Rounds each finished sample took, in the order of their numbers."""
        done = self._finished[: self._ends[4]]
        if not done:
            return ()
        rounds = torch.cat([torch.as_tensor(taken).expand(len(numbers)) for numbers, taken in done])
        return tuple(rounds[torch.cat([numbers for numbers, _ in done]).argsort()].tolist())

    @cached_property
    def progress(self) -> dict[int, tuple[int, ...]]:
        """For the first few samples: steps committed after each of their rounds."""
        return {number: tuple(steps[:end]) for number, (steps, end) in sorted(self._progress.items())}

    def __eq__(self, other: object) -> bool:
        names = ("widths", "committed", "drafts", "kept", "sample_rounds", "progress")
        return isinstance(other, History) and all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        return hash((self.widths, self.committed, self.drafts, self.kept, self.sample_rounds))
