"""Coefficients of every schedule against formulas worked out another way; and what their constructors refuse."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import pydoc
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

import drawahead as da
from drawahead import DDIM, DDPM, EulerAncestral, GaussianChain, InputError, OUExponential, StochasticLocalization
from drawahead.randomness import Purpose, Stream
from drawahead.schedules import (
    Given,
    Plan,
    Schedule,
    Threshold,
    cosine_betas,
    ddim_steps,
    ddpm_steps,
    linear_betas,
    scaled_linear_betas,
    spaced,
)
from studies.localization import DIMENSIONS, ERRORS, measured_error

BETAS = linear_betas(20, 0.01, 0.4)
SUBSET = (19, 12, 7, 3, 0)
EVERY: dict[str, Schedule] = {
    "localization": StochasticLocalization(12, radius=1.5, delta=0.02),
    "ddpm": DDPM(BETAS),
    "ddpm, subset": DDPM(BETAS, SUBSET),
    "ddpm, cosine": DDPM(cosine_betas(15)),
    "ddim": DDIM(BETAS, eta=0.6),
    "euler": EulerAncestral((10.0, 3.0, 1.0, 0.2, 0.0)),
    "ou": OUExponential.even(10),
}


def close(one: Tensor, other: Tensor | float, tolerance: float = 1e-12) -> bool:
    return torch.allclose(one, torch.as_tensor(other, dtype=torch.float64), rtol=tolerance, atol=tolerance)


def levels(plan: Plan) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Signal and noise before and after each step."""
    return plan.signal[:-1], plan.signal[1:], plan.noise[:-1], plan.noise[1:]


@pytest.mark.parametrize("name", EVERY)
def test_a_plan_fits_together(name: str) -> None:
    plan = EVERY[name].plan()
    n = len(plan.a)
    assert [len(t) for t in (plan.b, plan.s, plan.time, plan.signal, plan.noise)] == [n, n, n, n + 1, n + 1]
    assert all(t.dtype == torch.float64 for t in (plan.a, plan.b, plan.s, plan.signal, plan.noise))
    assert (plan.s >= 0).all() and (plan.s[:-1] > 0).all()
    assert dataclasses.replace(EVERY[name]) == EVERY[name] and hash(EVERY[name])  # type: ignore[type-var]


@pytest.mark.parametrize("name", ["localization", "ddpm", "ddpm, subset", "ddpm, cosine", "ddim", "euler"])
def test_a_step_with_the_data_itself_keeps_the_levels(name: str) -> None:
    """Were every prediction Y itself, x_k = signal_k Y + noise_k g would stay so. The exponential integrator of the
    reverse diffusion has that only in the limit of short steps."""
    plan = EVERY[name].plan()
    signal, next_signal, noise, next_noise = levels(plan)
    assert close(plan.a * signal + plan.b, next_signal)
    assert close(plan.a**2 * noise**2 + plan.s**2, next_noise**2)


@pytest.mark.parametrize("name", ["ddpm", "ddpm, subset", "ddpm, cosine", "euler"])
def test_the_posterior_by_bayes(name: str) -> None:
    """x_{k+1} given Y and x_k, from x_{k+1} ~ N(signal' Y, noise'^2) and x_k given x_{k+1}: precisions add."""
    plan = EVERY[name].plan()
    signal, next_signal, noise, next_noise = (t[:-1] for t in levels(plan))  # the last step ends in a point
    shrink = signal / next_signal  # x_k = shrink x_{k+1} + N(0, extra)
    extra = noise**2 - shrink**2 * next_noise**2
    precision = 1 / next_noise**2 + shrink**2 / extra
    assert close(plan.s[:-1] ** 2, 1 / precision)
    assert close(plan.a[:-1], shrink / extra / precision)
    assert close(plan.b[:-1], next_signal / next_noise**2 / precision)


