"""The random samplers of k-diffusion, and Karras' stochastic one: their own loops on the same noise, and their laws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.verification.statistics import kolmogorov, same_law
from tests import literal
from tests.exactness import LEVEL
from tests.science import noise

SIZE, DATA = 2, 0.8
LADDER = tuple(float(6 * 0.7**i) for i in range(12))
SIGMAS = (*LADDER, 0.0)
Draw = Callable[[], Tensor]


def model(x: Tensor, sigma: Tensor) -> Tensor:
    """Not quite the prediction of normal data: bent, so that the order of a step shows."""
    shrunk = x * (DATA**2 / (DATA**2 + sigma.double() ** 2)).view(-1, *(1,) * (x.dim() - 1))
    return shrunk + 0.1 * torch.sin(3 * shrunk)


def linear(x: Tensor, sigma: Tensor) -> Tensor:
    return x * (DATA**2 / (DATA**2 + sigma.double() ** 2)).view(-1, *(1,) * (x.dim() - 1))


def at(x: Tensor, sigma: float) -> Tensor:
    return model(x, torch.full((len(x),), sigma, dtype=torch.float64))


def down_up(here: float, to: float, eta: float) -> tuple[float, float]:
    up = min(to, eta * math.sqrt(to**2 * (here**2 - to**2) / here**2))
    return math.sqrt(to**2 - up**2), up


def euler_ancestral(x: Tensor, draw: Draw, eta: float, s_noise: float) -> Tensor:
    for here, to in itertools.pairwise(SIGMAS):
        down, up = down_up(here, to, eta)
        x = x + (x - at(x, here)) / here * (down - here)
        x = x + draw() * s_noise * up if to > 0 else x
    return x


def dpmpp_2m_sde(x: Tensor, draw: Draw, eta: float, s_noise: float, *, heun: bool = False) -> Tensor:
    old, last = None, 0.0
    for here, to in itertools.pairwise(SIGMAS):
        denoised = at(x, here)
        if to == 0:
            return denoised
        h = math.log(here) - math.log(to)
        total = h + eta * h
        x = to / here * math.exp(-eta * h) * x - math.expm1(-total) * denoised
        if old is not None:
            weight = (-math.expm1(-total) / -total + 1) if heun else -0.5 * math.expm1(-total)
            x = x + weight / (last / h) * (denoised - old)
        x = x + draw() * to * math.sqrt(-math.expm1(-2 * eta * h)) * s_noise
        old, last = denoised, h
    return x


def dpm_2_ancestral(x: Tensor, draw: Draw, eta: float, s_noise: float) -> Tensor:
    for here, to in itertools.pairwise(SIGMAS):
        down, up = down_up(here, to, eta)
        d = (x - at(x, here)) / here
        if down == 0:
            return x + d * (down - here)
        middle = math.exp((math.log(here) + math.log(down)) / 2)
        x_2 = x + d * (middle - here)
        x = x + (x_2 - at(x_2, middle)) / middle * (down - here) + draw() * s_noise * up
    return x


def dpmpp_2s_ancestral(x: Tensor, draw: Draw, eta: float, s_noise: float) -> Tensor:
    for here, to in itertools.pairwise(SIGMAS):
        down, up = down_up(here, to, eta)
        denoised = at(x, here)
        if down == 0:
            return denoised
        h = math.log(here) - math.log(down)
        x_2 = math.exp(-h / 2) * x - math.expm1(-h / 2) * denoised
        x = math.exp(-h) * x - math.expm1(-h) * at(x_2, here * math.exp(-h / 2)) + draw() * s_noise * up
    return x


def dpmpp_sde(x: Tensor, draw: Draw, half: Draw, eta: float, s_noise: float) -> Tensor:
    """`half` is the noise of a step's first half; that of the whole step goes on from it as a Brownian path does."""
    for here, to in itertools.pairwise(SIGMAS):
        denoised, first, rest = at(x, here), half(), draw()
        if to == 0:
            return denoised
        middle = math.sqrt(here * to)
        whole = (first * math.sqrt(here - middle) + rest * math.sqrt(middle - to)) / math.sqrt(here - to)
        down, up = down_up(here, middle, eta)
        x_2 = down / here * x + (1 - down / here) * denoised + first * s_noise * up
        down, up = down_up(here, to, eta)
        x = down / here * x + (1 - down / here) * at(x_2, middle) + whole * s_noise * up
    return x


