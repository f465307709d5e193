"""One small run of each sampler, written down while it happens: what was drafted, verified, kept and corrected.

Nothing is worked out anew. A copy of the sampler is run by `drawahead.sample`, and what its own `judge` (or, of
`Recursive`, its two decisions) is given and answers is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from drawahead import samplers
from drawahead.chains import TokenChain
from drawahead.chains.base import Paths, Tally
from drawahead.chains.tokens import TokenPaths
from drawahead.counting import tilings
from drawahead.counting.matchings.planar import PlanarMatching
from drawahead.errors import InputError
from drawahead.laws import Categorical
from drawahead.report import Report
from drawahead.rounds.threads import Thread
from drawahead.sample import sample
from drawahead.samplers import Recursive, Sampler, Separated, Sequential
from drawahead.samplers.recursion import Recursion
from drawahead.samplers.segments import Ints, together
from drawahead.samplers.window import Window, WindowSampler
from drawahead.show.films.replay import replay
from drawahead.targets import MarkovChain
from drawahead.validate import short
from drawahead.words import meant, pick

LENGTH, LETTERS = 10, "ABC"
_STICKY = [[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]]
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
}
NAMES = ("sequential", "stepwise", "block", "recursive", "coupled", "picard", "separated")
"""The samplers, in the order in which they are best explained."""


@final
@dataclass(frozen=True, eq=False)
class Judged:
    """One round of a window sampler, as its `judge` saw it."""

    start: int
    """Steps that were committed before."""
    window: Window
    kept: int
    values: Tensor
    """What was drawn for the window's steps and the one after (w + 1,); the first kept + 1 of them are committed."""

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
    """A run of the sampler called `name`."""
    if not isinstance(name, str):
        raise InputError(f"a sampler to explain is given by its name, not {short(name)}")
    name, sampler = meant(name, _MADE), pick("sampler", name, _MADE)()
    if isinstance(sampler, Separated):
        return _separated(name, sampler, seed)
    chain = TokenChain(MarkovChain(LENGTH, _STICKY))
    paths = chain.start(seed, torch.tensor([0]), Tally())
    rounds: list[Judged] = []
    segments: list[Segment] = []
    watched = copy.copy(sampler)  # frozen, so that what it decides with can be put beside it only here
    if isinstance(sampler, Recursive):
        _shadow(watched, "run", lambda paths: _Watched(sampler, paths, segments).rounds())
    elif isinstance(sampler, Sequential):
        _shadow(watched, "run", lambda paths: _one_by_one(sampler, paths, rounds))
    else:
        assert isinstance(sampler, WindowSampler)
        _shadow(watched, "judge", lambda window: _judged(sampler, window, rounds))
    result = sample(chain, 1, sampler=watched, seed=seed)
    return Walk(name, sampler, chain, result.samples[0], paths.order[0], result.report, rounds, segments)


def _shadow(sampler: Sampler, name: str, method: Callable[..., Any]) -> None:
    object.__setattr__(sampler, name, method)


def _judged(sampler: WindowSampler, window: Window, rounds: list[Judged]) -> tuple[Tensor, Tensor]:
    """What the sampler judges, written down."""
    kept, values = sampler.judge(window)
    start = rounds[-1].start + rounds[-1].kept + 1 if rounds else 0
    rounds.append(Judged(start, window, int(kept[0]), values[0]))
    return kept, values


def _one_by_one(sampler: Sequential, paths: Paths, rounds: list[Judged]) -> Thread:
    """`Sequential` as the window sampler that it is: one that never drafts."""
    watched = copy.copy(sampler)
    _shadow(watched, "judge", lambda window: _judged(sampler, window, rounds))
    return WindowSampler.run(watched, paths)


@final
class _Watched:
    """The recursion of one sample, whose decisions are written down as they are made."""

    def __init__(self, sampler: Recursive, paths: Paths, segments: list[Segment]) -> None:
        self.sampler, self.segments, self.round = copy.copy(sampler), segments, 0
        self.recursion = Recursion(self.sampler, paths)
        self.asked: list[tuple[Ints, Tensor, int]] = []  # about which nodes, and values, the next decisions are
        own = self.recursion
        verifications, absorb, judge = own._verifications, own._absorb, own._judge

        def counted() -> list[Any]:
            self.round += 1
            return verifications()

        def absorbing(asked: Any, target: Any, onward: Any) -> Ints:
            if asked.guess is not None:
                self.asked.append((asked.nodes, asked.guess, 0))
            return absorb(asked, target, onward)

        def judging(ids: Ints) -> None:
            nodes = own.nodes
            for group in together(nodes.size[nodes.parent[ids]]):
                mine = ids[group]
                halves = [(nodes.left, (nodes.size[nodes.parent[mine]] + 1) // 2), (nodes.result, nodes.size[mine])]
                drawn = [own.drawn.drawn(first[mine, None] + _upto(int(size[0])))[1] for first, size in halves]
                self.asked.append((mine, torch.cat(drawn, dim=1), 1))
            judge(ids)

        for name, method in (("_verifications", counted), ("_absorb", absorbing), ("_judge", judging)):
            object.__setattr__(own, name, method)
        for name in ("accepts_draft", "accepts_candidate"):
            _shadow(self.sampler, name, self._decided(getattr(self.sampler, name)))

    def rounds(self) -> Thread:
        return self.recursion.rounds()

    def _decided(self, decide: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def decided(uniform: Tensor, log_ratio: Tensor, *more: Any) -> Tensor:
            accepted = decide(uniform, log_ratio, *more)
            ids, values, candidates = self.asked.pop(0)
            for row, node in enumerate(ids.tolist()):
                told = (float(log_ratio[row]), float(uniform[row]), bool(accepted[row]))
                self.segments.append(self._segment(node, tuple(values[row].tolist()), told, bool(candidates)))
            return accepted

        return decided

    def _segment(self, node: int, values: tuple[int, ...], told: tuple[float, float, bool], candidate: bool) -> Segment:
        nodes = self.recursion.nodes
        number = int(nodes.index[node]) if candidate else 0
        of = int(nodes.parent[node]) if candidate else node
        whose, above = [], of
        while int(nodes.parent[above]) >= 0:
            parent = int(nodes.parent[above])
            start = int(nodes.start[parent])
            whose.append((int(nodes.index[above]), start, start + int(nodes.size[parent])))
            above = parent
        place = int(nodes.start[of]), int(nodes.size[of])
        log_ratio, uniform, accepted = told
        return Segment(self.round, *place, values, log_ratio, uniform, accepted, number, tuple(reversed(whose)))


def _upto(count: int) -> Ints:
    return torch.arange(count)[None].numpy()


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
