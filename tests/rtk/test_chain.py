"""rtk.chain: the samples of rtk.sample, step for step; their law with every sampler, in few rounds."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, InputError, Recursive, SamplingError, Sequential, Stepwise, rtk
from drawahead.rtk import MALA, ULD, CentredStart, PerSegment, Segments
from drawahead.samplers import Sampler
from drawahead.targets import GaussianMixture, GaussianTarget
from tests.exactness import LEVEL, combined
from tests.gaussian.reference import normal_p_value

Check = Callable[[float], None]
RING = GaussianMixture(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0]]), 0.3)
SEGMENTS = Segments.even(2.0, 3, last=0.1)
UNEVEN = Segments((2.0, 0.9, 0.3, 0.0))


def choose(time: float, eta: float) -> ULD:
    """Longer steps in the earlier segments."""
    return ULD(0.1 + time / 5, 3.0 - time, 5)


def network(x: Tensor, t: Tensor) -> Tensor:
    return -torch.tanh(x) / (1 + t.view(-1, 1, 1))


@pytest.mark.parametrize("spread", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(
    "kernel",
    [ULD(0.2, 2.0, 6), ULD(0.3, 1.0, 1), ULD(0.2, 2.0, 4, CentredStart()), PerSegment(choose, 5)],
    ids=["six steps", "one step", "centred", "per segment"],
)
@pytest.mark.parametrize("segments", [SEGMENTS, UNEVEN], ids=["even", "uneven"])
def test_one_by_one_it_draws_what_sample_draws(kernel: ULD | PerSegment, segments: Segments, spread: float) -> None:
    one = rtk.sample(RING, kernel=kernel, segments=segments, num_samples=7, seed=3)
    chain = rtk.chain(RING, kernel, segments, spread=spread)
    other = da.sample(chain, 7, sampler=Sequential(), seed=3)
    assert torch.allclose(one.samples, other.samples, atol=1e-10)
    assert one.report.calls == other.report.rounds == chain.steps == len(segments) * kernel.steps


def test_a_network_and_a_start() -> None:
    """A network in float32 on states that are matrices, from given states of an odd number of entries."""
    kernel, start = ULD(0.2, 2.0, 4), torch.linspace(-2, 2, 12).view(4, 3, 1)
    score = rtk.learned(network, (3, 1))
    for given in (start, start[0], None):
        one = rtk.sample(score, kernel=kernel, segments=UNEVEN, num_samples=4, start=given, seed=1).samples
        chain = rtk.chain(score, kernel, UNEVEN, start=given)
        other = da.sample(chain, 4, sampler=Sequential(), seed=1).samples
        assert one.dtype == other.dtype == torch.float32 and other.shape == (4, 3, 1)
        assert torch.allclose(one, other, atol=1e-5)
    assert da.sample(rtk.chain(lambda x, t: -x, kernel, UNEVEN, shape=(2,)), 3, seed=0).samples.shape == (3, 2)


def test_tiny_steps() -> None:
    """Their noise is nearly degenerate: z moves by tau^(3/2) where v does by tau^(1/2)."""
    kernel = ULD(1e-9, 1.0, 3)
    one = rtk.sample(RING, kernel=kernel, segments=SEGMENTS, num_samples=2, seed=0).samples
    other = da.sample(rtk.chain(RING, kernel, SEGMENTS), 2, sampler=Coupled(), seed=0).samples
    assert torch.allclose(one, other, atol=1e-6)


# The law


VARIANCE = 0.5
TARGET = GaussianTarget(variances=torch.full((3,), VARIANCE))
KERNEL = ULD(0.4, 1.0, 3)
START = 3.0


def final_law() -> tuple[float, float]:
    """Mean and variance of what KERNEL makes of TARGET from START, in each coordinate: (z, v, x') is a linear chain.

    A step is worked out from its differential equation, z and v with a gradient g that is held: by the exponential of
    the matrix of (z, v, g), and the noise by that of twice the size (Van Loan).
    """
    gamma, tau = KERNEL.gamma, KERNEL.tau
    flow = torch.tensor([[0.0, 1.0, 0.0], [0.0, -gamma, -1.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    step = torch.linalg.matrix_exp(flow * tau)
    double = torch.zeros(4, 4, dtype=torch.float64)
    double[:2, :2], double[2:, 2:], double[1, 3] = -flow[:2, :2], flow[:2, :2].T, 2 * gamma
    powers = torch.linalg.matrix_exp(double * tau)
    noise = torch.zeros(3, 3, dtype=torch.float64)
    noise[:2, :2] = powers[2:, 2:].T @ powers[:2, 2:]
    x, spread = START, 0.0  # mean and variance of x'
    for time, eta in zip(SEGMENTS.times[1:], SEGMENTS.lengths, strict=True):
        pull = 1 / math.expm1(2 * eta)
        curvature = pull + 1 / (VARIANCE * math.exp(-2 * time) - math.expm1(-2 * time))
        gradient = torch.tensor([curvature, 0.0, -pull * math.exp(eta)], dtype=torch.float64)
        slope = torch.eye(3, dtype=torch.float64)
        slope[:2, :2] = step[:2, :2]
        slope[:2] += step[:2, 2:] * gradient
        begin, scale = KERNEL.begin.coefficients(eta)
        covariance = torch.diag(torch.tensor([scale**2, 1.0, 0.0], dtype=torch.float64))
        from_x = torch.tensor([begin, 0.0, 1.0], dtype=torch.float64)
        mean, covariance = from_x * x, covariance + spread * torch.outer(from_x, from_x)
        for _ in range(KERNEL.steps):
            mean, covariance = slope @ mean, slope @ covariance @ slope.T + noise
        x, spread = float(mean[0]), float(covariance[0, 0])
    return x, spread


def p_value(sampler: Sampler, draws: int = 5_000) -> float:
    """Draw from N(0, I / 2) with few long steps: what they make of it is Gaussian, and known."""
    chain = rtk.chain(TARGET, KERNEL, SEGMENTS, start=torch.full((3,), START))
    samples = da.sample(chain, draws, sampler=sampler, seed=0, max_live=draws).samples
    mean, variance = final_law()
    white = (samples - mean) / variance**0.5
    along = torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64) / 3**0.5
    return combined([normal_p_value(z) for z in [*white.T, white @ along]])


@pytest.mark.parametrize("sampler", [Stepwise(), Block(), Coupled(), Coupled(4, secant=False)], ids=repr)
def test_the_law_with_samplers_that_draft(sampler: Sampler, check: Check) -> None:
    check(p_value(sampler))


def test_the_law_by_recursion(check: Check) -> None:
    check(p_value(Recursive(), 60))


def _towards_x(a: Tensor, b: Tensor, s: Tensor, keep: Tensor, add: Tensor) -> tuple[Tensor, ...]:
    """The quadratic term is centred at x', not at exp(eta) x'."""
    moved = a.clone()
    moved[:2, 2] /= torch.tensor(SEGMENTS.lengths[0]).exp()
    return moved, b, s, keep, add


def _velocity_kept(a: Tensor, b: Tensor, s: Tensor, keep: Tensor, add: Tensor) -> tuple[Tensor, ...]:
    """A segment goes on with the velocity of the one before, and fresh noise on top."""
    kept = keep.clone()
    kept[1, 1] = 1.0
    return a, b, s, kept, add


def _transposed_root(a: Tensor, b: Tensor, s: Tensor, keep: Tensor, add: Tensor) -> tuple[Tensor, ...]:
    """The noise is correlated by the transpose of its root."""
    root = s.clone()
    root[:2] = s[:2].T
    return a, b, root, keep, add


@pytest.mark.parametrize("change", [_towards_x, _velocity_kept, _transposed_root])
def test_a_mutant_is_rejected(change: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("drawahead.rtk.chain")  # the function has its name, too
    segment = module._segment
    monkeypatch.setattr(module, "_segment", lambda *arguments: change(*segment(*arguments)))
    assert p_value(Coupled(), 10_000) < LEVEL


# What it is for


@pytest.mark.parametrize("sampler", [Stepwise(), Block(), Coupled()], ids=repr)
def test_few_rounds_and_every_call_is_counted(sampler: Sampler) -> None:
    score, kernel = rtk.exact(RING), ULD(0.08, 3.0, 60)
    report = da.sample(rtk.chain(score, kernel, Segments.even(2.0, 4), spread=0.5), 6, sampler=sampler, seed=0).report
    assert (report.rounds, report.queries) == (score.calls, score.queries)
    assert report.mean_rounds < 240 / 8


# What is refused


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: rtk.chain(RING, MALA(0.1, 4), SEGMENTS), "kernel must be ULD"),  # type: ignore[arg-type]
    (lambda: rtk.chain(RING, PerSegment(lambda t, eta: MALA(0.1, 4), 4), SEGMENTS), "kernel must be ULD"),
    (lambda: rtk.chain(RING, PerSegment(lambda t, eta: ULD(0.1, 1.0, 3), 4), SEGMENTS), "same number of steps"),
    (lambda: rtk.chain(lambda x, t: -x, ULD(0.1, 1.0, 3), SEGMENTS), "shape="),
    (lambda: rtk.chain(RING, ULD(0.1, 1.0, 3), SEGMENTS, start=torch.zeros(3)), "start must have shape"),
    (lambda: rtk.chain(RING, ULD(0.1, 1.0, 3), SEGMENTS, start=torch.full((2,), torch.nan)), "start must be finite"),
    (lambda: rtk.chain(RING, ULD(0.1, 1.0, 3), SEGMENTS, spread=-1.0), "spread"),
    (lambda: rtk.chain(RING, ULD(0.1, 1.0, 3), UNEVEN, spread=0.0), "spread"),
    (lambda: rtk.chain(RING, ULD(0.1, 1.0, 3), SEGMENTS, spread=torch.inf), "spread"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_score_that_fails_is_named() -> None:
    chain = rtk.chain(rtk.learned(lambda x, t: x[:, :1], (2,)), ULD(0.1, 1.0, 3), SEGMENTS)
    with pytest.raises(SamplingError, match="the score must answer one vector per state"):
        da.sample(chain, 2, seed=0)