@pytest.mark.parametrize("timesteps", [None, SUBSET])
def test_the_large_variance_is_beta(timesteps: tuple[int, ...] | None) -> None:
    small, large = (DDPM(BETAS, timesteps, large_variance=flag).plan() for flag in (False, True))
    assert torch.equal(small.a, large.a) and torch.equal(small.b, large.b)
    abar = torch.tensor([math.prod(1 - b for b in BETAS[: t + 1]) for t in timesteps or range(19, -1, -1)])
    assert close(large.s[:-1] ** 2, 1 - abar[:-1] / abar[1:], 1e-6)
    if timesteps is None:
        assert close(large.s[:-1] ** 2, torch.tensor(BETAS, dtype=torch.float64).flip(0)[:-1])


@pytest.mark.parametrize("timesteps", [None, SUBSET])
def test_ddim_with_all_its_noise_is_ddpm(timesteps: tuple[int, ...] | None) -> None:
    one, other = DDIM(BETAS, timesteps, eta=1.0).plan(), DDPM(BETAS, timesteps).plan()
    for name in ("a", "b", "s", "signal", "noise", "time"):
        assert close(getattr(one, name).double(), getattr(other, name).double())


def test_ddim_without_noise_is_deterministic() -> None:
    plan = DDIM(BETAS, eta=0.0).plan()
    signal, next_signal, noise, next_noise = levels(plan)
    assert not plan.s.any()
    assert close(plan.a, next_noise / noise) and close(plan.b, next_signal - signal * next_noise / noise)


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_steps_between_any_levels(eta: float) -> None:
    """From no signal at all, to where the next step does not set out from, and to nowhere."""
    here = torch.tensor([0.0, 0.3, 0.9], dtype=torch.float64)
    after = torch.tensor([0.2, 0.8, 0.9], dtype=torch.float64)
    time, noisy = torch.tensor([9, 5, 0]), torch.tensor([True, True, True])
    for plan in (ddim_steps(time, here, after, eta), ddpm_steps(time, here, after, noisy, large_variance=False)):
        assert close(plan.a * here.sqrt() + plan.b, after.sqrt())
        assert close(plan.a**2 * (1 - here) + plan.s**2, 1 - after)
        assert close(plan.signal**2, torch.cat([here, after[-1:]])) and Given(plan).plan() is plan
    assert float(plan.a[2]) == 1 and float(plan.b[2]) == float(plan.s[2]) == 0


def test_ddim_noise_is_in_proportion_to_eta() -> None:
    assert close(DDIM(BETAS, eta=0.3).plan().s, 0.3 * DDIM(BETAS, eta=1.0).plan().s)


@pytest.mark.parametrize("name", ["ddpm", "ddpm, subset", "ddpm, cosine", "ddim", "euler"])
def test_the_last_step_is_deterministic(name: str) -> None:
    """It returns the prediction."""
    plan = EVERY[name].plan()
    assert float(plan.s[-1]) == 0 and float(plan.a[-1]) == pytest.approx(0, abs=1e-12)
    assert float(plan.b[-1]) == pytest.approx(1)


def test_help_is_short() -> None:
    """No default is a table of a thousand numbers."""
    for schedule in (DDPM, DDIM):
        assert len(str(inspect.signature(schedule))) < 250 and len(pydoc.render_doc(schedule)) < 6000
    assert DDPM().betas == linear_betas() and DDPM() == DDPM()
    described = inspect.getdoc(Plan) or ""
    assert all(re.search(rf"\b{field.name}\b[^:]*:", described) for field in dataclasses.fields(Plan))


def test_timesteps_are_what_a_network_is_told() -> None:
    assert DDPM(BETAS, SUBSET).plan().time.tolist() == list(SUBSET)
    assert DDPM(BETAS).plan().time.tolist() == list(range(19, -1, -1))
    assert EulerAncestral((3.0, 1.0, 0.5)).plan().time.tolist() == [3.0, 1.0]
    assert spaced(4, 1000) == (999, 666, 333, 0) and spaced(1000, 1000) == tuple(range(999, -1, -1))


