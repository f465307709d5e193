"""The few shapes that captured rounds have: windows are rounded up to a short ladder of widths."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch

from drawahead.chains.base import Chain
from drawahead.rounds.run import Call
from drawahead.samplers.window import WindowSampler

_LEAST = 4  # the narrowest window of the ladder, but for none at all
TABLES = 16  # of numbers that a round holds for each step of a window, at most, beside the model's own
_SMALL = 2**24  # bytes of drafts of one sample that are kept whether they are needed or not


class Shape(NamedTuple):
    """What a captured round depends on."""

    window: int
    """Drafted steps that are verified, padding included."""
    columns: int
    """Steps that are drafted for the next round."""
    beyond: int
    """Steps past the window that the answers must be able to draft."""


@dataclass(frozen=True)
class Positions:
    """Where the rows of a batch stand: all that is read back."""

    position: list[int]
    width: list[int]
    wish: list[int]
    length: list[int]


@final
class Shapes:
    """Those of one sampler on one chain."""

    def __init__(self, sampler: WindowSampler, chain: Chain) -> None:
        self.sampler, self.reads = sampler, chain.reads_rows
        self.widest = sampler.widest(chain.steps)
        """The widest window there may be."""
        self.ladder = _ladder(self.widest, halved=sampler.window is not None)
        """The widths that windows have, but for none at all."""
        self._kept_ahead = self.rung(self.widest) if chain.row_bytes * self.widest < _SMALL else 0

    def rows(self, call: Call) -> int:
        """How many samples to draw together."""
        chain, wanted = call.chain, min(call.max_live, call.num_samples)
        asks = chain.device.type == "cuda" and wanted > 1  # which takes a while
        room = torch.cuda.mem_get_info(chain.device)[0] // 4 if asks else 2**31
        return min(wanted, max(1, room // (chain.row_bytes * (self.widest + 1) * TABLES)))

    def rung(self, width: int) -> int:
        """The narrowest width of the ladder that is not below this one, or the widest."""
        if not width:
            return 0
        place = bisect.bisect_left(self.ladder, width)
        return self.ladder[place] if place < len(self.ladder) else max(self.widest, 1)

    def of(self, standing: Positions, live: Sequence[int], room: int) -> Shape:
        """Of the round of rows that stand there, of which some are live: as wide as any row needs, and as wide ahead as
        any may need after it. There is room for so many drafts already."""
        sampler = self.sampler
        width, wish = (tuple(part[row] for row in live) for part in (standing.width, standing.wish))
        left = [standing.length[row] - standing.position[row] - 1 for row in live]  # steps behind the next one
        wished = sampler.widest_next(wish, width)
        ahead = [max(0, min(most, behind - 1)) for most, behind in zip(wished, left, strict=True)]
        window = self.rung(max(width))
        if not sampler.pipelined and window:
            ahead = [0 if some else most for some, most in zip(width, ahead, strict=True)]
        columns = self.rung(max(ahead))
        if self.reads:
            columns = max(columns, window if sampler.drafts_from_last else 0)
        else:  # drafts cost a prediction nothing: as many as may ever be needed, so that shapes are few
            columns = max(columns, window, room, self._kept_ahead)
        # Only tokens have rows to read for what lies beyond; a prediction drafts any number of steps.
        unread = any(behind > here for behind, here in zip(left, width, strict=True))
        past = not self.reads or not sampler.drafts_from_last or unread
        return Shape(window, columns, columns if past else 0)

    def stepped(self, before: Positions, live: Sequence[int], steps: Sequence[int] = ()) -> Positions:
        """Where rows stand once those that are live have made a step, or so many, with as many drafts as they may have
        then."""
        position, width = [*before.position], [*before.width]
        wish = self.sampler.widest_next(tuple(before.wish), tuple(before.width))
        for row in live:
            position[row] += steps[row] if steps else 1
            width[row] = max(0, min(wish[row], before.length[row] - position[row] - 1))
        return Positions(position, width, wish, before.length)

    def surely(self, before: Positions, paces: Sequence[int], live: Sequence[int], room: int) -> Positions | None:
        """Where rows stand at least after the round that is under way, if the next can begin before that is known: the
        window is fixed, no row is about to end, and whether rows make one step or as many as in their last round
        (`paces`, 0 where there was none with drafts: then a quarter of them), the same shape does."""
        steps = [pace or 1 + width // 4 for pace, width in zip(paces, before.width, strict=True)]
        if self.sampler.window is None or not self.sampler.pipelined:
            return None
        if any(before.position[row] + 2 * steps[row] >= before.length[row] for row in live):
            return None
        slow, usual = self.stepped(before, live), self.stepped(before, live, steps)
        return slow if self.of(slow, live, room) == self.of(usual, live, room) else None


def _ladder(top: int, *, halved: bool) -> list[int]:
    """The widths that rounds have: the widest, its half, quarter and eighth; or powers of two below the widest."""
    if halved:
        return sorted({-(-top // part) for part in (1, 2, 4, 8)} - {0})
    powers = itertools.takewhile(lambda power: power < top, (_LEAST << i for i in itertools.count()))
    return [*powers, *([top] if top else [])]
