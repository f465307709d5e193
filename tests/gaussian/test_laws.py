"""Gaussian one-step laws against arithmetic in 50 digits, and their draws against closed forms."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import mpmath
import pytest
import torch
from mpmath import mpf
from torch import Tensor
from torch.special import log_ndtr, ndtr

import drawahead as da
from drawahead import Gaussian, GaussianChain
from drawahead.laws.gaussian import _mass, _residual_quantile, _threshold
from drawahead.randomness import Purpose, Stream
from drawahead.verification.statistics import chi_square
from tests.exactness import combined
from tests.gaussian.reference import Walk, normal_p_value, path_p_value
from tests.instances import PLAIN

Check = Callable[[float], None]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.05, 0.0999, 0.1, 0.1001, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3]
LOG_WEIGHTS = [0.0, -1e-12, -1e-6, -1e-3, -0.1, -5.0, -1.0, -50.0]
DRAWS = 8_000
FLOOR = 1e-20
"""A residual with less mass than this is never drawn from, and its mass is compared with 1 - p, which is far larger."""


def exact_tail(z: mpf, delta: float, log_weight: float) -> mpf:
    """G(z) = p Phi(delta - z) - Phi(-z)."""
    return mpmath.exp(mpf(log_weight)) * mpmath.ncdf(mpf(delta) - z) - mpmath.ncdf(-z)


def exact_threshold(delta: float, log_weight: float) -> mpf:
    return mpf(delta) / 2 - mpf(log_weight) / mpf(delta)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("delta", DELTAS)
def test_the_residual_mass_in_fifty_digits(delta: float) -> None:
    with mpmath.workdps(70):  # of which 50 are left after cancellation
        for log_weight in LOG_WEIGHTS:
            truth = exact_tail(exact_threshold(delta, log_weight), delta, log_weight)
            ours = float(_mass(column(delta), column(log_weight)))
            assert abs(ours - truth) <= 1e-10 * truth + FLOOR, (delta, log_weight, ours, float(truth))


@pytest.mark.parametrize("delta", DELTAS)
def test_the_residual_quantile_in_fifty_digits(delta: float) -> None:
    """G(z) / G(c) is the uniform that the draw was made from, to eight digits in its tail."""
    normals = [-5.0, -1.0, 0.0, 2.0, 5.0]
    with mpmath.workdps(70):
        for log_weight, normal in itertools.product(LOG_WEIGHTS[::2], normals):
            c = exact_threshold(delta, log_weight)
            mass = exact_tail(c, delta, log_weight)
            if mass < 10 * FLOOR * min(delta, 1):
                continue
            z = float(_residual_quantile(column(delta), column(log_weight), column(normal)))
            assert z >= float(c) * (1 - 1e-15)
            share, goal = exact_tail(mpf(z), delta, log_weight) / mass, mpmath.ncdf(-mpf(normal))
            # a float64 z cannot be placed better than its own rounding, times the density
            slack = 4e-16 * max(1.0, abs(z)) * (1 + abs(z)) * 10 + FLOOR / mass
            assert abs(share - goal) <= (1e-8 * goal if goal < 0.5 else 1e-11) + slack, (delta, log_weight, normal, z)


def test_the_mass_of_a_whole_residual_is_the_total_variation() -> None:
    delta = torch.tensor(DELTAS, dtype=torch.float64)
    assert torch.allclose(_mass(delta, torch.zeros_like(delta)), torch.special.erf(delta / 8**0.5), rtol=1e-10)


def test_equal_laws_have_no_residual() -> None:
    law = Gaussian(torch.ones(2, 3, 4, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64))
    log_weight = torch.tensor([[0.0, -1.0, -700.0]] * 2, dtype=torch.float64)
    assert not law.residual_mass(law, log_weight).any()
    noise = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(law.draw_residual(law, log_weight, noise), law.draw(noise))
    values, keep = law.couple(law, law.draw(noise), noise, torch.full((2, 3), 0.999, dtype=torch.float64))
    assert keep.all() and torch.equal(values, law.draw(noise))


def pair(delta: float, d: int, scale: float = 2.0) -> tuple[Gaussian, Gaussian, Tensor]:
    """Target and draft, delta standard deviations apart in no special direction, in DRAWS rows; and e."""
    generator = torch.Generator().manual_seed(d)
    e = torch.randn(d, dtype=torch.float64, generator=generator)
    e /= e.norm()
    centre = torch.randn(d, dtype=torch.float64, generator=generator)
    scales = torch.full((DRAWS, 1), scale, dtype=torch.float64)
    draft = Gaussian(centre.expand(DRAWS, 1, d), scales)
    return Gaussian((centre + delta * scale * e).expand(DRAWS, 1, d), scales), draft, e


def noise(law: Gaussian, purpose: Purpose) -> Tensor:
    stream = Stream.of_samples(3, torch.arange(DRAWS))
    return law.noise(stream, purpose, torch.zeros(DRAWS, 1, dtype=torch.int64))


@pytest.mark.parametrize(
    ("delta", "log_weight", "d"),
    [
        (1e-9, 0.0, 2),
        (1e-6, -1e-6, 3),
        (0.05, 0.0, 1),
        (0.05, -0.1, 2),
        (0.8, -0.7, 3),
        (4.0, -3.0, 1),
        (50.0, 0.0, 2),
        (1e3, -3.0, 3),
    ],
)
def test_draws_from_the_residual(delta: float, log_weight: float, d: int, check: Check) -> None:
    """Along e the closed form, across e the draft's own law, and both independent."""
    target, draft, e = pair(delta, d)
    weight = torch.full((DRAWS, 1), log_weight, dtype=torch.float64)
    values = target.draw_residual(draft, weight, noise(target, Purpose.CORRECT))
    white = (values[:, 0] - draft.mean[:, 0]) / 2.0
    z = white @ e
    with mpmath.workdps(60):  # the distribution function at a few points, interpolated by cells
        edges = sorted(float(_residual_quantile(column(delta), column(log_weight), column(g))) for g in _NORMALS)
        c = exact_threshold(delta, log_weight)
        tails = [1, *(exact_tail(mpf(v), delta, log_weight) / exact_tail(c, delta, log_weight) for v in edges), 0]
        law = torch.tensor([float(high - low) for high, low in itertools.pairwise(tails)], dtype=torch.float64)
    assert (z >= float(_threshold(column(delta), column(log_weight))) - 1e-9 * (1 + delta)).all()
    cells = torch.bucketize(z, torch.tensor(edges, dtype=torch.float64))
    p_values = [chi_square(torch.bincount(cells, minlength=len(law)), law)]
    if d > 1:
        across = torch.linalg.svd(e[None]).Vh[1:]  # an orthonormal basis of what is orthogonal to e
        rest = white @ across.T
        far = cells >= len(law) // 2
        p_values += [normal_p_value(rest[part, i]) for i in range(d - 1) for part in (far, ~far)]
    check(combined(p_values))


