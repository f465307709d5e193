"""Recursive speculative rejection sampling.

Anari, Baronio, Chen, Haqi, Koehler, Li, Vuong, "Parallel sampling via autospeculation" (arXiv 2511.07869).
Symbols: S = [a, b) a segment, mu_S its target law, nu_S the draft (all of S from the answer at a), rho the growth of
the batches of candidates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import ClassVar, final

from drawahead.chains.base import Paths
from drawahead.errors import InputError
from drawahead.rejection import accepts_candidate, accepts_draft, speculate
from drawahead.rounds.threads import Fork, Row, Thread, Together
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.samplers.segments import At, DrawnSegment, SegmentBatch
from drawahead.validate import number
from drawahead.values import dataclass

PAPER = "paper"
_FIRST = 8  # the second batch of candidates begins with this one, and the next ones with twice the last
_WIDER = 1.5  # by how much a segment is larger than one that was accepted, or smaller than one that was not


@final
@dataclass(frozen=True)
class Recursive(Sampler):
    """Accept a whole segment at once, or else draw candidates for it by recursing into its halves.

    `growth="paper"` is the algorithm as published: the first segment is the whole sample, and batches of candidates
    grow by rho = one over the depth of the recursion. Otherwise segments have a size at which about half of them are
    accepted, and candidates run while their segment is still being verified. `growth` is then rho; with None seven
    candidates run at once, then twice as many each time.

    The number of candidates a rejected segment needs has mean 1 / TV(mu_S, nu_S) and a heavy tail; it is reported and
    never capped.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="O~(n^(1/2))", reference="parallel sampling via autospeculation, arXiv 2511.07869"
    )
    growth: float | str | None = None

    def __post_init__(self) -> None:
        # Batches that hardly grow are mostly empty; those that grow at once are the first and the last.
        if self.growth not in (None, PAPER) and not 1e-3 <= number("growth", self.growth) <= 1e3:
            raise InputError(f'growth must be between 0.001 and 1000, "{PAPER}" or None, not {self.growth}')

    def run(self, paths: Paths) -> Thread:
        yield Fork(self.runs(paths))

    def runs(self, paths: Paths) -> list[Thread]:
        if paths.windows_only:
            raise InputError(f"Recursive cannot draw {paths.windows_only}; use Block() or Coupled()")
        return Recursion(paths, self).samples()

    accepts_draft = staticmethod(accepts_draft)
    accepts_candidate = staticmethod(accepts_candidate)
    speculate = staticmethod(speculate)

    def first_size(self, length: int) -> int:
        """The size of the first segment of a sample of this length."""
        return length if self.growth == PAPER else max(4, int(math.sqrt(length)))

    def next_size(self, size: int, accepted: bool) -> int:
        """The size of the next segment. It depends only on committed segments, whose noise is not used again."""
        if self.growth == PAPER:
            return size
        return math.ceil(size * _WIDER) if accepted else max(1, int(size / _WIDER))

    def batches(self, length: int, outermost: bool) -> Iterator[range]:
        """The numbers of tries that run side by side: 0 is the draft, the others candidates. Those of a sample's own
        segments begin with the draft; inside, where most segments are accepted, that would multiply the queries."""
        first = 0 if outermost and self.growth != PAPER else 1
        if first:
            yield range(first)
        rho = 1 / max(1, math.ceil(math.log2(length))) if isinstance(self.growth, str) else self.growth
        for r in itertools.count():
            end = _FIRST * 2**r if rho is None else math.ceil((1 + rho) ** r)
            if end > max(first, 1):
                yield range(first, end)
                first = end


@dataclass(frozen=True, eq=False)
class Recursion(SegmentBatch):
    """The threads that draw a batch of samples, one for each sample and one for each candidate.

    What they have done by `Together` is in `segments.py`: once for all threads that want the same.
    """

    sampler: Recursive

    def samples(self) -> list[Thread]:
        return [self.sample(at, room) for at, room in self.places()]

    def sample(self, at: At, room: int) -> Thread:
        """Draw a sample, one segment after another."""
        wish, draft = self.sampler.first_size(at.length), None
        while room:
            size, following = min(wish, room), self.sampler.next_size(wish, accepted=True)
            beyond = min(following, room - size)
            if draft is None:
                draft = yield Together(self.laws, (at.paths,), (size,))
            number, drawn = yield from self.segment(at, draft, size, beyond, outermost=True)
            wish = self.sampler.next_size(wish, accepted=number == 0)
            at, room, draft = yield from self.commit(at, drawn.values, size, drawn.onward, beyond, wish)

    def segment(self, at: At, draft: Row, size: int, beyond: int, *, outermost: bool = False) -> Thread:
        """Draw S from mu_S: x ~ nu_S or else candidates y ~ mu_S, until one is accepted. `draft` holds nu_S; `beyond`
        steps after S will need laws from the answer at b. -> the number of the try, and what it drew."""
        if size == 1:  # nu = mu
            values = yield Together(self.draw, (at.stream, at.step, draft))
            return 0, DrawnSegment(values, draft, None)
        batches = self.sampler.batches(at.length, outermost)
        return (yield from self.sampler.speculate(self.guess, self.candidate, (at, draft, size, beyond), batches))

    def guess(self, at: At, draft: Row, size: int, beyond: int) -> Thread:
        """Draw x ~ nu_S and verify it. -> x, if it is accepted."""
        accepted, *drawn = yield Together(
            self.verify, (at.paths, at.stream, draft), (self.sampler.accepts_draft, size, beyond)
        )
        return DrawnSegment(*drawn) if accepted else None

    def candidate(self, at: At, draft: Row, size: int, beyond: int, number: int) -> Thread:
        """Draw y ~ mu_S, its left half and its right half, with noise of its own. -> y, if it is accepted. That takes
        no query: what mu_S(y) is the halves know, and nu_S is the draft."""
        half = (size + 1) // 2
        stream, nu_left = yield Together(self.branch, (at.stream, at.step, number, draft), (size, half))
        _, left = yield from self.segment(at._replace(stream=stream), nu_left, half, beyond=size - half)
        paths = yield Together(self.advance, (at.paths, stream, left.values), (half,))
        nu_right = left.onward or (yield Together(self.laws, (paths,), (size - half,)))
        middle = at._replace(paths=paths, stream=stream, step=at.step + half)
        _, right = yield from self.segment(middle, nu_right, size - half, beyond)
        rows = (stream, at.step, number, draft, left.values, left.target, right.values, right.target)
        accepted, values, target = yield Together(self.judge, rows, (self.sampler.accepts_candidate, size))
        return DrawnSegment(values, target, right.onward) if accepted else None
