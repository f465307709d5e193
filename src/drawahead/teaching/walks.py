"""One small run of each sampler, recorded while it happens: what was drafted, verified, kept and corrected.

Nothing is computed again. `drawahead.sample` runs a copy of the sampler, and arguments and results of its own `judge`
(for `Recursive`, of its two decisions) are recorded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from drawahead import samplers
from drawahead.chains import CausalChain, TokenChain
from drawahead.chains.base import Paths, Tally
from drawahead.chains.tokens import TokenPaths
from drawahead.counting import tilings
from drawahead.counting.matchings.planar import PlanarMatching
from drawahead.laws import Categorical, Law
from drawahead.randomness import Stream
from drawahead.report import Report
from drawahead.rounds.threads import Thread
from drawahead.sample import sample
from drawahead.samplers import Recursive, Sampler, Separated, Sequential
from drawahead.samplers.recursive import Recursion
from drawahead.samplers.window import Window, WindowSampler
from drawahead.show.films.replay import replay
from drawahead.targets import MarkovChain
from drawahead.words import meant, pick

LENGTH, LETTERS = 10, "ABC"
_Key = tuple[int, ...]
STICKY = [[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]]
BOARD = 20
"""The side of the board whose domino tilings `Separated` draws."""
_MADE: dict[str, Callable[[], Sampler]] = {
    "sequential": Sequential,
    "stepwise": lambda: samplers.Stepwise(window=4),
    "block": lambda: samplers.Block(window=4),
    "recursive": lambda: Recursive(growth="paper"),
    "coupled": lambda: samplers.Coupled(window=5),
    "picard": lambda: samplers.Picard(window=5),
    "separated": Separated,
    "left-to-right": lambda: samplers.Coupled(window=5),
}
NAMES = tuple(_MADE)
"""The runs, in the order in which they are best explained: one of each sampler, and one of a left-to-right model."""


@final
@dataclass(frozen=True, eq=False)
class Judged:
    """One round of a window sampler, as its `judge` saw it."""

    start: int
    """Steps that were committed before."""
    window: Window
    kept: int
    values: Tensor
    """Of the steps of the window and the one after (w + 1,); the first kept + 1 of them are committed."""

    @property
    def width(self) -> int:
        """Steps that were drafted."""
        return int(self.window.width[0])

    def law(self, side: str, step: int) -> list[float]:
        """The probabilities of a step of the window: "draft" or "target"."""
        law = getattr(self.window, side)
        assert isinstance(law, Categorical)
        chances: list[float] = law.log_probs[0, step].exp().tolist()
        return chances


@final
@dataclass(frozen=True)
class Segment:
    """A decision of the recursion about a segment, or about a candidate for one."""

    round: int
    start: int
    size: int
    values: tuple[int, ...]
    log_ratio: float
    """log mu(values) - log nu(values)."""
    uniform: float
    accepted: bool
    candidate: int
    """0: the draft of a segment; else the number of the candidate that is judged."""
    whose: tuple[tuple[int, int, int], ...]
    """The candidates that the segment is a half of, the outermost first: number, and start and end of their segment."""


@final
@dataclass(frozen=True, eq=False)
class Walk:
    """A run, written down."""

    name: str
    sampler: Sampler
    chain: TokenChain
    sample: Tensor
    order: Tensor
    """The position that each step draws (n,)."""
    report: Report
    rounds: list[Judged] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    settled: Tensor | None = None
    """Of `Separated`: the round after which each position is known (n,)."""


def walk(name: str, seed: int) -> Walk:
    """A run of the sampler called `name`, or of a left-to-right model."""
    name, sampler = meant(name, _MADE), pick("topic", name, _MADE)()
    if isinstance(sampler, Separated):
        return _separated(name, sampler, seed)
    chain = _left_to_right() if name == "left-to-right" else TokenChain(MarkovChain(LENGTH, STICKY))
    paths = chain.start(seed, torch.tensor([0]), Tally())
    rounds: list[Judged] = []
    segments: list[Segment] = []
    reports: list[Report] = []
    watched = copy.copy(sampler)  # frozen, so that what it decides with can be put beside it only here
    if isinstance(sampler, Recursive):
        _shadow(watched, "runs", lambda paths: _Watched.of(sampler, paths, segments, reports).samples())
    else:
        assert isinstance(sampler, WindowSampler) and isinstance(watched, WindowSampler)
        _shadow(watched, "judge", lambda window: _judged(sampler, window, rounds))
        if isinstance(sampler, Sequential):  # as the window sampler that it is: one that never drafts
            _shadow(watched, "run", lambda paths: WindowSampler.run(watched, paths))
    result = sample(chain, 1, sampler=watched, seed=seed, on_round=reports.append)
    return Walk(name, sampler, chain, result.samples[0], paths.order[0], result.report, rounds, segments)


def _left_to_right() -> CausalChain:
    """The same letters from a model that answers, for every letter, with the distribution of the next one."""
    table = torch.tensor(STICKY, dtype=torch.float64).log()
    return CausalChain(lambda tokens: table[tokens], vocab_size=len(LETTERS), max_length=LENGTH, prompt=[0])


def _shadow(sampler: Sampler, name: str, method: Callable[..., Any]) -> None:
    object.__setattr__(sampler, name, method)


def _judged(sampler: WindowSampler, window: Window, rounds: list[Judged]) -> tuple[Tensor, Tensor]:
    """What the sampler judges, written down."""
    kept, values = sampler.judge(window)
    start = rounds[-1].start + rounds[-1].kept + 1 if rounds else 0
    rounds.append(Judged(start, window, int(kept[0]), values[0]))
    return kept, values


@final
@dataclass(frozen=True, eq=False)
class _Watched(Recursion):
    """The recursion of one sample, whose decisions are written down as they are made."""

    segments: list[Segment]
    reports: list[Report]  # of the rounds before
    proposed: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # what the next decision is about
    candidates: dict[_Key, tuple[_Key, tuple[int, int, int]]] = field(default_factory=dict)
    """By the key of their noise: that of the segment, and as in `Segment.whose`."""

    @staticmethod
    def of(sampler: Recursive, paths: Paths, segments: list[Segment], reports: list[Report]) -> _Watched:
        own = copy.copy(sampler)
        watched = _Watched(paths, own, segments, reports)
        for name in ("accepts_draft", "accepts_candidate"):
            _shadow(own, name, watched._telling(getattr(sampler, name)))
        return watched

    def _telling(self, decide: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def decided(uniform: Tensor, log_ratio: Tensor, *more: Any) -> Tensor:
            self.proposed.append((uniform, log_ratio))
            return decide(uniform, log_ratio, *more)

        return decided

    def branch(self, stream: Stream, step: Tensor, number: Tensor, draft: Law, size: int, half: int) -> tuple[Any, ...]:
        own, left = super().branch(stream, step, number, draft, size, half)
        for row, (index, start) in enumerate(zip(number.tolist(), step.tolist(), strict=True)):
            self.candidates[_key(own, row)] = _key(stream, row), (index, start, start + size)
        return own, left

    def verify(self, paths: Paths, stream: Stream, *more: Any) -> Thread:
        accepted, guess, *laws = yield from super().verify(paths, stream, *more)
        for row, start in enumerate(paths.position.tolist()):
            self._note(row, start, guess, accepted, 0, self._whose(_key(stream, row)))
        self.proposed.clear()
        return accepted, guess, *laws

    def judge(self, stream: Stream, step: Tensor, number: Tensor, *more: Any) -> tuple[Any, ...]:
        accepted, values, target = super().judge(stream, step, number, *more)
        for row, (start, index) in enumerate(zip(step.tolist(), number.tolist(), strict=True)):
            self._note(row, start, values, accepted, index, self._whose(_key(stream, row))[:-1])
        self.proposed.clear()
        return accepted, values, target

    def _note(self, row: int, start: int, values: Tensor, accepted: list[bool], index: int, whose: Any) -> None:
        uniform, log_ratio = (float(each[row]) for each in self.proposed[0])
        steps = tuple(values[row].tolist())
        decision = log_ratio, uniform, accepted[row], index, tuple(whose)
        self.segments.append(Segment(len(self.reports) + 1, start, len(steps), steps, *decision))

    def _whose(self, key: _Key) -> list[tuple[int, int, int]]:
        """The candidates that draw with this noise, the outermost first."""
        whose: list[tuple[int, int, int]] = []
        while key in self.candidates:
            key, candidate = self.candidates[key]
            whose.insert(0, candidate)
        return whose


def _key(stream: Stream, row: int) -> _Key:
    return tuple(stream.keys[row].tolist())


def _separated(name: str, sampler: Separated, seed: int) -> Walk:
    """Domino tilings, which fall into pieces."""
    matching = tilings.dominoes("square", BOARD)
    assert isinstance(matching, PlanarMatching)
    chain = TokenChain(matching)
    result = sample(chain, 1, sampler=sampler, seed=seed)
    again = replay(chain, sampler, seed, [0])
    assert torch.equal(again.values[0], result.samples[0])
    paths = chain.start(seed, torch.tensor([0]), Tally())
    assert isinstance(paths, TokenPaths)
    return Walk(name, sampler, chain, result.samples[0], paths.order[0], result.report, settled=again.settled[0])
