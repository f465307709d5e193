"""Segments of paths drafted, verified and committed: what threads of single paths have the engine do `Together`.

Such a function is called with tables that have a row for each thread; what follows them is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from drawahead.chains.base import Answer, Paths
from drawahead.laws import Law
from drawahead.randomness import Purpose, Stream
from drawahead.rounds.threads import Row, Thread, Together


class At(NamedTuple):
    """Where a thread stands."""

    paths: Row
    stream: Row  # its noise
    step: int
    length: int  # of the sample
    sample: int  # its number


class DrawnSegment(NamedTuple):
    """A segment drawn from its target mu_S."""

    values: Row  # (|S|, ...)
    target: Row  # (|S|,) the law of each step given those before
    onward: Row | None  # laws of the steps after S from the answer at b, if that was asked


Accepts = Callable[[Tensor, Tensor], Tensor]
"""Decides from uniforms and log ratios of target to draft."""


@dataclass(frozen=True, eq=False)
class SegmentBatch:
    """Segments [a, b) of a batch of paths."""

    whole: Paths

    def places(self) -> Iterator[tuple[At, int]]:
        """Where every sample stands, and how many steps from there are random, one after another."""
        whole = self.whole
        table, columns = self._now(), (whole.position, whole.length, whole.sample, whole.stretch)
        for i, (*at, room) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            yield At(Row(table, i), Row(table.stream, i), *at), room

    def _now(self) -> Paths:
        return self.whole.made_of(self.whole.tensors())

    def laws(self, paths: Paths, size: int) -> Thread:
        """One query each: the laws of the next steps, all from the answer at the current position."""
        one = torch.ones(len(paths), dtype=torch.int64)
        answer: Answer = yield paths.ask(None, one, (one * (size - 1))[:, None])
        return answer.target.join(answer.after(one - 1, size - 1))

    def draw(self, stream: Stream, step: Tensor, law: Law) -> Tensor:
        """Values of single steps."""
        return law.draw(law.noise(stream, Purpose.VALUE, step[:, None].to(stream.keys.device)))

    def verify(self, paths: Paths, stream: Stream, draft: Law, accepts: Accepts, size: int, beyond: int) -> Thread:
        """Guess all of a segment, and ask about the conditionings a+1 ... b-1 along the guess (a is known already), and
        about b if `beyond` steps after it need laws. -> whether it is accepted, and what was drawn."""
        paths = paths.branch(stream)
        guess = draft.draw(draft.noise(stream, Purpose.VALUE, paths.steps(size)))
        last = torch.full((len(paths),), size - 1)
        reach = torch.zeros(len(paths), size - 1 + (beyond > 0), dtype=torch.int64)
        reach[:, -1] = max(0, beyond - 1)
        answer: Answer = yield paths.ask(guess, last + (beyond > 0), reach, first=1)
        target, onward = draft.first(1).join(answer.target.first(size - 1)), None
        if beyond:
            rows = torch.arange(len(paths), device=guess.device)[:, None]
            onward = answer.target[rows, torch.full_like(rows, size - 1)].join(answer.after(last, beyond - 1))
        uniform = stream.uniform(Purpose.ACCEPT, paths.steps(1)[:, 0])
        accepted = accepts(uniform, target.log_ratio(draft, guess).sum(1)).tolist()
        paths.tally.drafted += size * len(accepted)
        paths.tally.accepted += size * sum(accepted)
        return accepted, guess, target, onward

    def branch(self, stream: Stream, step: Tensor, number: Tensor, draft: Law, size: int, half: int) -> tuple[Any, ...]:
        """Begin candidates for segments. -> their noise, and the draft of their left half."""
        self.whole.tally.candidates += len(step)
        device = stream.keys.device
        return stream.child(number.to(device), step.to(device)), draft.first(half)

    def judge(
        self,
        stream: Stream,
        step: Tensor,
        number: Tensor,
        draft: Law,
        left: Tensor,
        mu_left: Law,
        right: Tensor,
        mu_right: Law,
        accepts: Accepts,
        size: int,
    ) -> tuple[Any, ...]:
        """Put the halves of candidates together. -> whether they are accepted, and what was drawn."""
        values, target = torch.cat([left, right], dim=1), mu_left.join(mu_right)
        uniform = stream.uniform(Purpose.CORRECT, step.to(values.device))
        return accepts(uniform, target.log_ratio(draft, values).sum(1)).tolist(), values, target

    def first(self, law: Law, width: int, size: int) -> Law:
        return law.first(size)

    def advance(self, paths: Paths, stream: Stream, values: Tensor, size: int) -> Paths:
        """The paths of candidates after their left half."""
        paths = paths.branch(stream)
        paths.advance(values, torch.full((len(paths),), size))
        return paths

    def commit(self, at: At, values: Row, size: int, onward: Row | None, width: int, wish: int) -> Thread:
        """Draw a segment for good. -> where the sample stands, how many steps from there are random one after another
        (0 if it is complete), and laws for a segment as large as the `wish`, if there are any."""
        paths, room = yield Together(self.committed, (at.sample, values), (size,))
        if onward is not None and min(wish, room) < width:
            onward = yield Together(self.first, (onward,), (width, min(wish, room)))
        return at._replace(paths=paths, step=at.step + size), room, onward

    def committed(self, sample: Tensor, values: Tensor, size: int) -> tuple[list[Row | None], list[int]]:
        whole = self.whole
        row = torch.searchsorted(whole.sample, sample)
        every = values.new_zeros(len(whole), *values.shape[1:]).index_copy_(0, row.to(values.device), values)
        number = torch.full_like(whole.position, -1)
        live = whole.commit(every, torch.zeros_like(number).index_fill_(0, row, size))
        number[live] = torch.arange(len(live))
        table, room = self._now(), [*whole.stretch.tolist(), 0]
        rows = number[row].tolist()
        return [Row(table, i) if i >= 0 else None for i in rows], [room[i] for i in rows]
