"""The loop that every window sampler is: draft a window, verify all of it in one round, commit, go on.

A row with w drafted steps asks w + 1 conditionings: one before each drafted step, which verifies it, and one after
the last, from which one more step is drawn outright. So every round commits between 1 and w + 1 steps, and a row
without a draft (w = 0) is not a special case: it is how every sample starts.

Each answer is both the target law of its own step and, one step stale, a draft for the steps after it. Pipelining
takes the next window's draft from the round that verified this one; without it a round with w = 0 comes between.

A round is two functions around the model, `guess` and `absorb`, on dense (rows, width) tables whose columns past a
row's own width are padding. They read nothing back from the device, so the same two run *packed* (`run`: the padding
is dropped before the model sees it, rows leave as they finish) and *captured* (`rounds.captured`: the padding stays,
and a round is one CUDA graph).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drawahead.chains.base import Answer, Paths
from drawahead.laws import Law
from drawahead.randomness import Purpose
from drawahead.rounds.threads import Thread
from drawahead.samplers.base import Sampler
from drawahead.validate import whole


@dataclass(frozen=True)
class Drafts:
    """What is kept from one round to the next."""

    law: Law  # (rows, w)
    width: Tensor  # (rows,) drafted steps
    wish: Tensor  # (rows,) how many there should be
    rounds: Tensor  # (rows,) rounds taken so far

    def rows(self, rows: Tensor, device: torch.device) -> Drafts:
        """Those of some rows (m,); the law lives on the device."""
        columns = torch.arange(self.law.shape[1], device=device)[None]
        return Drafts(self.law[rows.to(device)[:, None], columns], self.width[rows], self.wish[rows], self.rounds[rows])


@dataclass(frozen=True)
class Guess:
    """A draft followed along its own path."""

    values: Tensor  # (rows, w, ...)
    law: Law  # (rows, w): what they were drawn from
    noise: Tensor  # (rows, w + 1, ...)
    steps: Tensor  # (rows, w + 1)


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

    @cached_property
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
    return agrees.cumprod(1).sum(1)


def like(flag: Tensor, value: Tensor) -> Tensor:
    """`flag` with trailing axes added, to broadcast against `value`."""
    return flag.view(*flag.shape, *(1,) * (value.dim() - flag.dim()))


def _columns(rows: Tensor, start: int | Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Index tensors for `width` columns of every row, from column `start` on."""
    device = rows.device
    return torch.arange(len(rows), device=device)[:, None], start + torch.arange(width, device=device)[None]


