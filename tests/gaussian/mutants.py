"""Samplers that are wrong on purpose on Gaussian steps. The checks that pass the real ones must reject each of these.

HARMLESS holds changes that look just as wrong and are not: the reason why is part of the contract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from drawahead.chains.base import Answer, Paths
from drawahead.laws import Gaussian, Law
from drawahead.randomness import Purpose, Stream
from drawahead.samplers import Block, Coupled, Picard, Sampler, Stepwise
from drawahead.samplers.window import Drafts, Guess, Window, WindowSampler, leading
from tests.mutants import AlwaysAccepted, OffByOne, StaleNoise, TargetForResidual, WeightIgnored

Judged = tuple[Tensor, Tensor]


def table(law: Law) -> Gaussian:
    assert isinstance(law, Gaussian)
    return law


def cut_where_positive(window: Window) -> Window:
    """Control that peeks: the window ends before the first drafted step whose own noise is positive."""
    quiet = (window.noise[:, :-1, 0] <= 0).long().cumprod(1).sum(1)
    return replace(window, width=torch.minimum(window.width, quiet))


def unit(target: Gaussian, draft: Gaussian) -> Tensor:
    """e, from the draft's mean to the target's."""
    shift = target.mean - draft.mean
    return shift / shift.norm(dim=-1, keepdim=True).clamp(min=1e-300)


class RatioOfOne(Stepwise):
    """Uses the target's mean for the draft in the ratio: it is one, and everything is kept."""

    def judge(self, window: Window) -> Judged:
        kept = window.width
        return kept, window.corrected(kept, torch.zeros(len(kept), dtype=torch.float64))


class BlockRatioOfOne(Block):
    """The same in Block."""

    def judge(self, window: Window) -> Judged:
        kept = window.width
        return kept, window.corrected(kept, torch.zeros(len(kept), dtype=torch.float64))


class DraftForMiddle(Stepwise):
    """The log ratio measured from the draft's mean, not from the middle of both: delta s for delta s - delta^2 / 2."""

    def judge(self, window: Window) -> Judged:
        target, draft = table(window.verified), table(window.draft)
        shift = (target.mean - draft.mean) / target.scale[..., None]
        log_ratio = target.log_ratio(draft, window.guess) + (shift**2).sum(-1) / 2
        kept = leading((window.uniform.log() <= log_ratio) & window.used)
        return kept, window.corrected(kept, torch.zeros(len(kept), dtype=torch.float64))


class PeekingStepwise(Stepwise):
    def judge(self, window: Window) -> Judged:
        return super().judge(cut_where_positive(window))


class PeekingBlock(Block):
    def judge(self, window: Window) -> Judged:
        return super().judge(cut_where_positive(window))


def instead(window: Window, judged: Judged, drafted: Tensor) -> Judged:
    """The verdict with other values for the drafted steps (rows, w, d)."""
    kept, values = judged
    return kept, torch.cat([torch.where(window.used[..., None], drafted, values[:, :-1]), values[:, -1:]], dim=1)


class AlwaysKept(Coupled):
    """Never rejects: commits the guesses."""

    def judge(self, window: Window) -> Judged:
        return instead(window, (window.width, super().judge(window)[1]), window.guess)


class MirrorMissing(Coupled):
    """Moves a rejected guess by the difference of the means, without mirroring it."""

    def judge(self, window: Window) -> Judged:
        kept, values = super().judge(window)
        rejected = torch.arange(window.draft.shape[1]) == kept[:, None]
        moved = torch.where(rejected[..., None], window.verified.draw(window.noise[:, :-1]), values[:, :-1])
        return instead(window, (kept, values), moved)


class MirrorSign(Coupled):
    """Mirrors a rejected guess about the draft's own mean: s becomes -s, not delta - s."""

    def judge(self, window: Window) -> Judged:
        kept, values = super().judge(window)
        rejected = torch.arange(window.draft.shape[1]) == kept[:, None]
        e, noise = unit(table(window.verified), table(window.draft)), window.noise[:, :-1]
        mirrored = window.draft.draw(noise - 2 * (noise * e).sum(-1, keepdim=True) * e)
        return instead(window, (kept, values), torch.where(rejected[..., None], mirrored, values[:, :-1]))


class OneStepTooMany(Coupled):
    """Commits a step past the first rejection, whose answer was given to another path."""

    def judge(self, window: Window) -> Judged:
        kept, values = super().judge(window)
        return torch.minimum(kept + 1, window.width), values


class RejectedTwice(Coupled):
    """Draws a rejected step again from its target: what is kept is then counted twice."""

    more_noise = WindowSampler.more_noise

    def judge(self, window: Window) -> Judged:
        kept, _ = super().judge(window)
        return kept, replace(window, width=kept).corrected(kept, torch.zeros(len(kept), dtype=torch.float64))


