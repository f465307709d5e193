"""Stacked chains that are wrong on purpose. The checks that pass the real one must reject each of these.

A mutant is a plan that is not the one its samples are checked against, or a patch of how paths go on. `rotated` looks
just as wrong and is not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from drawahead import StackedPlan
from drawahead.chains.affine import AffinePaths
from drawahead.chains.affine_queries import Aside
from drawahead.chains.stacked import LaneMoves
from drawahead.laws import Gaussian, Law
from drawahead.randomness import Purpose, Stream
from drawahead.samplers import Block, Coupled, Picard, Recursive, Sampler, Sequential, Stepwise

Patch = Callable[[pytest.MonkeyPatch], None]


def in_place_of(owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Patch:
    """A patch that replaces a method by what `make` makes of it."""
    return lambda monkeypatch: monkeypatch.setattr(owner, name, make(getattr(owner, name)))


# Plans


def transposed(plan: StackedPlan) -> StackedPlan:
    """S^T for S: another covariance, another drift."""
    return replace(plan, s=plan.s.mT.contiguous())


def upper(plan: StackedPlan) -> StackedPlan:
    """The upper factor of the same covariance, with b as it was for the lower one: only the drift is wrong."""
    flip = plan.s.flip(1)
    factor = torch.linalg.cholesky(flip @ flip.mT).flip(1, 2)
    assert torch.allclose(factor @ factor.mT, plan.s @ plan.s.mT)
    return replace(plan, s=factor)


def without_b(plan: StackedPlan) -> StackedPlan:
    """Answers push with weight one."""
    return replace(plan, b=torch.ones_like(plan.b))


def frozen(plan: StackedPlan) -> StackedPlan:
    """The last lane is not carried on by its matrix: noise and answers are all that moves it."""
    a = plan.a.clone()
    a[:, -1] = torch.eye(plan.lanes)[-1]
    return replace(plan, a=a)


def early(plan: StackedPlan) -> StackedPlan:
    """Refreshes one step too early."""
    assert plan.refresh is not None
    keep, add = (torch.cat([table[:1], table[2:], table[1:2]]) for table in plan.refresh)
    return replace(plan, refresh=(keep, add))


def rotated(plan: StackedPlan) -> StackedPlan:
    """Harmless: S Q with Q^T b, Q a rotation. The noise of a step has no axes."""
    q = torch.linalg.qr(
        torch.randn(plan.steps, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    ).Q
    return replace(plan, s=plan.s @ q, b=(q.mT @ plan.b[..., None])[..., 0])


# How paths go on


def _own_copies(branch: Callable[..., AffinePaths]) -> Callable[..., AffinePaths]:
    """A branch refreshes with noise of its own: what it draws belongs to another chain than its parent's."""

    def wrong(paths: AffinePaths, stream: Stream) -> AffinePaths:
        return replace(branch(paths, stream), copies=stream)

    return wrong


def redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess and commitment are refreshed differently: states are rolled again to be committed, with new noise."""
    in_place_of(LaneMoves, "refresh", _new_every_time)(monkeypatch)
    in_place_of(AffinePaths, "advance", _rolling_again)(monkeypatch)


def _rolling_again(advance: Callable[..., None]) -> Callable[..., None]:
    return lambda paths, values, count, guess=None: advance(paths, values, count)


def _new_every_time(refresh: Callable[..., Tensor]) -> Callable[..., Tensor]:
    looks = itertools.count(1)

    def wrong(moves: LaneMoves, lanes: Tensor, taken: Tensor, aside: Aside) -> Tensor:
        assert aside.copies is not None
        return refresh(moves, lanes, taken, replace(aside, copies=aside.copies.child(next(looks), 0)))

    return wrong


def _spent(refresh: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Refreshes with the noise that the step after it is drawn from."""

    class Values(Stream):
        def __getitem__(self, rows: Tensor) -> Stream:
            return Values(self.keys[rows])

        def normal(self, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0, size: int = 1) -> Tensor:
            return super().normal(Purpose.VALUE, step, attempt, size)

    def wrong(moves: LaneMoves, lanes: Tensor, taken: Tensor, aside: Aside) -> Tensor:
        assert aside.copies is not None
        return refresh(moves, lanes, taken, replace(aside, copies=Values(aside.copies.keys)))

    return wrong


