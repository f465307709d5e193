"""The loop that Stepwise, Block and Coupled share: draft a window, verify all of it in one round, commit, go on.

A row with w drafted steps asks w + 1 conditionings: one before each drafted step, which verifies it, and one after
the last, from which one more step is drawn outright. So every round commits between 1 and w + 1 steps, and a row
without a draft (w = 0) is not a special case: it is how every sample starts.

Each answer is both the target law of its own step and, one step stale, a draft for the steps after it. Pipelining
takes the next window's draft from the round that verified this one; without it a round with w = 0 comes between.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from drawahead.chains.base import Answer, Paths
from drawahead.errors import whole
from drawahead.laws import Law
from drawahead.randomness import Purpose
from drawahead.rounds import Thread
from drawahead.samplers.base import Sampler


@dataclass(frozen=True)
class Window:
    """One round's draft beside its verification, for every row. Columns past a row's width are padding."""

    draft: Law  # (rows, w)
    target: Law  # (rows, w + 1): of every drafted step, and of the one after them
    guess: Tensor  # (rows, w, ...) drawn from `draft` with `noise`
    noise: Tensor  # (rows, w + 1, ...)
    uniform: Tensor  # (rows, w) to accept with
    correction: Tensor  # (rows, 1, ...) noise that nothing else uses, to correct one step with
    width: Tensor  # (rows,) drafted steps

    @property
    def verified(self) -> Law:
        """The targets of the drafted steps (rows, w)."""
        return self.target.first(self.draft.shape[1])

    @property
    def used(self) -> Tensor:
        """Which columns are drafted (rows, w)."""
        return torch.arange(self.draft.shape[1], device=self.width.device) < self.width[:, None]

    def corrected(self, kept: Tensor, log_weight: Tensor) -> Tensor:
        """The guesses with step `kept` (rows,) replaced by a draw from (weight * target - draft)_+, or from the
        target where all of the draft was kept. (rows, w + 1, ...)."""
        here = _columns(kept, kept[:, None], 1)
        target = self.target[here]
        value = target.draw(self.correction)
        if self.draft.shape[1]:
            draft = self.draft[here[0], here[1].clamp(max=self.draft.shape[1] - 1)]
            residual = target.draw_residual(draft, log_weight[:, None], self.correction)
            value = torch.where(like(kept == self.width, value), value, residual)
        values = torch.cat([self.guess, value], dim=1)
        values[here] = value
        return values


def leading(agrees: Tensor) -> Tensor:
    """How many columns, from the first, are all True (rows,)."""
    return agrees.long().cumprod(1).sum(1)


def _columns(rows: Tensor, start: int | Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Index tensors for `width` columns of every row, from column `start` on."""
    device = rows.device
    return torch.arange(len(rows), device=device)[:, None], start + torch.arange(width, device=device)[None]


def like(flag: Tensor, value: Tensor) -> Tensor:
    """`flag` with trailing axes added, to broadcast against `value`."""
    return flag.view(*flag.shape, *(1,) * (value.dim() - flag.dim()))


