"""Samplers that are wrong on purpose. The checks that pass the real ones must reject every one of these.

Each breaks one thing, in a way that has been seen in the wild or is easy to do. HARMLESS holds changes that look just
as wrong and are not: the reason why is part of the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.base import Answer, Paths
from drawahead.laws import Categorical
from drawahead.randomness import Purpose, Stream
from drawahead.rounds.threads import Thread
from drawahead.samplers import Block, Coupled, Recursive, Sampler, Sequential, Stepwise
from drawahead.samplers.recursive import Recursion
from drawahead.samplers.window import Drafts, Guess, Window, WindowSampler

Judged = tuple[Tensor, Tensor]
Try = Callable[..., Thread]


def outright(window: Window, kept: Tensor) -> Judged:
    """Keep so many, and draw the next step from its target as if nothing had been rejected."""
    return kept, replace(window, width=kept).corrected(kept, torch.zeros(len(kept), dtype=torch.float64))


def cut_before_ones(window: Window) -> Window:
    """Control that peeks: the window ends before the first drafted 1, as the drafted tokens themselves decide."""
    zeros = (window.guess != 1).long().cumprod(1).sum(1)
    return replace(window, width=torch.minimum(window.width, zeros))


# Sequential: each is broken twice, for packed rounds in `run` and for captured ones in what a round is made of


class SameNoiseTwice(Sequential):
    """Steps 0 and 1 use the same noise, as do 2 and 3."""

    def run(self, paths: Paths) -> Thread:
        while len(paths):
            one = torch.ones(len(paths), dtype=torch.int64)
            answer: Answer = yield paths.ask(None, one, torch.zeros(len(paths), 1, dtype=torch.int64))
            law, step = answer.target, paths.steps(1)
            paths.commit(law.draw(law.noise(paths.stream, Purpose.VALUE, step - step % 2)), one)

    def guess(self, paths: Paths, drafts: Drafts) -> Guess:
        guess = super().guess(paths, drafts)
        return replace(guess, noise=drafts.law.noise(paths.stream, Purpose.VALUE, guess.steps - guess.steps % 2))


class TwoStepsAtOnce(Sequential):
    """Draws two steps from one answer, as if they were independent."""

    def run(self, paths: Paths) -> Thread:
        while len(paths):
            count = torch.minimum(torch.full_like(paths.room_at(paths.position), 2), paths.room_at(paths.position) + 1)
            one = torch.ones_like(count)
            answer: Answer = yield paths.ask(None, one, (count - 1)[:, None])
            law = answer.target.join(answer.after(torch.zeros_like(count), int(count.max()) - 1))
            values = law.draw(law.noise(paths.stream, Purpose.VALUE, paths.steps(law.shape[1])))
            paths.commit(values, count)

    def first_width(self, paths: Paths) -> Tensor:
        return torch.ones_like(paths.length)  # nothing is ever drafted, but answers are read one step further

    def next_width(self, wish: Tensor, width: Tensor, kept: Tensor) -> Tensor:
        return torch.ones_like(kept)

    def absorb(
        self,
        paths: Paths,
        drafts: Drafts,
        guess: Guess,
        answer: Answer,
        columns: int | None = None,
        beyond: int | None = None,
    ) -> tuple[Tensor, Tensor, Drafts]:
        ahead = answer.after(torch.zeros_like(drafts.width), beyond or 0)
        law = answer.target.join(ahead)
        values = law.draw(law.noise(paths.stream, Purpose.VALUE, paths.steps(law.shape[1])))
        count = (paths.length - paths.position).clamp(max=law.shape[1])
        return values, count, replace(drafts, law=ahead.first(columns or 0))


class OneNoiseForAll(Sequential):
    """Every sample has the noise of sample 0: each has the right law, together they do not."""

    def run(self, paths: Paths) -> Thread:
        self._muddle(paths)
        return super().run(paths)

    def guess(self, paths: Paths, drafts: Drafts) -> Guess:
        self._muddle(paths)
        return super().guess(paths, drafts)

    @staticmethod
    def _muddle(paths: Paths) -> None:
        paths.stream = Stream(Stream.of_samples(0, torch.zeros_like(paths.sample)).keys)


# Stepwise


class TargetForResidual(Stepwise):
    """Corrects a rejected step from the target."""

    def judge(self, window: Window) -> Judged:
        return outright(window, super().judge(window)[0])


class ReusedUniform(Stepwise):
    """Corrects by inverting the residual's distribution function at the very uniform that rejected."""

    def judge(self, window: Window) -> Judged:
        kept, values = super().judge(window)
        if not window.draft.shape[1]:
            return kept, values
        assert isinstance(window.target, Categorical) and isinstance(window.draft, Categorical)
        row, at = torch.arange(len(kept)), kept.clamp(max=window.draft.shape[1] - 1)
        residual = (window.target.log_probs[row, at].exp() - window.draft.log_probs[row, at].exp()).clamp(min=0)
        share = residual.cumsum(1) / residual.sum(1, keepdim=True)
        token = (share < window.uniform[row, at, None]).sum(1).clamp(max=residual.shape[1] - 1)
        values[row, kept] = torch.where(kept == window.width, values[row, kept], token)
        return kept, values