_NORMALS = torch.special.ndtri(torch.arange(1, 40, dtype=torch.float64) / 40).tolist()


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("delta", [1e-9, 0.1, 1.0, 3.0, 40.0])
def test_the_reflection_coupling(delta: float, d: int, check: Check) -> None:
    """The target's law, and agreement as often as any coupling can: 2 Phi(-delta / 2)."""
    target, draft, _ = pair(delta, d)
    xi = noise(target, Purpose.VALUE)
    uniform = Stream.of_samples(3, torch.arange(DRAWS)).uniform(Purpose.ACCEPT, torch.zeros(DRAWS, 1).long())
    guess = draft.draw(xi)
    values, keep = target.couple(draft, guess, xi, uniform)
    assert torch.equal(values[keep], guess[keep]) and (delta < 1e-6 or not (values == guess).all(-1)[~keep].any())
    white = (values - target.mean) / 2.0
    agreement = float(2 * ndtr(torch.tensor(-delta / 2, dtype=torch.float64)))
    law = torch.tensor([1 - agreement, agreement], dtype=torch.float64)
    counts = torch.bincount(keep.flatten().long(), minlength=2)
    check(combined([path_p_value(white), 1.0 if agreement in (0.0, 1.0) else chi_square(counts, law)]))


def test_the_log_ratio_of_values() -> None:
    target, draft, e = pair(1.3, 3)
    value = target.draw(noise(target, Purpose.VALUE))

    def log_density(law: Gaussian) -> Tensor:
        return -((value - law.mean) ** 2).sum(-1) / 8

    assert torch.allclose(target.log_ratio(draft, value), log_density(target) - log_density(draft), atol=1e-12)
    assert float((target.mean - draft.mean)[0, 0] @ e) == pytest.approx(2.6)
    assert torch.allclose(target.gap(draft), torch.full((DRAWS, 1), 1.3 / 3**0.5, dtype=torch.float64))


def test_a_tiny_difference_is_not_lost() -> None:
    """1e-12 standard deviations apart: the log ratio keeps its digits, and rejections are as rare as they should be."""
    scale = torch.full((1, 1), 1.0, dtype=torch.float64)
    draft = Gaussian(torch.zeros(1, 1, 2, dtype=torch.float64), scale)
    target = Gaussian(torch.tensor([[[1e-12, 0.0]]], dtype=torch.float64), scale)
    assert float(target.log_ratio(draft, column(0.5, 2.0).view(1, 1, 2))) == pytest.approx(5e-13, rel=1e-10)
    mass = float(target.residual_mass(draft, torch.zeros(1, 1, dtype=torch.float64)))
    assert mass == pytest.approx(1e-12 * 0.3989422804014327, rel=1e-10)
    assert float(log_ndtr(torch.tensor(-5.0, dtype=torch.float64))) == pytest.approx(-15.064998, rel=1e-6)


def test_a_point_mass_draws_its_mean() -> None:
    mean = torch.tensor([[[0.1, 1e300, -3.0]]], dtype=torch.float64)
    law = Gaussian(mean, torch.zeros(1, 1, dtype=torch.float64))
    assert torch.equal(law.draw(torch.full_like(mean, 1e3)), mean)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_any_float_dtype_will_do(sampler: da.Sampler, dtype: torch.dtype) -> None:
    """The denoiser works in its own precision; what it answers is the law, and is handled in float64."""
    seen = set()

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        seen.add(x.dtype)
        return torch.tanh(x).to(dtype)

    chain = GaussianChain(denoiser, Walk((1.0, 0.5, 0.7, 0.3)), (2, 2), dtype=dtype)
    result = da.sample(chain, 5, sampler=sampler, seed=0)
    assert seen == {dtype} and result.samples.dtype == dtype and result.samples.shape == (5, 2, 2)
    assert result.samples.isfinite().all()
