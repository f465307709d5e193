"""DPS, and Langevin dynamics: equal to their own loops on the same noise; captured rounds follow gradients, too."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.verification.statistics import kolmogorov
from tests.exactness import LEVEL
from tests.science import noise

SCHEDULE = da.DDPM(da.schedules.linear_betas(20, 0.01, 0.3), clip=1.5)
SIZE = 3
SEEN = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]], dtype=torch.float64)


def network(x: Tensor, t: Tensor) -> Tensor:
    return torch.tanh(x) * (1 + 0.02 * t.view(-1, 1))


def measure(data: Tensor) -> Tensor:
    return data @ SEEN.T


CHAIN = da.GaussianChain(da.from_epsilon(network, SCHEDULE), SCHEDULE, (SIZE,), dtype=torch.float64)
MEASURED = torch.tensor([[0.7, -0.4], [0.1, 0.2], [-1.0, 0.0]], dtype=torch.float64)


def its_own_loop(strength: float, count: int = 3) -> Tensor:
    """As DPS is written: an ancestral step, then down the gradient of the norm of what is off."""
    betas = torch.tensor(SCHEDULE.betas, dtype=torch.float64)
    abar = torch.cumprod(1 - betas, 0)
    x, draw = noise.first(count, SIZE), noise.steps(count, SIZE)
    for i in reversed(range(len(betas))):
        x = x.detach().requires_grad_()
        eps = network(x, torch.full((count,), i))
        data = ((x - (1 - abar[i]).sqrt() * eps) / abar[i].sqrt()).clamp(-1.5, 1.5)
        before = abar[i - 1] if i else torch.ones((), dtype=torch.float64)
        mean = (1 - betas[i]).sqrt() * (1 - before) / (1 - abar[i]) * x + before.sqrt() * betas[i] / (
            1 - abar[i]
        ) * data
        sample = mean + (betas[i] * (1 - before) / (1 - abar[i])).sqrt() * draw()
        (slope,) = torch.autograd.grad((MEASURED[:count] - measure(data)).norm(dim=1).sum(), x)
        x = sample - strength * slope
    return x.detach()


def test_it_takes_the_steps_of_its_own_loop() -> None:
    chain = da.science.posterior(CHAIN, measure, MEASURED, strength=0.3)
    torch.testing.assert_close(noise.one_by_one(chain), its_own_loop(0.3), rtol=1e-9, atol=1e-9)


def test_gradients_are_followed_in_captured_rounds_and_counted() -> None:
    chain = da.science.posterior(CHAIN, measure, MEASURED[:1], strength=0.3)
    captured = da.sample(chain, 3, sampler=da.Coupled(5), seed=0, graphs=True)
    packed = da.sample(chain, 3, sampler=da.Coupled(5), seed=0, graphs=False)
    torch.testing.assert_close(captured.samples, packed.samples, rtol=1e-9, atol=1e-9)
    assert packed.report.passes == 2 * packed.report.queries and packed.report.rounds < chain.steps


def linear_posterior() -> tuple[da.GaussianChain, float, float]:
    """Of one number with a normal law: every step stays linear, so mean and variance are known."""
    data, y, strength = 0.8, 0.9, 0.05
    schedule = da.DDPM(da.schedules.linear_betas(20, 0.01, 0.3))
    plan = schedule.plan()
    slope = plan.signal[:-1] * data**2 / (plan.signal[:-1] ** 2 * data**2 + plan.noise[:-1] ** 2)
    plain = da.GaussianChain(lambda x, k: slope[k, None] * x, schedule, (1,), dtype=torch.float64)
    target = torch.full((1, 1), y, dtype=torch.float64)
    chain = da.science.posterior(plain, lambda data: data, target, strength=strength, norm=False)
    mean, variance = 0.0, plan.start**2
    for a, b, s, m in zip(plan.a, plan.b, plan.s, slope, strict=True):
        factor = float(a + b * m - strength * m**2)
        mean, variance = factor * mean + strength * float(m) * y, factor**2 * variance + float(s) ** 2
    return chain, mean, math.sqrt(variance)


def p_value(chain: da.GaussianChain, mean: float, spread: float) -> float:
    samples = noise.ahead(chain, 8000).samples.double()
    return kolmogorov(torch.special.ndtr((samples - mean) / spread).flatten())


def test_drawn_ahead_it_has_its_law(check: Callable[[float], None]) -> None:
    check(p_value(*linear_posterior()))


def test_a_gradient_that_stops_at_the_prediction_is_noticed() -> None:
    """The mutant: the gradient is taken with respect to the prediction, not the state."""
    chain, mean, spread = linear_posterior()

    def cut(x: Tensor, k: Tensor, measured: Tensor) -> Tensor:
        data: Tensor = chain.denoiser.denoiser(x, k)
        return data - 0.05 * (data - measured) / chain.plan.b[k, None]

    assert p_value(chain.replace(denoiser=cut), mean, spread) < LEVEL


def test_langevin_takes_its_own_steps_whatever_the_scale() -> None:
    def gradient(x: Tensor) -> Tensor:
        return -x / 0.25 + torch.sin(x)

    x, draw = noise.first(3, SIZE), noise.steps(3, SIZE)
    for _ in range(40):
        x = x + 0.02 * gradient(x) + math.sqrt(0.04) * draw()
    for scale in (0.5, 2.0):
        schedule = da.science.Langevin(40, 0.02, scale=scale)
        chain = da.GaussianChain(schedule.denoiser(gradient), schedule, (SIZE,), dtype=torch.float64)
        torch.testing.assert_close(noise.one_by_one(chain), x, rtol=1e-9, atol=1e-9)
    assert noise.ahead(chain, 64).report.mean_rounds < 40


def test_what_is_wrong_is_said_in_one_line() -> None:
    with pytest.raises(da.InputError, match=r"measure returns \(2,\) .* measured has \(3,\)"):
        da.science.posterior(CHAIN, measure, torch.zeros(1, 3))
    learned = da.DDPM(da.schedules.linear_betas(5), learned_range=True)
    chain = da.GaussianChain(lambda x, k: torch.cat([x, x], 1), learned, (SIZE,))
    with pytest.raises(da.InputError, match="use a fixed variance"):
        da.science.posterior(chain, measure, MEASURED)
    with pytest.raises(da.InputError, match="is there already"):
        da.science.posterior(da.science.posterior(CHAIN, measure, MEASURED), measure, MEASURED)
    with pytest.raises(da.InputError, match="step must be a number above 0"):
        da.science.Langevin(5, 0.0)