@pytest.mark.parametrize("s_noise", [1.0, 1.003, 0.0])
@pytest.mark.parametrize("eta", [1.0, 0.7, 0.0, 3.0])
def test_euler_ancestral_steps_are_those_of_k_diffusion(eta: float, s_noise: float) -> None:
    """A literal loop of theirs, with the noise that the chain draws."""
    sigmas, rows = (10.0, 4.0, 3.9, 1.0, 0.2, 0.0), 5
    chain = GaussianChain(
        lambda x, k: torch.tanh(x) / 2, EulerAncestral(sigmas, eta=eta, s_noise=s_noise), (3,), dtype=torch.float64
    )
    ours = da.sample(chain, rows, sampler=da.Sequential(), seed=4).samples
    stream = Stream.of_samples(4, torch.arange(rows))
    x = sigmas[0] * stream.normal(Purpose.START, torch.zeros(rows, dtype=torch.int64), size=3)
    for k, (here, after) in enumerate(itertools.pairwise(sigmas)):
        denoised = torch.tanh(x) / 2
        up = min(after, eta * (after**2 * (here**2 - after**2) / here**2) ** 0.5) if eta else 0.0
        down = (after**2 - up**2) ** 0.5
        x = x + (x - denoised) / here * (down - here)
        if after > 0:
            x = x + stream.normal(Purpose.VALUE, torch.full((rows,), k), size=3) * s_noise * up
    torch.testing.assert_close(ours, x, rtol=1e-12, atol=1e-12)


def test_the_exponential_integrator_solves_its_equation() -> None:
    """dx = (x + 2 score) dt + sqrt(2) dB over a step with the score frozen: mean by quadrature, variance by Ito."""
    times = (2.0, 1.1, 0.3, 0.05)
    plan = OUExponential(times).plan()
    for k, (first, last) in enumerate([(2.0, 1.1), (1.1, 0.3), (0.3, 0.05)]):
        h, x, m = first - last, 1.7, -0.6
        score = -(x - math.exp(-first) * m) / (1 - math.exp(-2 * first))
        pushed = integrate.quad(lambda u: math.exp(u), 0, h)[0] * 2 * score
        assert float(plan.a[k] * x + plan.b[k] * m) == pytest.approx(math.exp(h) * x + pushed)
        assert float(plan.s[k]) ** 2 == pytest.approx(integrate.quad(lambda u: 2 * math.exp(2 * u), 0, h)[0])
    assert close(plan.signal**2 + plan.noise**2, 1.0) and close(
        plan.signal, torch.exp(-torch.tensor(times, dtype=torch.float64))
    )


def test_fine_exponential_steps_keep_the_levels() -> None:
    plan = OUExponential.even(20_000, first=3.0, last=0.05).plan()
    signal, next_signal, noise, next_noise = levels(plan)
    step = (next_signal / signal).log().max()
    assert ((plan.a * signal + plan.b) / next_signal - 1).abs().max() < step * 0.01
    assert ((plan.a**2 * noise**2 + plan.s**2) / next_noise**2 - 1).abs().max() < step * 0.01


def test_even_exponential_steps() -> None:
    schedule = OUExponential.even(7, first=3.0, last=0.02)
    t = torch.tensor(schedule.times, dtype=torch.float64)
    assert len(t) == 8 and close(t[0], 3.0) and close(t[-1], 0.02)
    ratio = torch.expm1(2 * t).log().diff()
    assert close(ratio, float(ratio[0]), 1e-9)


@pytest.mark.parametrize(("steps", "radius", "delta"), [(1, 1.0, 0.01), (10, 3.0, 0.5), (500, 0.2, 1e-4)])
def test_the_localization_grid(steps: int, radius: float, delta: float) -> None:
    plan = StochasticLocalization(steps, radius, delta).plan()
    t = plan.signal
    assert float(t[0]) == 0 and float(t[-1]) == pytest.approx(1 / delta) and len(t) == steps + 1
    growth = (t[1:] + radius**-2) / (t[:-1] + radius**-2)
    assert close(growth, float(growth[0]), 1e-9)
    assert close(plan.b, t.diff()) and close(plan.s**2, t.diff()) and close(plan.a, 1.0) and plan.start == 0.0
    assert plan.final == pytest.approx(delta) and close(plan.noise**2, t) and close(plan.time, t[:-1])


