"""The loops of score_sde: each equal to its own loop on the same noise, with the law of its closed form."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.science.sde import SDE
from drawahead.verification.statistics import kolmogorov
from tests.exactness import LEVEL
from tests.science import noise

SIZE, STEPS = 3, 24
DATA = 0.7  # the standard deviation of the data


class Original:
    """A process as score_sde writes them, for states of four axes."""

    T = 1
    N = STEPS

    def __init__(self, kind: str) -> None:
        self.kind, self.low, self.high = kind, 0.1, 8.0
        self.discrete_betas = torch.linspace(self.low / self.N, self.high / self.N, self.N)
        self.discrete_sigmas = torch.exp(torch.linspace(math.log(0.05), math.log(6.0), self.N))
        if kind != "ve":
            self.alphas = 1 - self.discrete_betas

    def sde(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        if self.kind == "ve":
            return torch.zeros_like(x), 0.05 * 120**t * math.sqrt(2 * math.log(120))
        beta = self.low + t * (self.high - self.low)
        drift = -0.5 * beta[:, None, None, None] * x
        discount = 1 - torch.exp(-2 * self.low * t - (self.high - self.low) * t**2)
        return drift, torch.sqrt(beta * (discount if self.kind == "sub-vp" else 1))

    def marginal_prob(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        if self.kind == "ve":
            return x, 0.05 * 120**t
        log = -0.25 * t**2 * (self.high - self.low) - 0.5 * t * self.low
        spread = 1 - torch.exp(2 * log)
        return torch.exp(log)[:, None, None, None] * x, spread if self.kind == "sub-vp" else spread.sqrt()

    def prior_logp(self, z: Tensor) -> Tensor:
        scale = 6.0 if self.kind == "ve" else 1.0
        return -0.5 * math.log(2 * math.pi * scale**2) - (z**2).sum((1, 2, 3)) / (2 * scale**2)

    def discretize(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        step = (t * (self.N - 1) / self.T).long()
        if self.kind == "vp":
            beta = self.discrete_betas[step]
            return torch.sqrt(1 - beta)[:, None, None, None] * x - x, torch.sqrt(beta)
        if self.kind == "ve":
            sigma, before = self.discrete_sigmas[step], self.discrete_sigmas[step - 1]
            return torch.zeros_like(x), torch.sqrt(sigma**2 - torch.where(step == 0, 0.0, before) ** 2)
        drift, diffusion = self.sde(x, t)
        return drift / self.N, diffusion * math.sqrt(1 / self.N)


OURS: dict[str, SDE] = {
    "vp": da.science.VPSDE(0.1, 8.0, STEPS),
    "sub-vp": da.science.SubVPSDE(0.1, 8.0, STEPS),
    "ve": da.science.VESDE(0.05, 6.0, STEPS),
}
PREDICTORS = {"euler": da.science.EulerMaruyama, "reverse": da.science.ReverseDiffusion}


def score_of(sde: SDE) -> Callable[[Tensor, Tensor], Tensor]:
    """Of normal data with standard deviation DATA."""

    def score(x: Tensor, t: Tensor) -> Tensor:
        signal, level = sde.marginal(t)
        return -x / ((signal * DATA) ** 2 + level**2).view(-1, *(1,) * (x.dim() - 1))

    return score


def its_own_loop(original: Original, kind: str, corrections: int, snr: float, count: int) -> Tensor:
    """Predictor and corrector as score_sde runs them, on noise of drawahead."""
    score, draw = score_of(OURS[original.kind]), noise.steps(count, SIZE)
    x = noise.first(count, SIZE).view(count, SIZE, 1, 1) * (6.0 if original.kind == "ve" else 1.0)
    for t in torch.linspace(original.T, 1e-3, original.N):
        vec_t = torch.ones(count) * t
        for _ in range(corrections):
            std = original.marginal_prob(x, vec_t)[1][:, None, None, None]
            alpha = 1.0 if original.kind == "ve" else original.alphas[(vec_t * (original.N - 1)).long()][0]
            size = (snr * std) ** 2 * 2 * alpha
            x = x + size * score(x, vec_t) + (size * 2).sqrt() * draw().view_as(x)
        z = draw().view_as(x)
        if kind == "euler":
            drift, diffusion = original.sde(x, vec_t)
            drift = drift - diffusion[:, None, None, None] ** 2 * score(x, vec_t)
            mean, scale = x - drift / original.N, diffusion / math.sqrt(original.N)
        else:
            f, scale = original.discretize(x, vec_t)
            mean = x - (f - scale[:, None, None, None] ** 2 * score(x, vec_t))
        x = mean + scale[:, None, None, None] * z
    return mean.flatten(1)


@pytest.mark.parametrize("corrections", [0, 2])
@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("kind", OURS)
def test_it_takes_the_steps_of_its_own_loop(kind: str, predictor: str, corrections: int) -> None:
    corrector = da.science.AnnealedLangevin(0.2, corrections) if corrections else None
    expected = its_own_loop(Original(kind), predictor, corrections, 0.2, 3)
    for sde in (OURS[kind], Original(kind)):  # our own, and theirs, read by what it does
        schedule = PREDICTORS[predictor](sde, corrector=corrector)
        chain = da.adapters.from_score_sde(score_of(OURS[kind]), schedule, (SIZE,), dtype=torch.float64)
        assert chain.steps == STEPS * (1 + corrections)
        torch.testing.assert_close(noise.one_by_one(chain), expected, rtol=1e-4, atol=1e-4)


def spread_of(chain: da.GaussianChain, sde: SDE) -> float:
    """The standard deviation of a sample, in closed form: every step is linear in a normal state."""
    plan, score, variance = chain.plan, score_of(sde), chain.plan.start**2
    slope = score(torch.ones(chain.steps, 1, dtype=torch.float64), plan.time)[:, 0]
    slope = (1 + plan.noise[:-1] ** 2 * slope) / plan.signal[:-1]
    for a, b, s, m in zip(plan.a, plan.b, plan.s, slope, strict=True):
        variance = float((a + b * m) ** 2 * variance + s**2)
    return math.sqrt(variance)


def p_value(chain: da.GaussianChain, spread: float) -> float:
    return kolmogorov(torch.special.ndtr(noise.ahead(chain, 4000).samples.double() / spread).flatten())


@pytest.mark.parametrize("kind", OURS)
def test_drawn_ahead_it_has_its_law(kind: str, check: Callable[[float], None]) -> None:
    schedule = da.science.ReverseDiffusion(OURS[kind], corrector=da.science.AnnealedLangevin(0.2))
    chain = da.adapters.from_score_sde(score_of(OURS[kind]), schedule, (SIZE,), dtype=torch.float64)
    check(p_value(chain, spread_of(chain, OURS[kind])))


def test_a_corrector_that_forgets_the_root_of_two_is_noticed() -> None:
    """The mutant: Langevin noise of half the variance."""
    sde = OURS["vp"]
    schedule = da.science.EulerMaruyama(sde, denoise=False, corrector=da.science.AnnealedLangevin(0.3, 2))
    chain = da.adapters.from_score_sde(score_of(sde), schedule, (SIZE,), dtype=torch.float64)
    plan, scale = schedule.plan(), schedule.plan().s.clone()
    corrects = torch.arange(len(scale)) % 3 < 2
    scale[corrects] /= math.sqrt(2)
    wrong = chain.replace(schedule=da.schedules.Given(type(plan)(**{**vars(plan), "s": scale})))
    assert p_value(wrong, spread_of(chain, sde)) < LEVEL <= p_value(chain, spread_of(chain, sde))


def test_a_score_of_another_sign_or_scale_is_warned_of() -> None:
    sde = OURS["vp"]
    score, schedule = score_of(sde), da.science.EulerMaruyama(sde)
    with pytest.warns(UserWarning, match="opposite sign.*negate it"):
        da.adapters.from_score_sde(lambda x, t: -score(x, t), schedule, (SIZE,))
    with pytest.warns(UserWarning, match="30 times as large"):
        da.adapters.from_score_sde(lambda x, t: 30 * score(x, t), schedule, (SIZE,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.adapters.from_score_sde(score, schedule, (SIZE,))


def test_what_cannot_be_drawn_ahead_is_refused_in_one_line() -> None:
    with pytest.raises(da.InputError, match="norm of its own noise over the batch"):
        da.science.EulerMaruyama(OURS["vp"], corrector="langevin")  # type: ignore[arg-type]
    with pytest.raises(da.InputError, match="where the noise is not zero yet"):
        da.science.EulerMaruyama(OURS["vp"], last=0.0)
    silent = Original("vp")
    silent.sde = lambda x, t: (0 * x, (t - 0.5).clamp(min=0))  # type: ignore[method-assign]
    with pytest.raises(da.InputError, match=r"step \d+, at time .* has no noise"):
        da.science.EulerMaruyama(silent).plan()
    crooked = Original("vp")
    crooked.sde = lambda x, t: (x**2, t)  # type: ignore[method-assign]
    with pytest.raises(da.InputError, match="must be linear in x"):
        da.science.EulerMaruyama(crooked).plan()
    with pytest.raises(da.InputError, match="must rise"):
        da.science.VPSDE(20, 0.1)
    with pytest.raises(da.InputError, match="an object like theirs"):
        da.science.EulerMaruyama(object())


@pytest.mark.parametrize(
    "answer", [lambda x: x[:, :1], lambda x: (x,), lambda x: x * math.nan], ids=["fewer", "tuple", "nan"]
)
def test_a_score_that_is_none_is_refused(answer: Callable[[Tensor], Any]) -> None:
    schedule = da.science.ReverseDiffusion(da.science.VPSDE(steps=50))
    with pytest.raises(da.InputError, match="score must answer states"):
        da.adapters.from_score_sde(lambda x, t: answer(x), schedule, (3,))