class WrongRatio(Stepwise):
    """Accepts with draft / target."""

    def judge(self, window: Window) -> Judged:
        log_ratio = window.verified.log_ratio(window.draft, window.guess)
        kept = ((window.uniform.log() <= -log_ratio) & window.used).long().cumprod(1).sum(1)
        return kept, window.corrected(kept, torch.zeros(len(kept), dtype=torch.float64))


class PeekingStepwise(Stepwise):
    def judge(self, window: Window) -> Judged:
        return super().judge(cut_before_ones(window))


# Block


def log_ratios(window: Window) -> Tensor:
    """(rows, w + 1): log mu / nu of every prefix, from the empty one."""
    ratio = torch.where(window.used, window.verified.log_ratio(window.draft, window.guess), 0.0)
    return pad(ratio.cumsum(1), (1, 0))


def capped(total: Tensor) -> Tensor:
    """log p: every prefix's weight, p_i = min(1, p_{i-1} ratio_i)."""
    return total - total.cummax(1).values


def by_prefix(window: Window, log_p: Tensor, mass: Tensor) -> Judged:
    """Block verification from the weights p_0 ... p_w and the residual masses S_0 ... S_{w-1}, right or wrong."""
    index, width = torch.arange(log_p.shape[1]), window.width[:, None]
    h = pad(mass / (mass + 1 - log_p[:, :-1].exp()), (0, 1))
    passes = pad(window.uniform, (1, 0)) <= torch.where(index == width, log_p.exp(), h)
    passes[:, 0] = True
    kept = (passes & (index <= width)).long().mul(index + 1).amax(1) - 1
    return kept, window.corrected(kept, log_p.gather(1, kept[:, None])[:, 0])


class UnbrokenBlock(Block):
    """Nothing is broken here: what the mutants below start from."""

    def judge(self, window: Window) -> Judged:
        log_p = capped(log_ratios(window))
        return by_prefix(window, log_p, window.verified.residual_mass(window.draft, log_p[:, :-1]))


class WeightIgnored(Block):
    """Corrects from (target - draft)_+ whatever the weight of the prefix."""

    def judge(self, window: Window) -> Judged:
        kept, _ = super().judge(window)
        return kept, window.corrected(kept, torch.zeros(len(kept), dtype=torch.float64))


class OffByOne(Block):
    """Decides on prefix i with the residual mass of step i, not of step i + 1."""

    def judge(self, window: Window) -> Judged:
        log_p = capped(log_ratios(window))
        mass = window.verified.residual_mass(window.draft, log_p[:, :-1])
        return by_prefix(window, log_p, torch.cat([mass[:, :1], mass[:, :-1]], dim=1))


class NotCapped(Block):
    """A prefix likelier than its draft lends its surplus to later steps."""

    def judge(self, window: Window) -> Judged:
        log_p = log_ratios(window)
        return by_prefix(window, log_p, window.verified.residual_mass(window.draft, log_p[:, :-1]))


class StepwisePrefix(Block):
    """The prefix that Stepwise keeps, corrected from the residual of Block."""

    def judge(self, window: Window) -> Judged:
        log_ratio = window.verified.log_ratio(window.draft, window.guess)
        kept = ((window.uniform.log() <= log_ratio) & window.used).long().cumprod(1).sum(1)
        return kept, window.corrected(kept, capped(log_ratios(window)).gather(1, kept[:, None])[:, 0])


class StaleNoise(Block):
    """Drafts again from noise that has already decided how much to keep."""

    def attempt(self, rounds: Tensor) -> Tensor | int:
        return 0


class PeekingBlock(Block):
    def judge(self, window: Window) -> Judged:
        return super().judge(cut_before_ones(window))


# Coupled


class RedrawnDisagreement(Coupled):
    """Commits agreement and draws the first disagreement from fresh noise: agreeing values are counted twice."""

    more_noise = WindowSampler.more_noise

    def judge(self, window: Window) -> Judged:
        return outright(window, super().judge(window)[0])


class OneStepTooMany(Coupled):
    """Commits a step past the first disagreement, whose answer was given to a wrong path."""

    def judge(self, window: Window) -> Judged:
        kept, values = super().judge(window)
        return torch.minimum(kept + 1, window.width), values


