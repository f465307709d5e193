"""The baselines: on a Gaussian their discretised laws are known in closed form, errors and all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import rtk
from drawahead.rtk import Info, Kernel, Noise, RTKTarget
from drawahead.verification.statistics import kolmogorov
from tests.exactness import LEVEL, combined

SPECTRUM = torch.tensor([0.05, 0.4, 3.0], dtype=torch.float64)
BASIS = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
MEAN = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
TARGET = da.targets.GaussianTarget(covariance=BASIS @ torch.diag(SPECTRUM) @ BASIS.T, mean=MEAN)
SEGMENTS = rtk.Segments((1.5, 0.9, 0.4, 0.15, 0.05, 0.0))
CENTRE = MEAN @ BASIS  # along the axes of the covariance

Moments = tuple[Tensor, Tensor]
"""Mean and variance along the axes of the covariance, (d,) each."""


def noised(t: float) -> Tensor:
    """The variances of the target at time t."""
    return SPECTRUM * math.exp(-2 * t) - math.expm1(-2 * t)


def reversed_step(moments: Moments, t: float, h: float, push: float, spread: float) -> Moments:
    """y -> exp(h) y + push (exp(h) - 1) score + spread xi, the score at time t."""
    pull = push * math.expm1(h) / noised(t)
    mean, variance = moments
    return (
        (math.exp(h) - pull) * mean + pull * math.exp(-t) * CENTRE,
        (math.exp(h) - pull) ** 2 * variance + spread**2,
    )


def reverse_law(steps: int, segments: rtk.Segments, *, sde: bool) -> Moments:
    """What DDPM (or the ODE) draws with `steps` steps a segment, from standard normals."""
    moments = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    for end, eta in zip(segments.times[1:], segments.lengths, strict=True):
        h = eta / steps
        spread = math.sqrt(math.expm1(2 * h)) if sde else 0.0
        for s in range(steps):
            moments = reversed_step(moments, end + eta - s * h, h, 2.0 if sde else 1.0, spread)
    return moments


def overdamped(moments: Moments, t: float, tau: float, steps: int) -> Moments:
    """Langevin steps at time t."""
    mean, variance = moments
    for _ in range(steps):
        keep = 1 - tau / noised(t)
        mean, variance = keep * mean + (1 - keep) * math.exp(-t) * CENTRE, keep**2 * variance + 2 * tau
    return mean, variance


def underdamped(moments: Moments, t: float, tau: float, gamma: float, steps: int) -> Moments:
    """The same for (z, v) with a fresh velocity: a 2 x 2 linear map, coordinate by coordinate."""
    c = rtk.ULD(tau, gamma, steps).coefficients
    var_z, cov, var_v = c.covariance
    noise = torch.tensor([[var_z, cov], [cov, var_v]], dtype=torch.float64)
    for i, curvature in enumerate((1 / noised(t)).tolist()):
        step = torch.tensor([[1 - c.z_push * curvature, c.drift], [-c.v_push * curvature, c.keep]], dtype=torch.float64)
        centre = math.exp(-t) * CENTRE[i]
        mean = torch.stack([moments[0][i] - centre, torch.zeros((), dtype=torch.float64)])
        covariance = torch.diag(torch.stack([moments[1][i], torch.ones((), dtype=torch.float64)]))
        for _ in range(steps):
            mean, covariance = step @ mean, step @ covariance @ step.T + noise
        moments[0][i], moments[1][i] = mean[0] + centre, covariance[0, 0]
    return moments


def corrected_law(correct: Callable[[Moments, float], Moments], predictor_steps: int) -> Moments:
    """The ODE and a corrector, segment by segment."""
    moments = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    for end, eta in zip(SEGMENTS.times[1:], SEGMENTS.lengths, strict=True):
        h = eta / predictor_steps
        for s in range(predictor_steps):
            moments = reversed_step(moments, end + eta - s * h, h, 1.0, 0.0)
        moments = correct(moments, end)
    return moments


def p_value(kernel: Kernel, law: Moments, draws: int = 20_000) -> float:
    """Do the samples have independent normal coordinates of these moments? Shape, and the size of all products."""
    samples = rtk.sample(TARGET, kernel=kernel, segments=SEGMENTS, num_samples=draws, seed=1).samples
    u = (samples @ BASIS - law[0]) / law[1].sqrt()
    tests = [kolmogorov(torch.special.ndtr(column)) for column in u.T]
    products = torch.stack([u[:, i] * u[:, j] - float(i == j) for i in range(3) for j in range(i + 1)])
    spread = torch.tensor([2.0 if i == j else 1.0 for i in range(3) for j in range(i + 1)]).sqrt()
    z = products.mean(1) * math.sqrt(draws) / spread
    return combined(tests + torch.special.erfc(z.abs() / math.sqrt(2)).tolist())


def test_ddpm_has_the_law_of_the_discretised_sde(check: Callable[[float], None]) -> None:
    check(p_value(rtk.ReverseSDE(steps=2), reverse_law(2, SEGMENTS, sde=True)))


def test_dpom_has_its_law(check: Callable[[float], None]) -> None:
    law = corrected_law(lambda moments, t: overdamped(moments, t, 0.03, 2), predictor_steps=2)
    check(p_value(rtk.DPOM(tau=0.03, steps=2, predictor_steps=2), law))


def test_dpum_has_its_law(check: Callable[[float], None]) -> None:
    law = corrected_law(lambda moments, t: underdamped(moments, t, 0.2, 3.0, 3), predictor_steps=1)
    check(p_value(rtk.DPUM(tau=0.2, gamma=3.0, steps=3), law))


@dataclass(frozen=True)
class Wrong(Kernel):
    """The reverse process, by hand: right as a whole, and wrong with any other setting."""

    steps: int = 2
    push: float = 2.0  # of the score: 2 in the SDE, 1 in the ODE
    lag: int = 0  # steps that the score's time is behind its state
    noisy: bool = True
    fresh: bool = True

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        h, z = target.eta / self.steps, target.x_prime
        for s in range(self.steps):
            score = target.score_at(z, target.time + target.eta - (s + self.lag) * h)
            xi = noise.at(s if self.fresh else 0).normal(3) * self.noisy
            z = math.exp(h) * z + self.push * math.expm1(h) * score + math.sqrt(math.expm1(2 * h)) * xi
        return z, Info.sure(z, self.steps)


@pytest.mark.parametrize("mutant", [Wrong(push=1.0), Wrong(lag=1), Wrong(fresh=False)], ids=repr)
def test_wrong_sdes_are_rejected(mutant: Kernel) -> None:
    assert p_value(mutant, reverse_law(2, SEGMENTS, sde=True)) < LEVEL


@pytest.mark.parametrize("kernel", [rtk.DPOM(tau=0.03, steps=1, predictor_steps=2), rtk.ReverseSDE(steps=2)])
def test_a_wrong_number_of_corrector_steps_is_rejected(kernel: Kernel) -> None:
    law = corrected_law(lambda moments, t: overdamped(moments, t, 0.03, 2), predictor_steps=2)
    assert p_value(kernel, law) < LEVEL


def flow(kernel: Kernel, start: Tensor, segments: rtk.Segments = SEGMENTS) -> Tensor:
    """Where states at the first time end, along the axes of the covariance."""
    return rtk.sample(TARGET, kernel=kernel, segments=segments, num_samples=len(start), start=start).samples @ BASIS


def test_the_ode_moves_each_state_where_its_steps_say() -> None:
    """It draws no noise: mean and spread of the discretised scheme are read off two states, exactly."""
    mean, variance = reverse_law(3, SEGMENTS, sde=False)
    start = torch.cat([torch.zeros(1, 3, dtype=torch.float64), BASIS.T.double()])  # the origin, then each axis
    for kernel, right in ((rtk.ProbabilityFlow(steps=3), True), (Wrong(steps=3, noisy=False), False)):
        origin, *axes = flow(kernel, start)
        spread = (torch.stack(axes) - origin).diagonal()
        assert torch.allclose(origin, mean, atol=1e-12) == right
        assert torch.allclose(spread**2, variance, atol=1e-12) == right


def test_ddpm_is_the_same_chain_as_the_schedule_of_the_other_samplers() -> None:
    """Step by step it is what `OUExponential` plans, which the other samplers run in parallel rounds."""
    times = (1.5, 0.7, 0.2, 0.05)
    plan, score = da.OUExponential(times).plan(), rtk.exact(TARGET)
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for k, (t, after) in enumerate(itertools.pairwise(times)):
        grad = score(x, torch.full((4,), t, dtype=torch.float64))
        data = (x - math.expm1(-2 * t) * grad) / math.exp(-t)  # what a denoiser predicts
        planned = plan.a[k] * x + plan.b[k] * data + plan.s[k] * Noise.of_samples(0, 4).normal(3)
        ours = rtk.sample(TARGET, kernel=rtk.ReverseSDE(), segments=rtk.Segments((t, after)), num_samples=4, start=x)
        assert torch.allclose(ours.samples, planned)


def test_a_kernel_for_each_segment() -> None:
    asked: list[tuple[float, float]] = []

    def choose(time: float, eta: float) -> Kernel:
        asked.append((time, eta))
        return rtk.ReverseSDE(2)

    one = rtk.sample(TARGET, kernel=rtk.PerSegment(choose, 2), segments=SEGMENTS, num_samples=3, seed=0).samples
    assert torch.equal(
        one, rtk.sample(TARGET, kernel=rtk.ReverseSDE(2), segments=SEGMENTS, num_samples=3, seed=0).samples
    )
    assert asked == list(zip(SEGMENTS.times[1:], SEGMENTS.lengths, strict=True))
    with pytest.raises(da.DrawaheadError, match="at most steps = 1"):
        rtk.sample(TARGET, kernel=rtk.PerSegment(choose, 1), segments=SEGMENTS, num_samples=3, seed=0)
