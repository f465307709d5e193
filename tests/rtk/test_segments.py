"""Segments, and the law of each: the reverse transition kernel."""

from __future__ import annotations

import math

import pytest
import torch

import drawahead as da
from drawahead import rtk
from drawahead.rtk import RTKTarget, Segments
from tests.rtk.laws import GAUSSIAN, MIXTURE, gaussian_case, mixture_case, normals


class TestSegments:
    def test_even(self) -> None:
        segments = Segments.even(2.0, 4, last=0.4)
        assert segments.times == pytest.approx((2.0, 1.6, 1.2, 0.8, 0.4)) and len(segments) == 4
        assert segments.times[0] == 2.0 and segments.times[-1] == 0.4
        assert segments.lengths == pytest.approx([0.4] * 4)

    @pytest.mark.parametrize("smoothness", [0.5, 3.0, 140.0])
    def test_from_smoothness(self, smoothness: float) -> None:
        """As few as the longest length allows, at which the quadratic term has curvature 2 L."""
        longest = math.log(1 + 1 / (2 * smoothness)) / 2
        segments = Segments.from_smoothness(smoothness, 3.0, last=0.01)
        assert max(segments.lengths) <= longest * (1 + 1e-9)
        assert 2.99 / (len(segments) - 1) > longest
        target = RTKTarget(rtk.exact(MIXTURE), 0.1, longest, torch.zeros(1, 1))
        assert target.curvature == pytest.approx(2 * smoothness)

    def test_from_theory(self) -> None:
        """K = 4 L log(((1 + L^2) d + |grad f(0)|^2) / eps^2), down to time 0."""
        segments = Segments.from_theory(3.0, d=10, eps=0.1, gradient_at_zero=2.0)
        assert len(segments) == math.ceil(12 * math.log((10 * 10 + 4) / 0.01)) == 111
        assert segments.times[-1] == 0.0
        assert segments.lengths == pytest.approx([math.log(1 + 1 / 6) / 2] * 111)

    @pytest.mark.parametrize(
        "times", [(1.0,), (1.0, 1.0), (0.5, 1.0), (1.0, -0.1), (1.0, math.nan), (math.inf, 1.0), ()]
    )
    def test_times_that_do_not_fall(self, times: tuple[float, ...]) -> None:
        with pytest.raises(da.InputError, match="times"):
            Segments(times)

    def test_numbers_that_make_no_sense(self) -> None:
        with pytest.raises(da.InputError, match="last must be at least 0 and below"):
            Segments.even(1.0, 3, last=1.0)
        with pytest.raises(da.InputError, match="count must be at least 1"):
            Segments.even(1.0, 0)
        with pytest.raises(da.InputError, match="first must be a number above 0"):
            Segments.even(-1.0, 3)
        with pytest.raises(da.InputError, match="smoothness must be a number above 0"):
            Segments.from_smoothness(0.0)
        with pytest.raises(da.InputError, match="eps must be a number above 0"):
            Segments.from_theory(1.0, 2, -0.1)


class TestTheKernel:
    def test_the_gradient_is_that_of_the_formula(self) -> None:
        target = gaussian_case(64).target
        z = normals(64, 3).requires_grad_()
        t = torch.full((64,), target.time, dtype=torch.float64)
        shift = target.x_prime - math.exp(-target.eta) * z
        energy = (shift**2).sum(1) / (2 * (1 - math.exp(-2 * target.eta))) - rtk.exact(GAUSSIAN).log_density(z, t)
        (gradient,) = torch.autograd.grad(energy.sum(), z)
        old, new = z.detach(), normals(64, 3, seed=5)
        assert torch.allclose(target.gradient(old), gradient, rtol=1e-10)
        shift = target.x_prime - math.exp(-target.eta) * new
        after = (shift**2).sum(1) / (2 * (1 - math.exp(-2 * target.eta))) - rtk.exact(GAUSSIAN).log_density(new, t)
        assert torch.allclose(target.energy_difference(old, new).value, after - energy.detach(), rtol=1e-9, atol=1e-9)

    def test_together_with_the_law_at_the_start_it_gives_the_law_at_the_end(self) -> None:
        """p_t(z) = integral of p_{t + eta}(x') p(z | x'), the kernel normalised from its energy differences."""
        time, eta = 0.15, 0.25
        score = rtk.exact(MIXTURE)
        grid = torch.linspace(-9, 9, 1801, dtype=torch.float64)
        origin = torch.zeros(len(grid), 1, dtype=torch.float64)
        at_end = torch.zeros_like(grid)
        spacing = 18 / 1800
        for x in grid[::10].tolist():
            target = RTKTarget(score, time, eta, torch.full((len(grid), 1), x, dtype=torch.float64))
            log = -target.energy_difference(origin, grid[:, None]).value
            kernel = log.softmax(0) / spacing
            at_start = score.log_density(torch.tensor([[x]], dtype=torch.float64), torch.tensor([time + eta]))
            at_end += 10 * spacing * at_start.exp() * kernel
        expected = score.log_density(grid[:, None], torch.full_like(grid, time)).exp()
        assert torch.allclose(at_end, expected, atol=1e-9)

    def test_the_laws_of_these_tests_are_the_laws(self) -> None:
        """What other tests compare with: the density behind `uniforms` is exp(-g)."""
        for case in (mixture_case(64), gaussian_case(64)):
            z = case.exact(0).requires_grad_()
            assert all(bool(((u > 0) & (u < 1)).all()) for u in case.uniforms(z.detach()))
        case = mixture_case(64)
        z, step = case.exact(0), 0.02  # ten cells of its grid
        low, here, high = (case.uniforms(z + shift)[0] for shift in (-step, 0, step))
        slope = ((high - 2 * here + low) / step**2) / ((high - low) / (2 * step))  # (log density)'
        assert torch.allclose(-case.target.gradient(z)[:, 0], slope, rtol=0.01, atol=0.02)

    def test_other_times_can_be_asked(self) -> None:
        target = mixture_case(16).target
        answer = target.score_at(target.x_prime, 0.4)
        assert torch.equal(answer, rtk.exact(MIXTURE)(target.x_prime, torch.full((16,), 0.4, dtype=torch.float64)))