class GuessKept(Coupled):
    """Commits the guess where guess and target disagree."""

    def judge(self, window: Window) -> Judged:
        kept, values = super().judge(window)
        return kept, torch.cat([window.guess, values[:, -1:]], dim=1)


# Recursive


class FirstToFinish(Recursive):
    """Takes the accepted candidate that ends first: run time depends on the value."""

    @staticmethod
    def speculate(draft: Try, candidate: Try, place: tuple[Any, ...], batches: Iterable[range]) -> Thread:
        winners: list[Any] = []

        def racing(*numbered: Any) -> Thread:
            thread, message = candidate(*numbered), None
            while not winners:
                try:
                    message = yield thread.send(message)
                except StopIteration as stop:
                    winners.extend([stop.value] * (stop.value is not None))
                    return stop.value

        return Recursive.speculate(draft, racing, place, batches)


class AlwaysAccepted(Recursive):
    """Takes the first candidate whatever it is."""

    @staticmethod
    def accepts_candidate(uniform: Tensor, log_ratio: Tensor) -> Tensor:
        return torch.ones_like(uniform, dtype=torch.bool)


class FlippedJudge(Recursive):
    """Accepts with 1 - target / draft."""

    @staticmethod
    def accepts_candidate(uniform: Tensor, log_ratio: Tensor) -> Tensor:
        return Recursive.accepts_candidate(uniform, -log_ratio)


class CappedCandidates(Recursive):
    """Gives up after one candidate: the second is taken whatever it is."""

    def runs(self, paths: Paths) -> list[Thread]:
        return CappedRecursion(paths, self).samples()


class CappedRecursion(Recursion):
    def judge(self, stream: Stream, step: Tensor, number: Tensor, *more: Any) -> tuple[Any, ...]:
        accepted, *drawn = super().judge(stream, step, number, *more)
        return (torch.tensor(accepted) | (number >= 2)).tolist(), *drawn


class RatherCandidates(Recursive):
    """Takes a draft with (target / draft)^4, as candidates are there already: they have what the target has more than
    the draft, and no more."""

    @staticmethod
    def accepts_draft(uniform: Tensor, log_ratio: Tensor) -> Tensor:
        return Recursive.accepts_draft(uniform, 4 * log_ratio)


# Harmless


class FreshNoiseEveryRound(Coupled):
    """Exact: a step's value is its target's own draw, and whether it is reached depends on earlier steps alone.

    What persisting noise buys is speed (guesses that converge) and the sequential output, not the law.
    """

    def attempt(self, rounds: Tensor) -> Tensor | int:
        return rounds


class PersistentStepwise(Stepwise):
    """Exact: Stepwise decides step by step, so the noise after the first rejected step is still fresh."""

    def attempt(self, rounds: Tensor) -> Tensor | int:
        return 0


class PeekingCoupled(Coupled):
    """Exact: the output is the sequential one whatever is committed when."""

    def judge(self, window: Window) -> Judged:
        return super().judge(cut_before_ones(window))


@dataclass(frozen=True)
class Mutant:
    """A broken sampler, and the check that rejects it: the law of this instance, from so many draws."""

    sampler: Sampler
    instance: str
    draws: int = 8_000

    @property
    def of(self) -> str:
        """The registered name of the sampler it is a mutant of."""
        return next(c.__name__.lower() for c in type(self.sampler).__mro__ if c.__module__.startswith("drawahead."))


MUTANTS = [
    Mutant(SameNoiseTwice(), "ising"),
    Mutant(TwoStepsAtOnce(), "ising"),
    Mutant(OneNoiseForAll(), "ising"),
    Mutant(TargetForResidual(), "ising"),
    Mutant(ReusedUniform(), "residual"),
    Mutant(WrongRatio(), "ising"),
    Mutant(PeekingStepwise(), "ising"),
    Mutant(WeightIgnored(), "weights"),
    Mutant(OffByOne(), "ising"),
    Mutant(NotCapped(), "ising"),
    Mutant(StepwisePrefix(), "weights"),
    Mutant(StaleNoise(), "weights"),
    Mutant(PeekingBlock(), "ising"),
    Mutant(RedrawnDisagreement(), "ising"),
    Mutant(OneStepTooMany(), "ising"),
    Mutant(GuessKept(), "ising"),
    Mutant(FirstToFinish(growth=5.0), "run time", 600),
    Mutant(AlwaysAccepted(), "run time", 1_000),
    Mutant(RatherCandidates(), "residual", 2_000),
    Mutant(FlippedJudge(), "residual", 500),
    Mutant(CappedCandidates(), "run time", 1_500),
]
HARMLESS: list[Sampler] = [FreshNoiseEveryRound(), PersistentStepwise(), PeekingCoupled()]
