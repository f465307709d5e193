"""What a model shows of its own rounding: the same questions asked again, alone and among copies of themselves.

A network answers slightly differently in a batch of another shape. That is no fault, and it differs from model to
model: so it is measured, on batches that hold one question many times, which have nothing else to answer by. What an
answer owes to the *other* questions of a batch shows beside that: the same question, in the same place of a batch of
the same size, once among others and once among copies of itself. Those answers should be the same, and may differ by a
few times the rounding at most: a model may work on batches in parts that depend on what is in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor

from drawahead.chains.affine_queries import NOTHING, GaussianQuery
from drawahead.chains.rereading import Reread
from drawahead.chains.token_queries import TokenQuery
from drawahead.executors.local import Local
from drawahead.rounds.threads import Query
from drawahead.verification.precision import FULL, Precision, seen

TIMES = 10
"""How much larger a difference may be than the rounding that was shown: the largest of a few is seldom the largest."""
ASKED = 6  # questions of a round that are asked again
_ROUNDS = frozenset(round(2 ** (k / 2)) - 1 for k in range(60))  # 0, 1, 2, 3, 5, 7, 10, ...: early ones, and late ones


@final
@dataclass(frozen=True)
class Difference:
    """How far answers are apart that should be the same."""

    size: float = 0.0
    """Of tokens, the total variation of rows; of vectors, relative to the step (its noise, or what the answer adds)."""
    law: float = 0.0
    """The total variation between the laws of the step that they lead to."""
    shift: float = 0.0
    """Of vectors: how many standard deviations the means of an entry are apart."""

    def __or__(self, other: Difference) -> Difference:
        """The larger of both."""
        return Difference(max(self.size, other.size), max(self.law, other.law), max(self.shift, other.shift))


@final
@dataclass(frozen=True)
class Rounding:
    """What was shown, and what is allowed for it."""

    precision: Precision = FULL
    again: Difference = Difference()
    """The same question twice, in the same batch."""
    shape: Difference = Difference()
    """The same question alone and among copies of itself."""
    mixed: Difference = Difference()
    """The same question alone and among others."""
    leak: Difference = Difference()
    """The same question among others and among copies of itself, in the same place."""
    asked: int = 0
    """How many questions were looked at."""

    @property
    def allowed_again(self) -> float:
        return self.precision.ceiling

    @property
    def allowed_in_place(self) -> float:
        """Between answers in batches of one shape, which differ in what should not matter."""
        return min(TIMES * self.again.size + self.precision.floor, self.precision.ceiling)

    @property
    def allowed(self) -> float:
        """Between answers in batches of different shapes."""
        return min(TIMES * (self.again | self.shape).size + self.precision.floor, self.precision.ceiling)

    @property
    def all(self) -> Difference:
        """How far answers may be apart from run to run."""
        return self.again | self.shape | self.mixed | self.leak


@final
class AskingAgain:
    """An executor that asks some of its questions again: all together, alone, and among copies."""

    def __init__(self, max_batch_size: int | None = None) -> None:
        self.again = self.shape = self.mixed = self.leak = Difference()
        self.asked = 0
        self._precision = FULL
        self._local = Local(max_batch_size)
        self._round = 0

    @property
    def shown(self) -> Rounding:
        return Rounding(self._precision, self.again, self.shape, self.mixed, self.leak, self.asked)

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        first = self._local.answer(queries)
        if self._round in _ROUNDS and queries:
            at = max(range(len(queries)), key=lambda i: len(queries[i]))
            self.again |= compared(queries[at], self._local.answer(queries)[at], first[at])
            self._look(queries[at], first[at])
        self._round += 1
        return first

    def _look(self, query: Query, among_others: Tensor) -> None:
        if not isinstance(query, TokenQuery | GaussianQuery):  # cannot be taken apart, or be copied
            alone = query.evaluate(0, 1)
            self.leak |= compared(query, alone, among_others[: len(alone)])
            return
        for item in torch.linspace(0, len(query) - 1, min(ASKED, len(query))).round().long().unique().tolist():
            one = query.take(item, item + 1)
            if not self.asked:
                self._precision = seen(partial(one.evaluate, 0, 1))
            self.asked += 1
            alone = one.evaluate(0, 1)
            self.again |= compared(one, one.evaluate(0, 1), alone)
            begin = query.take(0, item).cells if item else 0
            mixed = among_others[begin : begin + len(alone)]
            self.mixed |= compared(one, alone, mixed)
            for size in sorted({2, len(query)} - {1}):
                copies = self._copies(one, size)
                self.shape |= compared(one, alone, copies[0]) | compared(one, alone, copies[-1])
                if size == len(query):
                    self.leak |= compared(one, copies[item], mixed)

    def _copies(self, one: Query, size: int) -> Tensor:
        """The answers to a question in a batch of so many copies of it (copies, cells, ...)."""
        answers = self._local.answer([type(one).merge([one] * size)])[0]
        return answers.view(size, one.cells, -1)


def compared(query: Query, one: Tensor, other: Tensor) -> Difference:
    """Of two evaluations of a query, the largest difference."""
    if not len(one):
        return Difference()
    if isinstance(query, TokenQuery | Reread):
        apart = distance(one, other)
        return Difference(apart, apart)
    if isinstance(query, GaussianQuery):
        return _steps_apart(query, one, other)
    return Difference(_relative(one, other), 0.0 if torch.equal(one, other) else 1.0)


def distance(one: Tensor, other: Tensor) -> float:
    """The largest total variation between rows of log-probabilities."""
    gap = (one.double().exp() - other.double().exp()).abs().sum(-1) / 2
    return float(gap.nan_to_num(nan=torch.inf).max()) if gap.numel() else 0.0


def _steps_apart(query: GaussianQuery, one: Tensor, other: Tensor) -> Difference:
    step = query.packed(query.step).to(one.device)[:, None]
    this, that = (query.oracle.moves.law(answer[:, None], step, NOTHING) for answer in (one, other))
    noisy, noise = this.scale[:, 0] > 0, (that.scale[..., None] if that.thin is None else that.thin).flatten(1)
    apart = root_mean_square(this.mean - that.mean)
    size = torch.maximum(root_mean_square(noise), root_mean_square(that.mean))
    # A step without noise may add next to nothing: then it is the state that tells what is small.
    size = torch.where(noisy, size, size.maximum(1e-3 * root_mean_square(query.packed(query.state))))
    relative = torch.where(apart > 0, apart / size.clamp(min=1e-300), 0.0)
    # Of two Gaussians whose means are d standard deviations apart: 2 Phi(d / 2) - 1.
    moved = (this.mean - that.mean).flatten(1) / noise.clamp(min=1e-300)
    variation = torch.erf(torch.linalg.vector_norm(moved, dim=1) / math.sqrt(8))
    spreads = [query.oracle.moves.deviations(answer[:, None], step) for answer in (one, other)]
    if spreads[0] is not None and spreads[1] is not None:
        wider, ratio = _spreads_apart(spreads[0].flatten(1), spreads[1].flatten(1))
        relative = torch.where(noisy, relative.maximum(wider), relative)
        variation = (variation + 1.5 * ratio).clamp(max=1.0)
    variation, farthest = (torch.where(noisy, value, 0.0) for value in (variation, moved.abs().amax(1)))
    return Difference(float(relative.max()), float(variation.max()), float(farthest.max()))


def _spreads_apart(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Of standard deviations (rows, d): how far they are apart, relative to the larger ones; and the root of the sum of
    squares of what the ratios of variances differ from 1 by. Gaussians with these are no further apart, in total
    variation, than 1.5 times that (Devroye, Mehrabian, Reddad 2018)."""
    most = torch.maximum(one, other).clamp(min=1e-300)
    apart = root_mean_square((one - other) / most)
    ratio = torch.where(one == other, 0.0, (one / other.clamp(min=1e-300)).square() - 1)
    return apart, torch.linalg.vector_norm(ratio, dim=1)


def root_mean_square(table: Tensor) -> Tensor:
    """Of each row."""
    return table.flatten(1).square().mean(1).sqrt()


def _relative(one: Tensor, other: Tensor) -> float:
    """The largest root mean square difference, relative to the size of the answers."""
    gap, size = root_mean_square(one.double() - other.double()), root_mean_square(other.double())
    return float(torch.where(gap > 0, gap / size.clamp(min=1e-300), 0.0).max())