def stochastic_heun(x: Tensor, draw: Draw, churn: float, least: float, most: float, s_noise: float) -> Tensor:
    for i, (here, to) in enumerate(itertools.pairwise(SIGMAS)):
        gamma = min(churn / (len(SIGMAS) - 1), math.sqrt(2) - 1) if least <= here <= most else 0.0
        raised = here * (1 + gamma)
        if i:  # the first state comes with its noise
            x = x + draw() * s_noise * math.sqrt(raised**2 - here**2)
        d = (x - at(x, raised)) / raised
        after = x + d * (to - raised)
        if to > 0:
            after = x + (to - raised) * (d + (after - at(after, to)) / to) / 2
        x = after
    return x


ANCESTRAL = {
    "dpmpp_2m_sde": (dpmpp_2m_sde, da.science.DPMPP2MSDE),
    "dpm_2_ancestral": (dpm_2_ancestral, da.science.DPM2Ancestral),
    "dpmpp_2s_ancestral": (dpmpp_2s_ancestral, da.science.DPMPP2SAncestral),
}


@pytest.mark.parametrize("name", ANCESTRAL)
def test_it_takes_the_steps_of_its_own_loop(name: str) -> None:
    loop, schedule = ANCESTRAL[name]
    chain = da.adapters.from_k_diffusion(model, schedule(SIGMAS, 0.9, 1.1), (SIZE,), dtype=torch.float64)
    expected = loop(noise.first(3, SIZE) * SIGMAS[0], noise.steps(3, SIZE), 0.9, 1.1)
    torch.testing.assert_close(noise.one_by_one(chain), expected, rtol=1e-9, atol=1e-9)


def test_the_other_solver_and_the_first_order() -> None:
    heun = da.science.DPMPP2MSDE(SIGMAS, heun=True)
    chain = da.adapters.from_k_diffusion(model, heun, (SIZE,), dtype=torch.float64)
    first = noise.first(3, SIZE) * SIGMAS[0]
    expected = dpmpp_2m_sde(first, noise.steps(3, SIZE), 1.0, 1.0, heun=True)
    torch.testing.assert_close(noise.one_by_one(chain), expected, rtol=1e-9, atol=1e-9)
    chain = da.adapters.from_k_diffusion(model, "sample_euler_ancestral", (SIZE,), SIGMAS, dtype=torch.float64)
    expected = euler_ancestral(first, noise.steps(3, SIZE), 1.0, 1.0)
    torch.testing.assert_close(noise.one_by_one(chain), expected, rtol=1e-9, atol=1e-9)


def test_a_step_whose_passes_both_see_noise() -> None:
    schedule = da.science.DPMPPSDE(SIGMAS, 0.9, 1.1)
    chain = da.adapters.from_k_diffusion(model, schedule, (SIZE,), dtype=torch.float64)
    half = noise.steps(3, SIZE, literal.KNOWN)
    expected = dpmpp_sde(noise.first(3, 2 * SIZE)[:, :SIZE] * SIGMAS[0], noise.steps(3, SIZE), half, 0.9, 1.1)
    torch.testing.assert_close(noise.one_by_one(chain), expected, rtol=1e-9, atol=1e-9)


def test_karras_stochastic_sampler() -> None:
    schedule = da.science.StochasticHeun(SIGMAS, s_noise=1.007, churn=4.0, least=0.5, most=5.0)
    chain = da.adapters.from_k_diffusion(model, schedule, (SIZE,), dtype=torch.float64)
    expected = stochastic_heun(noise.first(3, SIZE) * SIGMAS[0], noise.steps(3, SIZE), 4.0, 0.5, 5.0, 1.007)
    torch.testing.assert_close(noise.one_by_one(chain), expected, rtol=1e-9, atol=1e-9)
    whole = da.science.StochasticHeun(SIGMAS, churn=40.0)  # the first level is raised, too
    assert whole.plan().start == pytest.approx(SIGMAS[0] * math.sqrt(2))


