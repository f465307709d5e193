"""Plans of every sign and size draw their law: closed forms of linear chains, by every sampler and in both packings."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, InputError, Recursive, Sequential, Stepwise
from drawahead.laws import Gaussian
from drawahead.samplers import Sampler
from drawahead.schedules import Given, Plan
from drawahead.verification.statistics import kolmogorov
from tests.exactness import combined
from tests.instances import crossed

DRAWS = 4_000


def plan(a: Any, b: Any, s: Any, signal: float = 1.0, start: float = 1.0) -> Plan:
    steps = max(len(part) for part in (a, b, s) if isinstance(part, list))
    a, b, s = (
        torch.tensor(part if isinstance(part, list) else [part] * steps, dtype=torch.float64) for part in (a, b, s)
    )
    level = torch.full((steps + 1,), signal, dtype=torch.float64)
    return Plan(a, b, s, level, torch.ones_like(level), torch.arange(steps), start=start)


def chain(steps: Plan, factor: float, shift: float = 0.0, size: int = 2, **options: Any) -> GaussianChain:
    """The chain whose prediction is factor x + shift."""
    return GaussianChain(lambda x, k: factor * x + shift, Given(steps), (size,), dtype=torch.float64, **options)


def law(steps: Plan, factor: float, shift: float = 0.0) -> tuple[float, float]:
    """Mean and standard deviation of every entry of a sample, step by step."""
    mean, variance = 0.0, steps.start**2
    for a, b, s in zip(steps.a.tolist(), steps.b.tolist(), steps.s.tolist(), strict=True):
        mean, variance = (a + b * factor) * mean + b * shift, (a + b * factor) ** 2 * variance + s * s
    return mean, math.sqrt(variance)


PLANS: dict[str, tuple[Plan, float, float]] = {
    "one negative A": (plan([-0.6], 0.3, 1.0), 0.5, 1.0),
    "negative A": (plan([-0.9] * 12, 0.5, 0.4), 0.5, 0.3),
    "signs in turn": (plan([0.8, -1.1] * 6, [-0.7, 0.9] * 6, 0.5), 0.6, 0.2),
    "A is zero": (plan([0.9, 0.0, 0.0, 0.8, 0.0, 1.1], 0.4, 0.7), 0.8, 0.5),
    "A is tiny": (plan([1e-200, 0.9, -1e-90, 1e-150, 1.0], 0.5, 1.0), 0.5, 0.0),
    "growing, held by B": (plan([2.0] * 80, -1.5, 1.0), 1.0, 0.1),
    "growing slowly": (plan([1.2] * 150, -1.0, 1.0), 1.0, 0.0),
    "B is negative": (plan([1.0] * 16, -0.4, 0.5), 1.0, 0.7),
    "A + B / signal is zero": (plan([0.5] * 16, -1.0, 0.5, signal=2.0), 0.4, 0.3),
    "signal is negative": (plan([0.5] * 16, 0.6, 0.5, signal=-2.0), 0.4, 0.3),
    "noise of every size": (plan([0.9] * 6, 0.3, [1.0, 1e-160, 1e-8, 10.0, 1e-160, 0.5]), 0.7, 0.4),
    "noise next to none at the end": (plan([0.9] * 5, 0.3, [1.0, 0.5, 1e-3, 1e-160, 1e-200]), 0.7, 0.4),
    "deterministic steps": (plan([0.9, -0.9, 1.4, 0.0, 0.9] * 3, 0.3, [1.0, 0.0, 0.5, 0.0, 0.4] * 3), 0.7, 0.4),
}
GROWING = [name for name in PLANS if "growing" in name]
SAMPLERS: list[Sampler] = [Sequential(), Coupled(), Coupled(256), Coupled(4, secant=False), Block(), Stepwise()]
ADAPTIVE: list[Sampler] = [Coupled(), Block(), Stepwise()]


def p_value(samples: Tensor, mean: float, deviation: float) -> float:
    return combined([kolmogorov(torch.special.ndtr((column - mean) / deviation)) for column in samples.T])


def drawn_p_value(name: str, sampler: Sampler, graphs: bool, draws: int = DRAWS) -> float:
    steps, factor, shift = PLANS[name]
    samples = da.sample(
        chain(steps, factor, shift), draws, sampler=sampler, seed=0, max_live=draws, graphs=graphs
    ).samples
    return p_value(samples, *law(steps, factor, shift))


@pytest.mark.parametrize("sampler", [*SAMPLERS, Recursive()], ids=repr)
def test_the_law_of_any_plan(sampler: Sampler, check: Any) -> None:
    """One check for all plans: where the others are sound, the smallest p-value is that of the one which is not."""
    draws, few = (300, 0) if isinstance(sampler, Recursive) else (DRAWS, 600)  # few of long plans
    wanted = {name: few if name in GROWING else draws for name in PLANS}
    check(combined([drawn_p_value(name, sampler, False, some) for name, some in wanted.items() if some]))


@pytest.mark.parametrize("name", [name for name in PLANS if name not in GROWING])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_captured_rounds_draw_the_same_of_any_plan(sampler: Sampler, name: str) -> None:
    """Samples whose law is checked above."""
    steps, factor, shift = PLANS[name]
    one, other = (
        da.sample(chain(steps, factor, shift), 12, sampler=sampler, seed=0, graphs=graphs).samples
        for graphs in (True, False)
    )
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sampler", [sampler for sampler in SAMPLERS if sampler not in ADAPTIVE], ids=repr)
def test_the_law_of_growing_plans_in_captured_rounds(sampler: Sampler, check: Any) -> None:
    """Where rounding grows, too: sums in another order lead to other samples of the same law."""
    check(combined([drawn_p_value(name, sampler, True, 600) for name in GROWING]))


@pytest.mark.slow
@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_the_law_of_any_plan_in_full(sampler: Sampler, graphs: bool, check: Any) -> None:
    """What is left out above."""
    check(combined([drawn_p_value(name, sampler, graphs) for name in PLANS]))


@pytest.mark.parametrize("sampler", [Sequential(), Coupled(), Block()], ids=repr)
@pytest.mark.parametrize("times", [(1.0, 0.1), da.OUExponential.even(4).times], ids=len)
def test_the_exponential_integrator_with_few_steps(times: tuple[float, ...], sampler: Sampler, check: Any) -> None:
    """Its A is negative where steps are long."""
    schedule = da.OUExponential(times)
    steps = schedule.plan()
    assert bool((steps.a < 0).any())
    drawn = GaussianChain(lambda x, k: 0.5 * x, schedule, (2,), dtype=torch.float64)
    samples = da.sample(drawn, DRAWS, sampler=sampler, seed=0, max_live=DRAWS).samples
    check(p_value(samples, *law(steps, 0.5)))


ALONE = crossed(PLANS, [Coupled(256), Coupled(5)], ADAPTIVE)
ALONE = [(n, sampler) for n, sampler in ALONE if n != "growing slowly" or isinstance(sampler, Coupled)]


@pytest.mark.parametrize(("name", "sampler"), ALONE, ids=str)
def test_a_sample_does_not_depend_on_the_others(name: str, sampler: Sampler) -> None:
    """Nor does its rounding: whether a state is divided or multiplied is not decided over the batch."""
    steps, factor, shift = PLANS[name]
    bent = GaussianChain(
        lambda x, k: factor * x + shift + 0.1 * torch.sin(5 * x), Given(steps), (2,), dtype=torch.float64
    )
    together = da.sample(bent, 6, sampler=sampler, seed=3).samples
    for number in (0, 5):
        assert torch.equal(da.sample(bent, 1, first=number, sampler=sampler, seed=3).samples[0], together[number])


def test_the_hypercube_of_the_readme_alone_and_in_a_batch() -> None:
    cube = GaussianChain(da.targets.Hypercube(64), da.StochasticLocalization(steps=256, radius=1.0, delta=0.05))
    together = da.sample(cube, 24, sampler=Coupled(), seed=0).samples
    alone = torch.cat([da.sample(cube, 1, first=i, sampler=Coupled(), seed=0).samples for i in range(24)])
    assert torch.equal(alone, together)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("least", [0.4, 1.5, 2.5])
def test_giving_up_is_decided_for_each_sample(least: float, graphs: bool) -> None:
    """Whatever the others do; and a sample may take up speculation again."""
    long = plan([1.0] * 60, -0.4, 0.5)
    hard = GaussianChain(lambda x, k: x + 2 * torch.sign(x), Given(long), (2,), dtype=torch.float64)
    sampler = Coupled(6, least=least)
    together = da.sample(hard, 8, sampler=sampler, seed=1, graphs=graphs).samples
    for number in (0, 3, 7):
        alone = da.sample(hard, 1, first=number, sampler=sampler, seed=1, graphs=graphs).samples[0]
        assert torch.allclose(alone, together[number], rtol=1e-9, atol=1e-9)
    packed = da.sample(hard, 8, sampler=sampler, seed=1)
    assert torch.allclose(packed.samples, together, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("least", [0.3, 0.6])
def test_the_law_where_speculation_pauses(least: float, graphs: bool, check: Any) -> None:
    """Steps have noise of different sizes: a draft made for another step would show."""
    steps = plan([0.9] * 40, 0.2, [1.0, 0.2, 0.5, 2.0] * 10)
    drawn = chain(steps, 1.0)
    result = da.sample(drawn, DRAWS, sampler=Coupled(3, least=least * 4), seed=0, max_live=DRAWS, graphs=graphs)
    check(p_value(result.samples, *law(steps, 1.0)))


def scribbling(x: Tensor, k: Tensor) -> Tensor:
    """A denoiser that writes into everything it is given, and answers in memory that it uses again."""
    answer = SCRATCH.setdefault(len(x), torch.empty_like(x)).copy_(torch.sin(3 * x) + 0.1 * k[:, None])
    x.mul_(0.0)
    k.add_(1)
    return answer


SCRATCH: dict[int, Tensor] = {}


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("sampler", [Sequential(), Coupled(5), Coupled(5, secant=False)], ids=repr)
def test_a_denoiser_may_write_into_what_it_is_given(sampler: Sampler, graphs: bool) -> None:
    steps, _, _ = PLANS["B is negative"]
    one, other = (
        da.sample(
            GaussianChain(denoiser, Given(steps), (2,), dtype=torch.float64), 6, sampler=sampler, seed=0, graphs=graphs
        ).samples
        for denoiser in (scribbling, lambda x, k: torch.sin(3 * x) + 0.1 * k[:, None])
    )
    assert torch.equal(one, other)


def test_an_answer_in_memory_that_is_used_again_does_not_change_earlier_chunks() -> None:
    steps, _, _ = PLANS["B is negative"]
    drawn = GaussianChain(scribbling, Given(steps), (2,), dtype=torch.float64)
    whole = da.sample(drawn, 6, sampler=Coupled(5), seed=0).samples
    assert torch.allclose(da.sample(drawn, 6, sampler=Coupled(5), seed=0, max_batch_size=4).samples, whole, atol=1e-12)


@pytest.mark.parametrize("seed", [-1, 2**64, 2**64 + 5, -(2**64)])
def test_seeds_that_would_draw_the_samples_of_another_are_refused(seed: int) -> None:
    steps, factor, shift = PLANS["B is negative"]
    with pytest.raises(InputError, match=r"seed must be from 0 to 2\^64 - 1"):
        da.sample(chain(steps, factor, shift), seed=seed)
    assert da.sample(chain(steps, factor, shift), seed=2**64 - 1).report.seed == 2**64 - 1


def test_a_guess_that_is_far_away_does_not_cost_digits() -> None:
    """A mirrored step starts from the target's mean. From the guess it would lose all that the guess cannot hold."""
    far = torch.tensor([1e17, -1e17], dtype=torch.float64).view(1, 1, 2)
    target, draft = (Gaussian(mean, torch.ones(1, 1, dtype=torch.float64)) for mean in (torch.zeros_like(far), far))
    noise = torch.tensor([0.25, 0.5], dtype=torch.float64).view(1, 1, 2)
    value, kept = target.couple(draft, draft.draw(noise), noise, torch.full((1, 1), 0.5, dtype=torch.float64))
    assert not bool(kept) and torch.allclose(value, noise.flip(-1), atol=1e-12)