class WindowSampler(Sampler):
    """A sampler that drafts and verifies windows. Subclasses say how a window is judged and what is drafted next."""

    window: int | None
    pipelined: bool
    keeps_guesses: ClassVar[bool] = True
    """Whether a draft that is kept is committed as it was guessed."""
    drafts_from_last: ClassVar[bool] = False
    """Whether only the last answer of a window drafts the steps beyond it; otherwise any one may have to."""
    running: ClassVar[tuple[float, float]] = (0.875, 0.325)
    """Where the window adapts: the weights of what it was and of what was committed, in a running mean of 2.6 times
    that. Seldom is all of a draft kept."""

    def __post_init__(self) -> None:
        if self.window is not None:  # None adapts it
            whole("window", self.window, 1)

    @abc.abstractmethod
    def judge(self, window: Window) -> tuple[Tensor, Tensor]:
        """-> kept (rows,), the number of leading drafts kept, and values (rows, w + 1, ...) of which kept + 1 hold."""

    def attempt(self, rounds: Tensor) -> Tensor | int:
        """The attempt in the address of a draft's noise: a new one every round."""
        return rounds

    def more_noise(self, paths: Paths, target: Law, steps: Tensor, rounds: Tensor) -> tuple[Tensor, Tensor]:
        """The uniforms to accept `steps` (rows, w) with, and the noise to correct one step with."""
        uniform = paths.stream.uniform(Purpose.ACCEPT, steps, self.attempt(rounds))
        return uniform, target.noise(paths.stream, Purpose.CORRECT, paths.steps(1), rounds)

    def redraft(self, answer: Answer, draft: Law, width: Tensor, kept: Tensor, columns: int, beyond: int) -> Law:
        """The next window's draft, a law (rows, columns): here, from the answer at the last kept step. `draft` is this
        window's; `beyond` says how many steps past the window the answer can draft."""
        return answer.after(kept, columns)

    def pays(self, position: Tensor, rounds: Tensor) -> Tensor | None:
        """Whether samples that stand at `position` (rows,) after `rounds` (rows,) rounds should go on speculating; None
        if all should."""
        return None

    def room(self, paths: Paths, position: Tensor) -> Tensor:
        """How many steps may be drafted from there (rows,)."""
        return paths.room_at(position)

    def widest(self, steps: int) -> int:
        """The widest window there may be, of so many steps."""
        return steps if self.window is None else min(self.window, steps)

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
        past, new = self.running
        return torch.where(width > 0, (past * wish + new * (kept + 1)).round().long().clamp(min=4), wish)

    def widest_next(self, wish: tuple[int, ...], width: tuple[int, ...]) -> list[int]:
        """`next_width` of rows whose drafts are all kept; without tensors, which would take ten times as long."""
        if self.window is not None:
            return list(wish)
        past, new = self.running
        drafted = np.array(width, dtype=np.float32)
        mean = np.rint(past * np.array(wish, dtype=np.float32) + new * (drafted + 1))
        found: list[int] = np.where(drafted > 0, mean.clip(min=4), wish).astype(np.int64).tolist()
        return found

    # One round

    def begin(self, paths: Paths) -> Drafts:
        """No drafts yet."""
        nothing = torch.zeros_like(paths.position)
        return Drafts(paths.no_draft(), nothing, self.first_width(paths), nothing)

    def guess(self, paths: Paths, drafts: Drafts) -> Guess:
        """Follow the drafts, as wide as their table is."""
        width = drafts.law.shape[1]
        steps = paths.steps(width + 1)
        attempt = self.attempt(drafts.rounds)
        noise = drafts.law.noise(
            paths.stream, Purpose.VALUE, steps, attempt.to(paths.device) if isinstance(attempt, Tensor) else attempt
        )
        values, law = paths.follow(drafts.law, noise[:, :width])
        return Guess(values, law, noise, steps)

    def absorb(
        self,
        paths: Paths,
        drafts: Drafts,
        guess: Guess,
        answer: Answer,
        columns: int | None = None,
        beyond: int | None = None,
    ) -> tuple[Tensor, Tensor, Drafts]:
        """Judge a window and draft the next. -> values (rows, w + 1, ...), how many of them hold (rows,), new drafts.

        `columns` and `beyond` fix the shape of the next drafts and what the answer can draft past the window; by
        default they are as large as any row needs.
        """
        width = drafts.width
        target = answer.target
        steps = guess.steps[:, : guess.law.shape[1]]
        uniform, correction = self.more_noise(paths, target, steps, drafts.rounds.to(paths.device))
        window = Window(guess.law, target, guess.values, guess.noise, uniform, correction, width.to(paths.device))
        judged, values = self.judge(window)
        kept = judged.to(width.device)  # where control lives on the CPU, the round's one synchronisation
        count = torch.minimum(kept + 1, paths.length - paths.position)  # 0 where a row has ended
        position, rounds = paths.position + count, drafts.rounds + 1
        wish = self.next_width(drafts.wish, width, kept)
        ready = wish if self.pipelined else torch.where(width == 0, wish, 0)
        following = torch.minimum(ready, self.room(paths, position)).clamp(min=0, max=columns)
        pays = self.pays(position, rounds)
        following = following if pays is None else following * pays
        columns = int(following.max()) if columns is None else columns
        law = self.redraft(answer, drafts.law, width, kept, columns, columns if beyond is None else beyond)
        return values, count, Drafts(law, following, wish, rounds)

    def take(self, paths: Paths, drafts: Drafts, guess: Guess) -> Drafts:
        """Commit all that is drafted, unverified: not exact. A step is always left. -> no drafts."""
        paths.advance(guess.values, drafts.width)
        return Drafts(drafts.law.first(0), torch.zeros_like(drafts.width), drafts.wish, drafts.rounds)

    def run(self, paths: Paths) -> Thread:
        if self.keeps_guesses and len(paths):
            paths.remember(self.widest(int(paths.length.max())))
        drafts = self.begin(paths)
        while len(paths):
            guess = self.guess(paths, drafts)
            if paths.tally.hurried:
                paths.tally.unverified += int(drafts.width.sum())
                paths.tally.committed += int(drafts.width.sum())
                drafts = self.take(paths, drafts, guess)
                guess = self.guess(paths, drafts)
            answer: Answer = yield paths.ask(guess.values, drafts.width + 1, self._reach(drafts))
            values, count, following = self.absorb(paths, drafts, guess, answer)
            paths.tally.drafted += int(drafts.width.sum())
            before = paths.tally.committed
            live = paths.commit(values, count, guess.values if self.keeps_guesses else None)
            paths.tally.accepted += paths.tally.committed - before - len(count)
            drafts = following if len(live) == len(count) else following.rows(live, paths.device)

    def _reach(self, drafts: Drafts) -> Tensor:
        """For how many steps each conditioning must be able to draft; column i holds if i drafts are kept."""
        width, most = drafts.width[:, None], drafts.law.shape[1]
        kept = torch.arange(most + 1).expand(len(width), -1)
        wishes = self.next_width(drafts.wish[:, None], width, kept)
        if self.drafts_from_last:
            return torch.where(kept == width, wishes, 0)
        return torch.where((width > 0) & (not self.pipelined), 0, wishes)