def only_when_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are asked along guesses that were never refreshed."""
    in_place_of(AffinePaths, "ask", _without("refreshed", "add"))(monkeypatch)  # of packed and of captured rounds


def _without(*tables: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def made(ask: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(paths: AffinePaths, *arguments: Any, **options: Any) -> Any:
            own = vars(paths.moves)
            kept = {name: own[name] for name in tables}
            own.update({name: torch.zeros_like(table) for name, table in kept.items()})
            try:
                return ask(paths, *arguments, **options)
            finally:
                own.update(kept)

        return wrong

    return made


def _left_behind(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Questions are asked with the last lane as it was committed: along a guess it does not move."""

    def wrong(paths: AffinePaths, *arguments: Any, **options: Any) -> Any:
        query = ask(paths, *arguments, **options)
        d = paths.chain.size
        state = query.state.clone()
        state[..., -d:] = paths.x[:, None, -d:]
        return replace(query, state=state)

    return wrong


def _same_noise_for_all(draw: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Each of the r vectors of a step's noise is the first one."""

    def wrong(law: Law, stream: Stream, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0) -> Tensor:
        noise = draw(law, stream, purpose, step, attempt)
        return noise[..., : noise.shape[-1] // 2].repeat(1, 1, 2)

    return wrong


def _leaning_twice(follow: Callable[..., tuple[Tensor, Law]]) -> Callable[..., tuple[Tensor, Law]]:
    """A guess leans by twice as much as it is verified with."""

    def wrong(paths: AffinePaths, draft: Gaussian, noise: Tensor) -> tuple[Tensor, Law]:
        followed = follow(paths, draft, noise)[1]
        return follow(paths, replace(draft, slope=None if draft.slope is None else 2 * draft.slope), noise)[0], followed

    return wrong


@dataclass(frozen=True)
class Mutant:
    name: str
    chain: str
    sampler: Sampler
    plan: Callable[[StackedPlan], StackedPlan] | None = None
    patch: Patch | None = None
    draws: int = 5_000


MUTANTS = [
    Mutant("transposed", "mixing", Sequential(), plan=transposed),
    Mutant("upper", "mixing", Block(), plan=upper),
    Mutant("without b", "mixing", Coupled(), plan=without_b),
    Mutant("frozen lane", "mixing", Stepwise(), plan=frozen),
    Mutant("early", "refreshed", Sequential(), plan=early),
    Mutant("own copies", "driven", Recursive(), patch=in_place_of(AffinePaths, "branch", _own_copies), draws=100),
    Mutant("redrawn", "refreshed", Coupled(), patch=redrawn),
    Mutant("redrawn", "refreshed", Block(), patch=redrawn),
    Mutant("spent", "refreshed", Sequential(), patch=in_place_of(LaneMoves, "refresh", _spent)),
    Mutant("only when committed", "refreshed", Stepwise(), patch=only_when_committed),
    Mutant("lane left behind", "mixing", Coupled(), patch=in_place_of(AffinePaths, "ask", _left_behind)),
    Mutant("lane left behind", "in turn", Block(), patch=in_place_of(AffinePaths, "ask", _left_behind)),
    Mutant("same noise", "mixing", Sequential(), patch=in_place_of(Gaussian, "noise", _same_noise_for_all)),
    Mutant("leans twice", "mixing", Coupled(3), patch=in_place_of(AffinePaths, "follow", _leaning_twice)),
    Mutant("not verified", "mixing", Picard(tolerance=0.5)),
    Mutant("not verified", "refreshed", Picard(tolerance=0.5)),
]
