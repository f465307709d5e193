"""Stacked chains: their law with every sampler, what they share with Gaussian chains, what they count and refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import (
    Auto,
    Block,
    Coupled,
    InputError,
    Picard,
    Recursive,
    Sequential,
    StackedChain,
    StackedPlan,
    Stepwise,
)
from drawahead.samplers import Sampler
from drawahead.samplers.window import WindowSampler
from drawahead.schedules import Schedule, linear_betas
from drawahead.targets import GaussianMixture
from tests.exactness import LEVEL, combined
from tests.gaussian.stacked_mutants import MUTANTS, Mutant, rotated
from tests.gaussian.stacked_reference import BENT, LINEAR, PLANS, bent_p_value, linear_p_value, whole
from tests.instances import PLAIN, crossed

Check = Callable[[float], None]
EVERY = [*PLAIN, Picard()]
QUICK = [sampler for sampler in PLAIN if not isinstance(sampler, Recursive)]
LONG = [name for name in PLANS if name != "driven"]
DRAWS = 5_000  # Kolmogorov-Smirnov finds a distance of 0.054, and with 200 draws one of 0.27: see reference.py
VARIANTS: list[Sampler] = [
    Stepwise(2),
    Block(3),
    Block(2, pipelined=False),
    Coupled(1),
    Coupled(3),
    Coupled(secant=False),
    Auto(),
]


# The law


@pytest.mark.parametrize("sampler", QUICK, ids=repr)
@pytest.mark.parametrize("name", LONG)
def test_the_law_of_a_linear_chain(name: str, sampler: Sampler, check: Check) -> None:
    check(linear_p_value(name, sampler, DRAWS))


@pytest.mark.parametrize(("name", "draws"), [("mixing", 100), ("driven", 200)])
def test_the_law_by_recursion(name: str, draws: int, check: Check) -> None:
    check(linear_p_value(name, Recursive(), draws))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_the_law_with_more_draws(sampler: Sampler, check: Check) -> None:
    draws = 2_000 if isinstance(sampler, Recursive) else 100_000
    check(combined([linear_p_value(name, sampler, draws) for name in PLANS]))


@pytest.mark.parametrize("sampler", VARIANTS, ids=repr)
def test_the_law_with_other_windows(sampler: Sampler, check: Check) -> None:
    check(linear_p_value("refreshed", sampler, DRAWS))


@pytest.mark.parametrize(
    ("name", "sampler"),
    [("mixing", Block()), ("refreshed", Coupled()), ("refreshed", Stepwise()), ("in turn", Coupled(3))],
    ids=repr,
)
def test_the_law_of_a_chain_that_is_not_linear(name: str, sampler: Sampler, check: Check) -> None:
    check(bent_p_value(name, sampler, DRAWS))


def test_noise_has_no_axes(check: Check) -> None:
    """Another root of the same covariance, and b to go with it."""
    check(linear_p_value("mixing", Block(), DRAWS, whole(rotated(PLANS["mixing"]), LINEAR["mixing"])))


@pytest.mark.parametrize(
    ("mutant", "graphs"),
    [(m, graphs) for m in MUTANTS for graphs in (False, True) if not graphs or isinstance(m.sampler, WindowSampler)],
    ids=lambda part: part if isinstance(part, bool) else f"{part.name}, {type(part.sampler).__name__} on {part.chain}",
)
def test_a_mutant_is_rejected(mutant: Mutant, graphs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PLANS[mutant.chain]
    chain = whole(plan if mutant.plan is None else mutant.plan(plan), LINEAR[mutant.chain])
    if mutant.patch is not None:
        mutant.patch(monkeypatch)
    assert linear_p_value(mutant.chain, mutant.sampler, mutant.draws, chain, graphs=graphs) < LEVEL


# One lane is a Gaussian chain

MODES = GaussianMixture.random(3, components=4)
SCHEDULES: list[Schedule] = [
    da.DDPM(betas=linear_betas(20, 0.05, 0.5)),  # the last step is deterministic
    da.StochasticLocalization(30, delta=0.1),
    da.EulerAncestral((12.0, 5.0, 2.0, 1.0, 0.5, 0.2)),
]


def one_lane(schedule: Schedule) -> StackedChain:
    plan, denoise = schedule.plan(), MODES.denoiser(schedule)
    deterministic = plan.s == 0
    s = torch.where(deterministic, 1.0, plan.s)
    steepest = torch.where(plan.signal[:-1] > 0, 1 / plan.signal[:-1].clamp(min=1e-30), 0.0)
    stacked = StackedPlan(
        plan.a[:, None, None],
        (plan.b / s)[:, None],
        s[:, None, None],
        start=torch.tensor([plan.start], dtype=torch.float64),
        final=torch.tensor([plan.final], dtype=torch.float64),
        deterministic=deterministic,
        reads=torch.ones(len(s), 1),
        slopes=(torch.zeros_like(steepest), steepest),
    )
    return StackedChain(lambda x, k: denoise(x[:, 0], k), stacked, MODES.shape, dtype=torch.float64)


@pytest.mark.parametrize(
    ("schedule", "sampler"), crossed(SCHEDULES, [Coupled(4), Coupled(5, secant=False), Block(3)], EVERY), ids=str
)
def test_one_lane_gives_the_samples_of_a_gaussian_chain(schedule: Schedule, sampler: Sampler) -> None:
    one = da.sample(one_lane(schedule), 6, sampler=sampler, seed=3)
    other = da.sample(da.GaussianChain(MODES, schedule), 6, sampler=sampler, seed=3)
    assert torch.allclose(one.samples, other.samples, atol=1e-9)
    assert one.report.widths == other.report.widths


def test_leaning_saves_rounds() -> None:
    """Where answers are one factor times what they read, they are known after two."""
    steps = 60
    a = torch.tensor([[1.0, 0.1], [-0.1, 0.9]], dtype=torch.float64).expand(steps, 2, 2)
    reads, s = torch.tensor([[1.0, -0.5]]).expand(steps, 2), torch.eye(2).expand(steps, 2, 2) * 0.3

    def oracle(x: Tensor, k: Tensor) -> Tensor:
        return -0.4 * (x[:, 0] - 0.5 * x[:, 1])

    rounds = []
    for given in (reads, None):
        plan = StackedPlan(a, torch.ones(steps, 2), s, start=torch.ones(2), final=torch.ones(2), reads=given)
        report = da.sample(StackedChain(oracle, plan, (8,)), 20, sampler=Coupled(steps), seed=0).report
        rounds.append(report.mean_rounds)
    assert rounds[0] <= 5 and rounds[1] > 7


# Shapes, starts and records


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
def test_recording_changes_nothing(sampler: Sampler) -> None:
    plan, oracle = PLANS["refreshed"], BENT["refreshed"]
    every = da.sample(whole(plan, oracle), 5, sampler=sampler, seed=3).samples
    assert every.shape == (5, 7, 3, 2)
    plain = StackedChain(oracle, plan, (2,), dtype=torch.float64)
    assert torch.equal(da.sample(plain, 5, sampler=sampler, seed=3).samples, every[:, -1])
    some = StackedChain(oracle, plan, (2,), record=[4, 2], dtype=torch.float64)
    assert torch.equal(da.sample(some, 5, sampler=sampler, seed=3).samples, every[:, [3, 1, -1]])


def plan_of(**changes: Any) -> StackedPlan:
    """Two lanes, three steps, one noise, with changes."""
    given: dict[str, Any] = {
        "a": torch.eye(2).expand(3, 2, 2),
        "b": torch.ones(3, 1),
        "s": torch.ones(3, 2, 1),
        "start": torch.ones(2),
        "final": torch.tensor([1.0, -1.0]),
    }
    return StackedPlan(**(given | changes))


def first(x: Tensor, k: Tensor) -> Tensor:
    return x[:, 0]


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
def test_the_shape_of_a_sample(sampler: Sampler) -> None:
    """The lanes move together, so that their difference stays what it was."""
    start = torch.arange(24, dtype=torch.float64).view(2, 2, 3, 2)
    chain = StackedChain(first, plan_of(), (3, 2), start=start, dtype=torch.float64)
    samples = da.sample(chain, 2, sampler=sampler, seed=0).samples
    assert torch.allclose(samples, start[:, 0] - start[:, 1], atol=1e-9)
    both = StackedChain(first, plan_of(final=torch.eye(2)), (3, 2), start=start, dtype=torch.float64)
    lanes = da.sample(both, 2, sampler=sampler, seed=0).samples
    assert lanes.shape == (2, 2, 3, 2) and torch.allclose(lanes[:, 0] - lanes[:, 1], samples, atol=1e-9)
    with pytest.raises(InputError, match="start has 2 rows, but num_samples is 3"):
        da.sample(chain, 3, sampler=sampler)


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
def test_deterministic_steps(sampler: Sampler) -> None:
    """They are never drafted, but by Picard; and where there is no noise at all, all samplers agree."""
    deterministic = torch.tensor([True, True, True])
    chain = StackedChain(first, plan_of(deterministic=deterministic), (2,), dtype=torch.float64)
    result = da.sample(chain, 4, sampler=sampler, seed=0)
    assert torch.allclose(result.samples, da.sample(chain, 4, sampler=Sequential(), seed=0).samples, atol=1e-6)
    if not isinstance(sampler, Picard):
        assert result.report.drafted == 0 and result.report.rounds == 3


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
@pytest.mark.parametrize("name", ["refreshed", "in turn"])
def test_a_sample_does_not_depend_on_its_batch(name: str, sampler: Sampler) -> None:
    chain = whole(PLANS[name], BENT[name])
    many = da.sample(chain, 4 if isinstance(sampler, Recursive) else 30, sampler=sampler, seed=5).samples
    for options in ({"max_live": 3, "max_batch_size": 5}, {"max_live": 1, "max_batch_size": 1}):
        few = da.sample(chain, 4, sampler=sampler, seed=5, **options).samples  # type: ignore[arg-type]
        assert torch.allclose(few, many[:4], atol=1e-9), options


# What is refused


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: plan_of(a=torch.eye(2)), r"a must have shape \(steps, lanes, lanes\)"),
    (lambda: plan_of(a=torch.ones(3, 2, 3)), "a must have shape"),
    (lambda: plan_of(a=torch.ones(0, 2, 2)), "a must have shape"),
    (lambda: plan_of(b=torch.ones(3)), r"b must have shape \(steps, noises\)"),
    (lambda: plan_of(b=torch.ones(2, 1)), r"b must have shape \(3, 1\)"),
    (lambda: plan_of(s=torch.ones(3, 1, 2)), r"s must have shape \(3, 2, 1\)"),
    (lambda: plan_of(a=torch.full((3, 2, 2), torch.nan)), "a must be finite"),
    (lambda: plan_of(b=torch.full((3, 1), torch.inf)), "b must be finite"),
    (lambda: plan_of(start=torch.ones(3)), r"start must have shape \(2,\)"),
    (lambda: plan_of(start=-torch.ones(2)), "standard deviations"),
    (lambda: plan_of(final=torch.ones(2, 3)), r"final must have shape \(2, 2\)"),
    (lambda: plan_of(final=torch.ones(())), "final must have shape"),
    (lambda: plan_of(refresh=(torch.ones(3, 2, 2), torch.ones(4, 2, 1))), r"refresh\[0\] must have shape \(4, 2, 2\)"),
    (lambda: plan_of(refresh=(torch.ones(4, 2, 2), torch.ones(4, 1))), r"refresh\[1\] must have shape"),
    (lambda: plan_of(deterministic=torch.ones(2, dtype=torch.bool)), "deterministic must hold 3 booleans"),
    (lambda: plan_of(deterministic=torch.full((3,), 0.5)), "deterministic must hold 3 booleans"),
    (lambda: plan_of(reads=torch.ones(3)), r"reads must have shape \(3, 2\)"),
    (lambda: plan_of(slopes=(torch.ones(3), torch.zeros(3))), "slopes"),
    (lambda: plan_of(s=torch.zeros(3, 2, 1)), "in step 0 b pushes where s adds no noise"),
    (lambda: plan_of(s=torch.ones(3, 2, 2), b=torch.tensor([[1.0, 1.0], [0, 0], [1.0, 0]])), "in step 2 b pushes"),
    (lambda: StackedChain(first, plan_of(), ()), "shape"),
    (lambda: StackedChain(first, plan_of(), (2, 0)), "shape"),
    (lambda: StackedChain(first, plan_of(), (2,), start=torch.zeros(2)), r"start must have shape \(2, 2\)"),
    (lambda: StackedChain(first, plan_of(), (2,), record=[3]), "record"),
    (
        lambda: da.sample(StackedChain(first, plan_of(), (2,)), sampler=Recursive(), graphs=True),
        "graphs=True needs a sampler that draws in windows",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_noise_that_leads_nowhere_is_allowed_where_nothing_pushes_along_it() -> None:
    """A step that draws nothing at all, and one with two columns that are the same."""
    for plan in (
        plan_of(s=torch.zeros(3, 2, 1), b=torch.zeros(3, 1)),
        plan_of(s=torch.ones(3, 2, 2), b=torch.ones(3, 2)),
    ):
        assert da.sample(StackedChain(first, plan, (2,)), 3, sampler=Block(), seed=0).samples.isfinite().all()
