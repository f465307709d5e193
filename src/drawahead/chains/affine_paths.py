"""Vectors under way: which states values lead to, and what is asked about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.base import Ahead, Paths, Tally
from drawahead.chains.gaussian_queries import GaussianAnswer, GaussianQuery
from drawahead.chains.moves import NOTHING, Aside, Moves
from drawahead.laws import Gaussian, Law
from drawahead.oracles.condition import Given
from drawahead.randomness import Stream

if TYPE_CHECKING:
    from drawahead.chains.affine import AffineChain


@final
@dataclass(eq=False)
class AffinePaths(Paths):
    """Samples of an affine chain under way."""

    tables: ClassVar[tuple[str, ...]] = ("x", "recorded", "before", "known")
    streams: ClassVar[tuple[str, ...]] = ("stream", "copies")
    chain: AffineChain
    sample: Tensor
    position: Tensor
    length: Tensor
    stream: Stream
    tally: Tally
    x: Tensor  # (rows, entries of a state) the committed state
    recorded: Tensor  # (rows, len(record), entries of a state)
    copies: Stream  # of noise that no answer has a part in: a branch meets the same as its parent
    given: Given = field(default_factory=dict)  # the rows of the condition
    known: Tensor | None = None  # (rows, d) entries that are overwritten, NaN where there are none
    before: Tensor | None = None  # (rows, entries of an answer) the answer at the state before, where steps look back
    answer: GaussianAnswer | None = None  # the last one, where steps look back
    followed: tuple[Tensor, Tensor] | None = None  # the last guess, and the states it leads to
    blocked: bool = False  # whether states are worked out in blocks: where every operation is a kernel of its own

    @property
    def device(self) -> torch.device:
        return self.chain.device

    @property
    def moves(self) -> Moves:
        return self.chain.moves

    def room_at(self, position: Tensor) -> Tensor:
        if not self.moves.deterministic_within:
            return super().room_at(position)
        ahead = self.moves.next_deterministic(position.device)[position.clamp(max=self.moves.steps)]
        return torch.minimum(self.length - 1, ahead) - position

    @property
    def stretch(self) -> Tensor:
        return (self.moves.next_deterministic(self.position.device)[self.position] - self.position).clamp(min=1)

    @property
    def windows_only(self) -> str:
        return self.moves.windows_only

    @property
    def aside(self) -> Aside:
        """What laws and states depend on beside answers and values."""
        return Aside(self.known, self.copies, self.before, self.blocked)

    def no_draft(self) -> Gaussian:
        nothing = self.x.new_zeros(len(self), 0, math.prod(self.moves.answer_shape))
        return self.moves.law(nothing, self.steps(0), NOTHING).without_thin()

    def states(self, values: Tensor) -> Tensor:
        """The states after 0, 1, ... of the values (rows, w, ...) -> (rows, w + 1, entries of a state)."""
        if self.followed is not None and self.followed[0] is values:
            return self.followed[1]
        return self.moves.roll(self.x, values, self.steps(values.shape[1] + 1), self.aside)

    def follow(self, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        if not isinstance(draft, Gaussian) or draft.slope is None:
            return super().follow(draft, noise)
        mean, states = self.moves.follow(self.x, draft, noise, self.steps(noise.shape[1]), self.aside)
        guess, plain = super().follow(Gaussian(mean, draft.scale), noise)
        self.followed = None if states is None else (guess, states)
        return guess, plain

    def ask(self, guess: Tensor | None, count: Tensor, reach: Tensor | Ahead, first: int = 0) -> GaussianQuery:
        states = self.x[:, None] if guess is None else self.states(guess)
        self.followed = None if guess is None else (guess, states)
        last = first + reach.shape[1] if isinstance(reach, Tensor) else states.shape[1]
        step = self.steps(last)[:, first:].clamp(max=self.moves.steps - 1)
        heard = self._hear if self.moves.looks_back else None
        aside, given = self.aside, self.given
        return GaussianQuery(self.chain, self.sample, states[:, first:last], step, count, given, None, aside, heard)

    def _hear(self, answer: GaussianAnswer) -> None:
        self.answer = answer

    def bound(self, tensors: dict[str, Tensor], model: AffineChain) -> AffinePaths:
        paths = self.made_of(tensors)
        paths.chain, paths.blocked = model, True
        return paths

    def made_of(self, tensors: dict[str, Tensor]) -> AffinePaths:
        paths = super().made_of(tensors)
        paths.followed, paths.answer = None, None
        return paths

    def advance(self, values: Tensor, count: Tensor, guess: Tensor | None = None) -> None:
        at = count.to(self.device)
        rows = torch.arange(len(self), device=self.device)
        if guess is not None and self.followed is not None and self.followed[0] is guess:
            # From the very state that was asked about: rolled again from the start, rounding might have grown.
            states, last = self.followed[1], (at - 1).clamp(min=0)
            step = self.position.to(self.device) + last
            x = self.moves.onward(states[rows, last], values[rows, last], step, self.aside)
            x = torch.where(at[:, None] > 0, x, self.x)
        else:
            states = self.states(values if self.blocked else values[:, : int(count.max())])
            x = states[rows, at]
        for column, recorded in enumerate(self.chain.record):
            ahead = (recorded - self.position).to(self.device)
            passed = (ahead > 0) & (ahead <= at)
            there = torch.where((ahead == at)[:, None], x, states[rows, ahead.clamp(0, states.shape[1] - 1)])
            self.recorded[:, column] = torch.where(passed[:, None], there, self.recorded[:, column])
        if self.before is not None and self.answer is not None:
            last = self.answer.own[rows, (at - 1).clamp(min=0)]
            self.before = torch.where(at[:, None] > 0, last, self.before)
        self.x, self.followed, self.answer = x, None, None
        self.position = self.position + count

    def branch(self, stream: Stream) -> AffinePaths:
        return replace(self, stream=stream, recorded=self.recorded.clone())

    def result(self, rows: Tensor | slice) -> Tensor:
        kept = self.moves.outcome(self.recorded[rows], self.x[rows])
        return kept.reshape(len(kept), *self.chain.empty(1).shape[1:]).to("cpu", self.chain.dtype)