class PeekingCoupled(Coupled):
    """Ends the window by its own noise. Harmless on tokens; here a step's noise must not decide how it is drawn."""

    def judge(self, window: Window) -> Judged:
        return super().judge(cut_where_positive(window))


class DraftFromItsOwnNoise(Coupled):
    """A step's draft is the answer one step too late, which has seen that step's own noise."""

    def redraft(self, answer: Answer, draft: Law, width: Tensor, kept: Tensor, columns: int, beyond: int) -> Law:
        law = table(super().redraft(answer, draft, width, kept, columns, beyond))
        return Gaussian(torch.cat([law.mean[:, 1:], law.mean[:, -1:]], dim=1), law.scale)


class _ByColumn(Stream):
    """Noise looked up by the column of the window."""

    def _words(self, purpose: Purpose, step: Tensor, attempt: Tensor | int, size: int) -> Tensor:
        return super()._words(purpose, step - step[:, :1] if step.dim() == 2 else step, attempt, size)

    def __getitem__(self, rows: Tensor) -> Stream:
        return _ByColumn(self.keys[rows])


class WindowDependentNoise(Coupled):
    """Noise belongs to a place in the window, not to a step: what one step has spent the next one uses again."""

    def guess(self, paths: Paths, drafts: Drafts) -> Guess:
        paths.stream = _ByColumn(paths.stream.keys)
        return super().guess(paths, drafts)


class ReusedUniform(Coupled):
    """Every step of a window is accepted with the same uniform."""

    def judge(self, window: Window) -> Judged:
        return super().judge(replace(window, uniform=window.uniform[:, :1].expand_as(window.uniform)))


def unleaned(draft: Law) -> Gaussian:
    """The draft with the mean it has at its anchor, wherever it starts from."""
    return Gaussian(table(draft).mean, table(draft).scale)


Follow = Callable[[Law, Tensor], tuple[Tensor, Law]]


