"""Recursive speculative rejection sampling, as in the paper.

Anari, Baronio, Chen, Haqi, Koehler, Li, Vuong, "Parallel sampling via autospeculation" (arXiv 2511.07869).
Symbols: S = [a, b) a segment, mu_S its target law, nu_S the draft (all of S from the answer at a), L(S) and R(S) its
halves, rho the growth of the batches of candidates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor

from drawahead.chains.base import Answer, Chain, Paths, Tally
from drawahead.engine.threads import Fork, Thread
from drawahead.errors import InputError
from drawahead.laws import Law
from drawahead.randomness import Purpose
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.validate import number


class _Drawn(NamedTuple):
    """A segment drawn from mu_S, for one sample."""

    values: Tensor  # (1, |S|, ...)
    target: Law  # (1, |S|): the law of each step given those before, along `values`
    onward: Law | None  # laws of the steps after S from the answer at b, if that was asked


@final
@dataclass(frozen=True)
class Recursive(Sampler):
    """Accept a whole segment at once, or else draw candidates for it by recursing into its halves.

    `growth` is rho (None: one over the depth of the recursion, the paper's choice). The number of candidates a
    rejected segment needs has mean 1 / TV(mu_S, nu_S) and a heavy tail; it is reported and never capped.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="O~(n^(1/2))", reference="parallel sampling via autospeculation, arXiv 2511.07869"
    )
    growth: float | None = None

    def __post_init__(self) -> None:
        # Batches that hardly grow are mostly empty; those that grow at once are the first and the last.
        if self.growth is not None and not 1e-3 <= number("growth", self.growth) <= 1e3:
            raise InputError(f"growth must be between 0.001 and 1000, not {self.growth}")

    def threads(self, chain: Chain, seed: int, samples: Sequence[int], tally: Tally) -> list[tuple[Paths, Thread]]:
        pairs = [pair for number in samples for pair in super(Recursive, self).threads(chain, seed, [number], tally)]
        for paths, _ in pairs[:1]:
            if paths.windows_only:
                raise InputError(f"Recursive cannot draw {paths.windows_only}; use Block() or Coupled()")
        return pairs

    def run(self, paths: Paths) -> Thread:
        while len(paths):
            size = int(paths.stretch)
            draft = yield from _laws(paths, size)
            drawn: _Drawn = yield from self._segment(paths, draft, beyond=0)
            paths.commit(drawn.values, torch.tensor([size]))

    def _segment(self, paths: Paths, draft: Law, beyond: int) -> Thread:
        """Draw S from mu_S. `draft` holds nu_S; `beyond` steps after S will need laws from the answer at b."""
        size = draft.shape[1]
        guess = draft.draw(draft.noise(paths.stream, Purpose.VALUE, paths.steps(size)))
        if size == 1:
            return _Drawn(guess, draft, None)  # a leaf: nu = mu
        # Verify: the conditionings a+1 ... b-1 along the guess (a is known already), and b for what comes after.
        count = size - 1 + (beyond > 0)
        reach = torch.zeros(1, count, dtype=torch.int64)
        reach[0, -1] = max(0, beyond - 1)
        answer: Answer = yield paths.ask(guess, torch.tensor([count]), reach, first=1)
        laws = answer.target
        target = _part(draft, 0, 1).join(_part(laws, 0, size - 1))
        onward: Law | None = None
        if beyond:
            onward = _part(laws, size - 1, size).join((yield from _after(answer, count - 1, beyond - 1)))
        paths.tally.drafted += size
        uniform = paths.stream.uniform(Purpose.ACCEPT, paths.steps(1))
        if bool(uniform.log() <= target.log_ratio(draft, guess).sum()):
            paths.tally.accepted += size
            return _Drawn(guess, target, onward)
        growth = 1 + (self.growth or 1 / max(1, math.ceil(math.log2(int(paths.length)))))
        for r in itertools.count():
            batch = range(math.ceil(growth**r), math.ceil(growth ** (r + 1)))
            paths.tally.candidates += len(batch)
            children = [paths.branch(paths.stream.child(i, int(paths.position))) for i in batch]
            # The lowest accepted index wins, not the first to finish: run time depends on the value.
            winner = yield Fork([self._candidate(child, draft, beyond) for child in children], until=_accepted)
            if winner is not None:
                return winner[1]

    def _candidate(self, paths: Paths, draft: Law, beyond: int) -> Thread:
        """Draw y ~ mu_S by halves; -> y with probability max(0, 1 - nu_S(y) / mu_S(y)), else None."""
        size, half = draft.shape[1], (draft.shape[1] + 1) // 2
        judge = paths.stream.uniform(Purpose.CORRECT, paths.steps(1))
        left: _Drawn = yield from self._segment(paths, _part(draft, 0, half), beyond=size - half)
        paths.advance(left.values, torch.tensor([half]))
        right_draft = left.onward if left.onward is not None else (yield from _laws(paths, size - half))
        right: _Drawn = yield from self._segment(paths, right_draft, beyond)
        values = torch.cat([left.values, right.values], dim=1)
        target = left.target.join(right.target)
        log_ratio = target.log_ratio(draft, values).sum()
        accepted = bool(judge < -torch.expm1(-log_ratio))
        return _Drawn(values, target, right.onward) if accepted else None


def _laws(paths: Paths, size: int) -> Thread:
    """One query: the laws of the next `size` steps, all from the answer at the current position."""
    one = torch.ones(1, dtype=torch.int64)
    answer: Answer = yield paths.ask(None, one, (one * size - 1)[:, None])
    return answer.target.join((yield from _after(answer, 0, size - 1)))


def _after(answer: Answer, depth: int, width: int) -> Thread:
    return (yield from answer.after(torch.tensor([depth]), width))


def _part(law: Law, start: int, stop: int) -> Law:
    return law[torch.zeros(1, 1, dtype=torch.int64), torch.arange(start, stop)[None]]


def _accepted(drawn: _Drawn | None) -> bool:
    return drawn is not None