def test_betas() -> None:
    linear, scaled, cosine = linear_betas(), scaled_linear_betas(), cosine_betas()
    assert len(linear) == len(scaled) == len(cosine) == 1000
    assert linear[0] == pytest.approx(1e-4) and linear[-1] == pytest.approx(0.02)
    assert linear[500] == pytest.approx(1e-4 + (0.02 - 1e-4) * 500 / 999)
    assert scaled[0] == pytest.approx(0.00085) and scaled[-1] == pytest.approx(0.012)
    assert scaled[333] == pytest.approx((math.sqrt(0.00085) * 2 / 3 + math.sqrt(0.012) / 3) ** 2)
    abar = torch.cumprod(1 - torch.tensor(cosine, dtype=torch.float64), 0)
    for i in (0, 99, 499, 900):  # before the largest beta is reached, abar is the cosine itself
        share = math.cos(((i + 1) / 1000 + 0.008) / 1.008 * math.pi / 2) / math.cos(0.008 / 1.008 * math.pi / 2)
        assert float(abar[i]) == pytest.approx(share**2)
    assert cosine[-1] == 0.999 and cosine[0] == pytest.approx(4.128422482196291e-05)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: StochasticLocalization(0), "steps"),
    (lambda: StochasticLocalization(5, radius=0.0), "radius"),
    (lambda: StochasticLocalization(5, delta=-1.0), "delta"),
    (lambda: StochasticLocalization(5, delta=math.nan), "delta"),
    (lambda: StochasticLocalization.for_error(0.0, 4), "eps"),
    (lambda: StochasticLocalization.for_error(1.5, 4), "eps"),
    (lambda: DDPM(()), "betas"),
    (lambda: DDPM((0.1, 1.0)), "betas"),
    (lambda: DDPM((0.1, 0.0)), "betas"),
    (lambda: DDPM(BETAS, (0, 5)), "timesteps"),
    (lambda: DDPM(BETAS, ()), "timesteps"),
    (lambda: DDPM(BETAS, (20, 3)), "timesteps"),
    (lambda: DDPM(BETAS, (3, -1)), "timesteps"),
    (lambda: DDPM(BETAS, (3, 3)), "timesteps"),
    (lambda: DDIM(BETAS, eta=-0.1), "eta"),
    (lambda: DDIM(BETAS, eta=3.0).plan(), "eta"),
    (lambda: EulerAncestral((1.0,)), "sigmas"),
    (lambda: EulerAncestral((1.0, 2.0)), "sigmas"),
    (lambda: EulerAncestral((1.0, -0.5)), "sigmas"),
    (lambda: EulerAncestral((2.0, 1.0), eta=-0.1), "eta must be a number not below 0"),
    (lambda: EulerAncestral((2.0, 1.0), s_noise="loud"), "s_noise must be a number"),
    (lambda: OUExponential((1.0, 0.0)), "times"),
    (lambda: OUExponential((1.0,)), "times"),
    (lambda: OUExponential((0.5, 1.0)), "times"),
    (lambda: spaced(0, 10), "steps"),
    (lambda: spaced(11, 10), "steps"),
]