def test_both_passes_are_counted() -> None:
    asked: list[int] = []

    def counting(x: Tensor, sigma: Tensor) -> Tensor:
        asked.append(len(x))
        return model(x, sigma)

    for schedule in (da.science.DPM2Ancestral(SIGMAS), da.science.DPMPPSDE(SIGMAS)):
        asked.clear()
        chain = da.adapters.from_k_diffusion(counting, schedule, (SIZE,), dtype=torch.float64)
        report = da.sample(chain, 4, sampler=da.Coupled(6), seed=0, graphs=False).report
        assert report.passes == 2 * report.queries == sum(asked)
        assert report.rounds < chain.steps


def spread(plan: da.schedules.Plan, answer: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The standard deviation of a sample in closed form, where answers are linear in the state."""
    variance, steps = plan.start**2, torch.arange(len(plan.a))
    slope = answer(torch.ones(len(steps), 1, dtype=torch.float64), steps)[:, 0]
    for a, b, s, m in zip(plan.a, plan.b, plan.s, slope, strict=True):
        variance = float((a + b * m) ** 2 * variance + s**2)
    return math.sqrt(variance)


@pytest.mark.parametrize("schedule", [da.science.DPM2Ancestral(SIGMAS), da.science.StochasticHeun(SIGMAS, churn=4.0)])
def test_drawn_ahead_it_has_its_law(schedule: da.science.DPM2Ancestral, check: Callable[[float], None]) -> None:
    chain = da.adapters.from_k_diffusion(linear, schedule, (SIZE,), dtype=torch.float64)
    drawn = noise.ahead(chain, 6000).samples.double() / spread(schedule.plan(), schedule.denoiser(linear))
    check(kolmogorov(torch.special.ndtr(drawn).flatten()))


def test_a_first_order_prediction_in_a_second_order_step_is_noticed() -> None:
    """The mutant: the second pass is left out."""
    schedule = da.science.DPM2Ancestral(SIGMAS)
    once = da.GaussianChain(da.from_data_prediction(linear, schedule), schedule, (SIZE,), dtype=torch.float64)
    drawn = noise.ahead(once, 6000).samples.double() / spread(schedule.plan(), schedule.denoiser(linear))
    assert kolmogorov(torch.special.ndtr(drawn).flatten()) < LEVEL


def brownian_p_value(chain: da.Chain, count: int = 20_000) -> float:
    generator = torch.Generator().manual_seed(4)

    def draw() -> Tensor:
        return torch.randn(count, SIZE, generator=generator, dtype=torch.float64)

    return same_law(noise.ahead(chain, count).samples.double(), dpmpp_sde(SIGMAS[0] * draw(), draw, draw, 1.0, 1.0))


def test_noise_inside_a_step_keeps_its_law(check: Callable[[float], None]) -> None:
    schedule = da.science.DPMPPSDE(SIGMAS)
    check(brownian_p_value(schedule.chain(model, (SIZE,), dtype=torch.float64)))


def test_noise_of_a_first_half_that_is_forgotten_is_noticed() -> None:
    """The mutant: the noise that the model has seen is no part of the step's own."""
    chain = da.science.DPMPPSDE(SIGMAS).chain(model, (SIZE,), dtype=torch.float64)
    a = chain.plan.a.clone()
    a[:, 0, 1] = 0
    assert brownian_p_value(chain.replace(plan=replace(chain.plan, a=a))) < LEVEL


def test_what_is_wrong_is_said_in_one_line() -> None:
    with pytest.raises(da.InputError, match="sigmas must be at least two numbers that fall strictly"):
        da.science.DPMPPSDE((3.0, 1.0, 2.0))
    with pytest.raises(da.InputError, match="eta must be a number above 0"):
        da.science.DPM2Ancestral(SIGMAS, eta=0.0)
    with pytest.raises(da.InputError, match="did you mean 'dpmpp_sde'"):
        da.adapters.from_k_diffusion(model, "sample_dpmp_sde", (SIZE,), SIGMAS)
    with pytest.raises(da.InputError, match="needs sigmas="):
        da.adapters.from_k_diffusion(model, "dpmpp_sde", (SIZE,))
    with pytest.raises(da.InputError, match="no step would have noise"):
        da.science.StochasticHeun(SIGMAS, least=7.0)
