"""Drafts that lean: the law is the chain's with them and without, and they save rounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, Gaussian, GaussianChain
from drawahead.chains.affine import AffinePaths
from drawahead.chains.base import Answer, Paths, Tally
from drawahead.laws import Law
from drawahead.rounds.threads import Thread
from drawahead.samplers import Sampler
from drawahead.targets import GaussianMixture, GaussianTarget, named
from tests.gaussian.mutants import LEANING
from tests.gaussian.reference import (
    DESIGNED,
    SCHEDULES,
    designed_p_value,
    innovations,
    linear_chain,
    linear_chain_p_value,
    path_p_value,
    whole,
)

Check = Callable[[float], None]
MODES = whole(GaussianMixture.random(3, components=5), da.StochasticLocalization(24, delta=0.05))


class Watched(Coupled):
    """Notes every slope that a draft of the next round leans by."""

    def run(self, paths: Paths) -> Thread:
        follow = paths.follow

        def watch(draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
            assert isinstance(draft, Gaussian)
            if draft.slope is not None:
                used = torch.arange(draft.shape[1]) < paths.room_at(paths.position)[:, None]
                SEEN.append(draft.slope[used])
            return follow(draft, noise)

        paths.follow = watch  # type: ignore[method-assign]
        return super().run(paths)


SEEN: list[Tensor] = []


def slopes(chain: GaussianChain, sampler: Sampler, num_samples: int = 200) -> Tensor:
    SEEN.clear()
    da.sample(chain, num_samples, sampler=sampler, seed=0)
    return torch.cat(SEEN) if SEEN else torch.zeros(0)


# The law. tests/gaussian/test_conformance.py and test_mutants.py run Coupled() as it comes, which leans; here are
# narrow windows, in which steps are asked about again and again, and the same without leaning.


@pytest.mark.parametrize(
    ("name", "window", "secant"),
    [
        ("steep", 2, True),
        ("steep", 3, True),
        ("steep", 5, True),
        ("bend", 3, True),
        ("bend", 5, True),
        ("steep", 3, False),
        ("steep", None, False),
        ("bend", 5, False),
    ],
)
def test_the_law_where_drafts_lean(name: str, window: int | None, secant: bool, check: Check) -> None:
    check(designed_p_value(name, Coupled(window, secant=secant), 10_000))


@pytest.mark.parametrize(("name", "window"), [("localization", None), ("euler", 3)])
def test_the_law_of_a_linear_chain_without_leaning(name: str, window: int | None, check: Check) -> None:
    check(linear_chain_p_value(name, Coupled(window, secant=False), 10_000))


@pytest.mark.parametrize("window", [6, None])
def test_the_law_on_a_longer_chain(window: int | None, check: Check) -> None:
    """Between the modes of a mixture answers change fast: 24 steps, 2000 paths."""
    samples = da.sample(MODES, 2_000, sampler=Coupled(window), seed=0, max_live=2_000).samples
    check(path_p_value(innovations(MODES, samples)))


@pytest.mark.parametrize("sampler", LEANING, ids=lambda sampler: type(sampler).__name__)
def test_what_may_be_changed_about_leaning(sampler: Sampler, check: Check) -> None:
    check(designed_p_value("steep", sampler, 20_000))


# That it is really tested


@pytest.mark.parametrize(("name", "window"), [("steep", 3), ("steep", 5), ("steep", None), ("bend", 5), ("bend", None)])
def test_slopes_are_used(name: str, window: int | None) -> None:
    """In the runs above a good part of what is drafted leans."""
    found = slopes(DESIGNED[name], Watched(window))
    assert (found > 0).double().mean() > 0.05 and found[found > 0].mean() > 0.3
    assert found.nan_to_num(0.0).max() <= 1  # the steepest a walk allows
    assert not len(slopes(DESIGNED[name], Watched(window, secant=False)))


def test_slopes_are_used_on_the_longer_chain() -> None:
    for window in (6, None):
        assert (slopes(MODES, Watched(window)) > 0).double().mean() > 0.05


@pytest.mark.parametrize("name", SCHEDULES)
def test_slopes_are_used_by_the_conformance_tests(name: str) -> None:
    assert (slopes(linear_chain(name), Watched(), 2000) > 0).any()


def test_a_step_leans_only_from_its_second_answer_on() -> None:
    """With a window of one no step is asked about more than twice before it is drawn."""
    found = slopes(DESIGNED["steep"], Watched(1))
    assert len(found) and not (found > 0).any()


# What it is for


@pytest.mark.parametrize("name", ["modes", "gaussian"])
def test_leaning_saves_rounds(name: str) -> None:
    leaning_, plain = (da.sample(named(name), 24, sampler=Coupled(secant=s), seed=0).report for s in (True, False))
    assert leaning_.mean_rounds < 0.9 * plain.mean_rounds


def test_an_answer_that_is_linear_is_known_after_two() -> None:
    """Where the mean is one factor times the state, the secant is the mean: the next guess is the path itself."""
    chain = GaussianChain(
        GaussianTarget(variances=torch.full((16,), 4.0)), da.StochasticLocalization(60, radius=2.0, delta=0.01)
    )
    report = da.sample(chain, 20, sampler=Coupled(60), seed=0).report
    assert max(report.sample_rounds) <= 4  # none, stale, secants found, all kept
    assert da.sample(chain, 20, sampler=Coupled(60, secant=False), seed=0).report.mean_rounds > 6


# The parts


def law(mean: Tensor, slope: Tensor | None = None, anchor: Tensor | None = None) -> Gaussian:
    return Gaussian(mean, torch.ones(mean.shape[:2], dtype=torch.float64), slope, anchor)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def between(lowest: float, highest: float) -> tuple[Tensor, Tensor]:
    low, high = (torch.full((2, 3), bound, dtype=torch.float64) for bound in (lowest, highest))
    return low, high


def test_the_slope_is_that_of_least_squares() -> None:
    before, after, anchor, states = (normal(2, 3, 4, seed=i) for i in range(4))
    asked = torch.zeros(2, 3, dtype=torch.float64)
    wide, all_three = between(0.0, torch.inf), torch.tensor([3, 3])
    states = torch.cat([states, normal(2, 1, 4, seed=9)], dim=1)
    target = law(torch.cat([after, after[:, :1]], dim=1))
    refined = target.leaning(states, law(before, asked, anchor), wide, all_three)
    assert refined.slope is not None and refined.anchor is not None
    for row in range(2):
        for step in range(3):
            moved, rose = states[row, step] - anchor[row, step], after[row, step] - before[row, step]
            best = torch.linalg.lstsq(moved[:, None], rose[:, None]).solution
            assert float(refined.slope[row, step]) == pytest.approx(max(0.0, float(best)))
    assert torch.equal(refined.mean, target.mean) and torch.equal(refined.anchor, states)
    assert not refined.slope[:, 3].any()  # asked for the first time: there is nothing to compare it with
    low = target.leaning(states, law(before, asked, anchor), between(0.0, 0.1), all_three)
    assert low.slope is not None and torch.equal(low.slope, refined.slope.clamp(max=0.1))


def test_where_there_is_no_slope() -> None:
    """Never asked: none. Asked at the same state: what it was. Entries overwritten, or behind the window: none."""
    before, after, states = (normal(2, 3, 4, seed=i) for i in range(3))
    wide, all_three = between(0.0, torch.inf), torch.tensor([3, 3])
    target, path = law(torch.cat([after, after[:, :1]], dim=1)), torch.cat([states, states[:, :1]], dim=1)
    unknown, known = (torch.full((2, 3), slope, dtype=torch.float64) for slope in (torch.nan, 0.7))
    never = target.leaning(path, law(before, unknown, states - 1), wide, all_three)
    assert never.slope is not None and not never.slope.any()
    same = target.leaning(path, law(before, known, states), wide, all_three)
    assert same.slope is not None and (same.slope[:, :3] == 0.7).all()
    plain = target.leaning(path, law(before), wide, all_three)
    assert plain.slope is not None and not plain.slope.any()
    free = torch.tensor([[True] * 4, [True, True, False, True]])
    some = target.leaning(path, law(before, known, states), wide, all_three, free)
    assert some.slope is not None and (some.slope[0, :3] == 0.7).all() and not some.slope[1].any()
    narrow = target.leaning(path, law(before, known, states), wide, torch.tensor([3, 1]))
    assert narrow.slope is not None and (narrow.slope[0, :3] == 0.7).all() and not narrow.slope[1, 1:].any()


@pytest.mark.parametrize("schedule", [SCHEDULES["euler"], SCHEDULES["localization"], SCHEDULES["ddpm"]], ids=repr)
def test_following_goes_step_by_step(schedule: da.schedules.Schedule) -> None:
    """The guess of a leaning draft, against the same in a loop; and it is a draw from the laws that come with it."""
    chain = GaussianChain(lambda x, k: x, schedule, (3,), dtype=torch.float64, start=normal(5, 3, seed=8))
    paths = chain.start(0, torch.arange(5), Tally())
    assert isinstance(paths, AffinePaths)
    mean, anchor, noise = (normal(5, 4, 3, seed=i) for i in range(3))
    slope = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    slope[1, 2] = torch.nan
    draft = Gaussian(mean, chain.plan.s[:4].expand(5, 4), slope, anchor)
    guess, followed = paths.follow(draft, noise)
    assert isinstance(followed, Gaussian) and followed.slope is None
    x = paths.x
    for k in range(4):
        at = mean[:, k] + slope[:, k, None].nan_to_num(0.0) * (x - anchor[:, k])
        value = at + chain.plan.s[k] * noise[:, k]
        assert torch.allclose(followed.mean[:, k], at, atol=1e-9) and torch.allclose(guess[:, k], value, atol=1e-9)
        x = chain.plan.a[k] * x + value
        assert torch.allclose(paths.states(guess)[:, k + 1], x, atol=1e-9)
    assert torch.allclose(followed.draw(noise), guess) and torch.equal(followed.scale, draft.scale)


def test_a_law_keeps_its_lean_through_slicing_and_joining() -> None:
    leans, plain = law(normal(2, 3, 4), torch.rand(2, 3).double(), normal(2, 3, 4, seed=1)), law(normal(2, 2, 4))
    both = leans.join(plain)
    assert both.slope is not None and both.anchor is not None and leans.slope is not None
    assert torch.equal(both.slope[:, :3], leans.slope) and both.slope[:, 3:].isnan().all()
    assert law(normal(2, 3, 4)).join(plain).slope is None
    part = both[torch.tensor([[1]]), torch.tensor([[2, 3]])]
    assert part.slope is not None and part.anchor is not None
    assert torch.equal(part.slope[:, 0], both.slope[1:, 2]) and torch.equal(part.anchor[0], both.anchor[1, 2:4])


class Redrafts(Coupled):
    """Checks what the next draft leans by against the paths themselves."""

    def redraft(self, answer: Answer, draft: Law, width: Tensor, kept: Tensor, columns: int, beyond: int) -> Law:
        new = super().redraft(answer, draft, width, kept, columns, beyond)
        assert isinstance(new, Gaussian) and isinstance(draft, Gaussian) and new.shape[1] == columns
        if new.slope is not None:
            # steps beyond the window have never been asked about, the others have
            unasked = (kept[:, None] + 1 + torch.arange(columns)) > width[:, None]
            assert torch.equal(new.slope.isnan(), unasked)
        return new


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("window", [1, 3, None])
def test_only_what_was_asked_leans(window: int | None, graphs: bool) -> None:
    for chain in (DESIGNED["steep"], MODES):
        da.sample(chain, 50, sampler=Redrafts(window), seed=0, graphs=graphs)


def test_inpainting_does_not_lean() -> None:
    """Rows with known entries go on as they did; the others lean beside them."""
    known = torch.full((6, 2), torch.nan, dtype=torch.float64)
    known[::2, 0] = 0.5
    chain = GaussianChain(lambda x, k: 0.9 * x, SCHEDULES["euler"], (2,), known=known, dtype=torch.float64)
    one, other = (da.sample(chain, 6, sampler=Coupled(4, secant=s), seed=0).samples for s in (True, False))
    assert torch.allclose(one[::2], other[::2], atol=1e-12)


@pytest.mark.parametrize("secant", [True, False])
def test_deterministic_steps_stay_so(secant: bool) -> None:
    """With no noise at all there is nothing to draft, and so nothing to lean."""
    chain = GaussianChain(GaussianMixture.random(3), da.DDIM(eta=0.0, timesteps=da.schedules.spaced(9, 1000)))
    one = da.sample(chain, 3, sampler=Coupled(4, secant=secant), seed=0)
    assert torch.equal(one.samples, da.sample(chain, 3, sampler=da.Sequential(), seed=0).samples)
    assert one.report.drafted == 0