class WindowSampler(Sampler):
    """A sampler that drafts and verifies windows. Subclasses say how a window is judged and what is drafted next."""

    window: int | None
    pipelined: bool
    keeps_guesses: ClassVar[bool] = True
    """Whether a draft that is kept is committed as it was guessed."""

    def __post_init__(self) -> None:
        if self.window is not None:  # None adapts it
            whole("window", self.window, 1)

    @abc.abstractmethod
    def judge(self, window: Window) -> tuple[Tensor, Tensor]:
        """-> kept (rows,), the number of leading drafts kept, and values (rows, w + 1, ...) of which kept + 1 hold."""

    def attempt(self, rounds: int) -> int:
        """The attempt in the address of a draft's noise: a new one every round."""
        return rounds

    def more_noise(self, paths: Paths, target: Law, steps: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
        """The uniforms to accept `steps` (rows, w) with, and the noise to correct one step with."""
        uniform = paths.stream.uniform(Purpose.ACCEPT, steps, self.attempt(rounds))
        return uniform, target.noise(paths.stream, Purpose.CORRECT, paths.steps(1), rounds)

    def reach(self, width: Tensor, wish: Tensor) -> Tensor:
        """For how many steps each conditioning must be able to draft; column i of `wish` holds if i are kept."""
        return wish

    def redraft(self, answer: Answer, draft: Law, width: Tensor, kept: Tensor, next_width: Tensor) -> Thread:
        """The next window's draft, a law: here, from the answer at the last kept step. `draft` is this window's."""
        return (yield from answer.after(kept, next_width))

    def pays(self, position: Tensor, rounds: Tensor) -> Tensor:
        """Whether samples that stand at `position` (rows,) after `rounds` (rows,) rounds should go on speculating."""
        return torch.ones_like(position, dtype=torch.bool)

    def room(self, paths: Paths) -> Tensor:
        """How many steps may be drafted (rows,)."""
        return paths.room

    def first_width(self, paths: Paths) -> Tensor:
        """How wide the first window is (rows,)."""
        return self._fixed_or(4.0, paths)

    def _fixed_or(self, factor: float, paths: Paths) -> Tensor:
        if self.window is not None:
            return torch.full_like(paths.length, min(self.window, 2**62))  # no path is longer
        return (factor * paths.length.sqrt()).round().long().clamp(min=4)

    def next_width(self, wish: Tensor, width: Tensor, kept: Tensor) -> Tensor:
        """How wide the next window should be. It may read what was committed, never noise that is still fresh."""
        if self.window is not None:
            return wish.expand_as(kept)
        # A running mean of 2.6 times what was committed: seldom is all of a draft kept.
        return torch.where(width > 0, (0.875 * wish + 0.325 * (kept + 1)).round().long().clamp(min=4), wish)

    def run(self, paths: Paths) -> Thread:
        draft = paths.no_draft()
        width = torch.zeros(len(paths), dtype=torch.int64)
        wish = self.first_width(paths)
        rounds = 0
        while len(paths):
            most = draft.shape[1]
            steps = paths.steps(most + 1)
            noise = draft.noise(paths.stream, Purpose.VALUE, steps, self.attempt(rounds))
            guess, followed = paths.follow(draft, noise[:, :most])
            wishes = self._wishes(width, wish, most)
            drafts = torch.where((width[:, None] > 0) & (not self.pipelined), 0, wishes)
            answer: Answer = yield paths.ask(guess, width + 1, self.reach(width, drafts))
            target = answer.target
            uniform, correction = self.more_noise(paths, target, steps[:, :most], rounds)
            window = Window(followed, target, guess, noise, uniform, correction, width.to(paths.device))
            judged, values = self.judge(window)
            kept = judged.cpu()  # the round's one synchronisation
            paths.tally.drafted += int(width.sum())
            paths.tally.accepted += int(kept.sum())
            live = paths.commit(values, kept + 1, guess if self.keeps_guesses else None)
            wish = wishes.gather(1, kept[:, None])[:, 0]
            ready = wish if self.pipelined else torch.where(width == 0, wish, 0)
            following = torch.zeros_like(width)
            pays = self.pays(paths.position, torch.full_like(paths.position, rounds + 1))
            following[live] = torch.where(pays, torch.minimum(ready[live], self.room(paths)), 0)
            draft = yield from self.redraft(answer, draft, width, kept, following)
            if len(live) < len(width):
                draft = draft[live.to(paths.device)[:, None], torch.arange(draft.shape[1], device=paths.device)[None]]
            width, wish = following[live], wish[live]
            rounds += 1

    def _wishes(self, width: Tensor, wish: Tensor, most: int) -> Tensor:
        """The next width this row will wish for, should it keep 0, 1, ... `most` drafts (rows, most + 1)."""
        kept = torch.arange(most + 1).expand(len(width), -1)
        return self.next_width(wish[:, None], width[:, None], kept)