@pytest.mark.parametrize(("make", "named"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_schedule_is_refused(make: Callable[[], Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        make()


def test_threshold() -> None:
    """The formula of Imagen: clip at the larger of 1 and a quantile of |prediction|, then divide by it."""
    threshold = Threshold(ratio=0.8, most=10.0)
    prediction = torch.tensor([[0.5, -4.0, 1.0, 2.0, -3.0, 0.0], [0.1, 0.2, -0.9, 0.3, 0.0, 0.5]], dtype=torch.float64)
    size = torch.tensor(sorted(prediction[0].abs().tolist()))[4]  # 0.8 of the way through 6 values
    assert close(threshold(prediction)[0], prediction[0].clamp(-float(size), float(size)) / float(size), 1e-6)
    assert torch.equal(threshold(prediction)[1], prediction[1])
    assert close(threshold(prediction * 100)[0], (prediction[0] * 100).clamp(-10, 10) / 10)  # at most `most`


@pytest.mark.parametrize("schedule", [DDPM, DDIM])
def test_clipping_is_part_of_the_prediction(schedule: type[DDPM] | type[DDIM]) -> None:
    """With one deterministic step the output is the adjusted prediction itself."""
    out = torch.tensor([5.0, -0.25, -7.0, 0.5], dtype=torch.float64)

    def run(**options: Any) -> Tensor:
        chain = GaussianChain(lambda x, k: out.expand_as(x), schedule((0.5,), **options), (4,), dtype=torch.float64)
        return da.sample(chain, 1, seed=0).samples[0]

    assert close(run(), out) and close(run(clip=1.0), out.clamp(-1, 1)) and close(run(clip=6.0), out.clamp(-6, 6))
    threshold = Threshold(ratio=1.0, most=7.0)
    assert close(run(threshold=threshold), out / 7)
    assert close(run(threshold=threshold, clip=0.1), out / 7)  # the threshold has taken its place


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_for_error_keeps_its_word(dimension: int) -> None:
    """Measured on Gaussians of every width up to the radius, which the bound must cover."""
    for eps in ERRORS:
        schedule = StochasticLocalization.for_error(eps, dimension, radius=1.5, delta=0.05)
        for variance in (1.5**2, 0.5, 0.01):
            error, deviation = measured_error(schedule, torch.full((dimension,), variance), draws=4000)
            assert error + 4 * deviation < eps


def test_the_measured_error_is_a_total_variation() -> None:
    """In one dimension, by quadrature."""
    schedule, variance = StochasticLocalization(5, delta=0.05), 0.8
    error, deviation = measured_error(schedule, torch.tensor([variance]), draws=200_000)
    plan, spread = schedule.plan(), 0.0
    for t, h in zip(plan.signal[:-1].tolist(), plan.b.tolist(), strict=True):
        spread = (1 + h * variance / (1 + t * variance)) ** 2 * spread + h
    one, other = stats.norm(0, math.sqrt(spread) * plan.final), stats.norm(0, math.sqrt(variance + 0.05))
    truth = integrate.quad(lambda x: abs(one.pdf(x) - other.pdf(x)) / 2, -15, 15, limit=200)[0]
    assert abs(error - truth) < 5 * deviation and truth > 0.02


def test_churn_takes_the_path_of_its_loop() -> None:
    """Noise first, the network after; here the chain's states are those the network is shown."""
    levels = da.schedules.Churn.levels(12)
    schedule = da.schedules.Churn(tuple(levels))
    chain = GaussianChain(lambda x, k: torch.tanh(x), schedule, (3,), record=range(1, 12), dtype=torch.float64)
    shown = da.sample(chain, 2, sampler=da.Sequential(), seed=0).samples
    stream = Stream.of_samples(0, torch.arange(2))
    y = stream.normal(Purpose.START, torch.zeros(2, dtype=torch.int64), size=3) * chain.plan.start
    for k in range(12):
        raised = levels[k] * (1.8 if levels[k + 1] > 1.0 else 1.0)
        x = y + 1.5 * (levels[k + 1] - raised) * (y - torch.tanh(y)) / raised
        if k == 11:
            y = x
        else:
            after = levels[k + 1] * (1.8 if levels[k + 2] > 1.0 else 1.0)
            xi = stream.normal(Purpose.VALUE, torch.full((2,), k), size=3)
            y = x + 1.003 * max(after**2 - levels[k + 1] ** 2, 0.0) ** 0.5 * xi
        torch.testing.assert_close(shown[:, k], y, rtol=1e-12, atol=1e-9)
    assert chain.plan.start == pytest.approx((levels[0] ** 2 + 1.003**2 * (1.8**2 - 1) * levels[0] ** 2) ** 0.5)


def test_how_many_steps_of_churn_are_random() -> None:
    """Of the two hundred that AlphaFold 3 takes, those that end above 1."""
    plan = da.schedules.Churn(tuple(da.schedules.Churn.levels(200))).plan()
    assert int((plan.s > 0).sum()) == int((torch.tensor(da.schedules.Churn.levels(200))[2:] > 1.0).sum()) == 159
    assert not da.schedules.Churn((2.0, 1.0, 0.0), gamma=0.0).plan().s.any()
    with pytest.raises(InputError, match="sigmas"):
        da.schedules.Churn((1.0, 2.0))