class Followed(Coupled):
    """Drafts that are followed along another path than their own, or verified as if they had been."""

    def followed(self, follow: Follow, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        raise NotImplementedError

    def guess(self, paths: Paths, drafts: Drafts) -> Guess:
        follow = paths.follow
        paths.follow = lambda draft, noise: self.followed(follow, draft, noise)  # type: ignore[method-assign]
        try:
            return super().guess(paths, drafts)
        finally:
            del paths.follow


class UnfollowedLean(Followed):
    """Guesses lean, but are verified as if they did not."""

    def followed(self, follow: Follow, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        return follow(draft, noise)[0], unleaned(draft)


class UnleanedGuess(Followed):
    """Guesses do not lean, but are verified as if they did."""

    def followed(self, follow: Follow, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        return unleaned(draft).draw(noise), follow(draft, noise)[1]


class LeanByItsOwnNoise(Followed):
    """A draft leans only where the step's own noise is positive."""

    def followed(self, follow: Follow, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        law = table(draft)
        return follow(law if law.slope is None else replace(law, slope=law.slope * (noise[..., 0] > 0)), noise)


class Bent(Coupled):
    """Drafts whose lean is changed."""

    def bent(self, law: Gaussian) -> Gaussian:
        raise NotImplementedError

    def redraft(self, answer: Answer, draft: Law, width: Tensor, kept: Tensor, columns: int, beyond: int) -> Law:
        law = table(super().redraft(answer, draft, width, kept, columns, beyond))
        return law if law.slope is None else self.bent(law)


def late(column: Tensor) -> Tensor:
    """What belongs to the step after."""
    return torch.cat([column[:, 1:], column[:, -1:]], dim=1)


class LateAnchor(Bent):
    """A draft leans from the state after its step, which has seen that step's own noise."""

    def bent(self, law: Gaussian) -> Gaussian:
        assert law.anchor is not None
        return replace(law, anchor=late(law.anchor))


class LateSlope(Bent):
    """A draft leans by the slope of the step after it, which tells where that step's own noise has led."""

    def bent(self, law: Gaussian) -> Gaussian:
        assert law.slope is not None
        return replace(law, slope=late(law.slope))


class LateSecant(Bent):
    """Answer, slope and anchor of the step after."""

    def bent(self, law: Gaussian) -> Gaussian:
        assert law.slope is not None and law.anchor is not None
        return Gaussian(late(law.mean), law.scale, late(law.slope), late(law.anchor))


class LeanByOutcome(Coupled):
    """A draft goes on leaning only where its step has just been verified: its own noise, not yet spent, decided that.

    Steps beyond the first rejection are judged too, but nothing may be read from how.
    """

    agreed: ClassVar[list[Tensor]] = []

    def judge(self, window: Window) -> Judged:
        if window.draft.shape[1]:
            _, agrees = window.verified.couple(window.draft, window.guess, window.noise[:, :-1], window.uniform)
            self.agreed[:] = [agrees]
        return super().judge(window)

    def redraft(self, answer: Answer, draft: Law, width: Tensor, kept: Tensor, columns: int, beyond: int) -> Law:
        law = table(draft)
        if law.slope is not None and law.shape[1]:
            draft = replace(law, slope=torch.where(self.agreed[0], law.slope, torch.nan))
        return super().redraft(answer, draft, width, kept, columns, beyond)


# Harmless


class StaleOrthogonalNoise(Block):
    """Exact: draws the corrected step afresh along e alone; across e it keeps the draft's noise.

    Given the draft up to step i + 1, `kept` is i with probability h_i (1 - p_{i+1}): later steps average out. That
    depends on step i + 1 through its ratio alone, so its noise across e is still fresh. All noise after it is not.
    """

    def judge(self, window: Window) -> Judged:
        kept, values = super().judge(window)
        if not window.draft.shape[1]:
            return kept, values
        rows, at = torch.arange(len(kept)), kept.clamp(max=window.draft.shape[1] - 1)
        target, draft = table(window.verified), table(window.draft)
        e = unit(target, draft)[rows, at]
        change = window.guess[rows, at] - values[rows, kept]
        across = change - (change * e).sum(-1, keepdim=True) * e
        values[rows, kept] += torch.where((kept < window.width)[:, None], across, 0.0)
        return kept, values


class FreshNoiseEveryRound(Coupled):
    """Exact: a step's noise is looked at only once it is reached, and whether it is depends on earlier steps alone."""

    def attempt(self, rounds: Tensor) -> Tensor | int:
        return rounds


class SteeperThanAllowed(Bent):
    """Exact: a slope is any function of noise before its step; a wrong one costs rounds."""

    def bent(self, law: Gaussian) -> Gaussian:
        assert law.slope is not None
        return replace(law, slope=2 * law.slope + 0.1)


class AnchorAnywhere(Bent):
    """Exact: so is an anchor, be it the state of another round or of none."""

    def bent(self, law: Gaussian) -> Gaussian:
        assert law.anchor is not None
        return replace(law, anchor=law.anchor / 2 + 1)


class LeanFromTheStepBefore(Bent):
    """Exact: what the step before leans by has seen less noise, not more."""

    def bent(self, law: Gaussian) -> Gaussian:
        assert law.slope is not None
        return replace(law, slope=torch.cat([law.slope[:, :1], law.slope[:, :-1]], dim=1))


class PersistentStepwise(Stepwise):
    """Exact: Stepwise decides step by step, so the noise after the first rejected step is still fresh."""

    def attempt(self, rounds: Tensor) -> Tensor | int:
        return 0


@dataclass(frozen=True)
class Mutant:
    sampler: Sampler
    chain: str = "localization"
    draws: int = 5_000

    @property
    def of(self) -> str:
        """The registered name of the sampler it is a mutant of."""
        return next(c.__name__.lower() for c in type(self.sampler).__mro__ if c.__module__.startswith("drawahead."))


MUTANTS = [
    Mutant(RatioOfOne()),
    Mutant(BlockRatioOfOne(), "ou"),
    Mutant(DraftForMiddle(), "ou"),
    Mutant(TargetForResidual(), "euler"),
    Mutant(PeekingStepwise()),
    Mutant(PeekingBlock()),
    Mutant(OffByOne(), "ddim"),
    Mutant(WeightIgnored(), "weights", 30_000),
    Mutant(StaleNoise(), "drift"),
    Mutant(AlwaysKept(), "ou"),
    Mutant(MirrorMissing()),
    Mutant(MirrorSign(), "ddpm"),
    Mutant(OneStepTooMany(), "ou"),
    Mutant(RejectedTwice()),
    Mutant(PeekingCoupled(), "ddpm, large variance"),
    Mutant(DraftFromItsOwnNoise()),
    Mutant(WindowDependentNoise()),
    Mutant(ReusedUniform()),
    Mutant(UnfollowedLean(), "bend"),
    Mutant(UnfollowedLean(window=3), "bend", 20_000),
    Mutant(UnleanedGuess(), "steep"),
    Mutant(LeanByItsOwnNoise()),
    Mutant(LeanByItsOwnNoise(window=3), "steep"),
    Mutant(LateAnchor(window=3), "steep"),
    Mutant(LateSlope(), "bend", 20_000),
    Mutant(LateSecant()),
    Mutant(LateSecant(), "steep"),
    Mutant(LeanByOutcome(), "bend", 20_000),
    Mutant(AlwaysAccepted(), "localization", 2_000),
    Mutant(Picard(tolerance=0.5), "localization"),
    Mutant(Picard(tolerance=0.5), "ddim"),
]

HARMLESS: list[Sampler] = [
    StaleOrthogonalNoise(),
    StaleOrthogonalNoise(window=3),
    FreshNoiseEveryRound(),
    PersistentStepwise(),
]
LEANING: list[Sampler] = [SteeperThanAllowed(), AnchorAnywhere(), LeanFromTheStepBefore()]
"""Harmless changes to how drafts lean."""
