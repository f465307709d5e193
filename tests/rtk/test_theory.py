"""What the constructors named after theorems choose, how far off that is, and where chains start."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch.special import ndtr

from drawahead import rtk
from drawahead.rtk import (
    MALA,
    ULD,
    CentredStart,
    GaussianStart,
    MarkovKernel,
    Noise,
    ProjectedMALA,
    Segments,
    Start,
)
from tests.rtk.laws import (
    MIXTURE,
    ROWS,
    mixture_case,
)

Check = Callable[[float], None]


class TestTheory:
    EPS = 0.1

    @pytest.mark.parametrize(
        "make", [ULD.from_theory, MALA.from_theory, ProjectedMALA.from_theory], ids=["ULD", "MALA", "ball"]
    )
    def test_the_error_is_at_most_eps(self, make: Callable[[float, int, float], MarkovKernel], check: Check) -> None:
        """In total variation, so in Kolmogorov's distance D: P(D > eps + u) <= 2 exp(-2 n u^2) if it is (Massart)."""
        smoothness = 6.0
        grid = torch.linspace(-6, 6, 2001, dtype=torch.float64)[:, None].requires_grad_()
        score = rtk.exact(MIXTURE)(grid, torch.full((2001,), 0.15, dtype=torch.float64))
        (curvature,) = torch.autograd.grad(score.sum(), grid)
        assert float(curvature.abs().max()) < smoothness
        case = mixture_case(eta=math.log(1 + 1 / (2 * smoothness)) / 2)
        kernel = make(smoothness, 1, self.EPS)
        u = case.uniforms(kernel.draw(case.target, Noise.of_samples(0, ROWS))[0])[0].sort().values
        ranks = torch.arange(ROWS + 1, dtype=torch.float64) / ROWS
        distance = float(torch.maximum(ranks[1:] - u, u - ranks[:-1]).max())
        check(min(1.0, 2 * math.exp(-2 * ROWS * max(0.0, distance - self.EPS) ** 2)))

    def test_what_the_constructors_choose(self) -> None:
        uld = ULD.from_theory(4.0, d=9, eps=0.1, second_moment=16.0)
        log = math.log(2 * 4 * 25 / 0.01)
        assert uld.tau == pytest.approx(0.1 / math.sqrt(9 * 4 * log)) and uld.gamma == 4.0
        assert uld.steps == math.ceil(log / (2 * uld.tau)) and uld.begin == CentredStart()
        mala, ball = (make(4.0, d=9, eps=0.1) for make in (MALA.from_theory, ProjectedMALA.from_theory))
        assert mala.tau == ball.tau == pytest.approx(1 / 108)
        assert mala.steps == ball.steps == math.ceil(27 * (9 * math.log(2) + math.log(10)))
        assert mala.begin == ball.begin == GaussianStart(8.0)

    def test_starts(self) -> None:
        """The start of the theorem on MALA: N(exp(-eta) (2 L + 1) / (4 L) x', I / (4 L)) at its eta."""
        smoothness = 3.0
        eta = math.log(1 + 1 / (2 * smoothness)) / 2
        slope, scale = GaussianStart(2 * smoothness).coefficients(eta)
        assert slope == pytest.approx(math.exp(-eta) * (2 * smoothness + 1) / (4 * smoothness))
        assert scale == pytest.approx(1 / math.sqrt(4 * smoothness))
        assert CentredStart().coefficients(eta) == pytest.approx((0, math.sqrt(math.exp(2 * eta) - 1)))
        assert GaussianStart(1.0).coefficients(eta) == pytest.approx(
            (math.exp(-eta), math.sqrt(1 - math.exp(-2 * eta)))
        )


def test_the_default_start_is_the_closest_when_steps_are_few() -> None:
    """Two steps of MALA in each of many segments: Kolmogorov's distance to the last law, from 2000 samples."""
    smoothness, last = 9.0, 0.05
    segments = Segments.from_smoothness(smoothness, 3.0, last)
    signal = math.exp(-last)
    scale = (signal**2 * MIXTURE.variances + 1 - signal**2).sqrt()

    def distance(begin: Start) -> float:
        kernel = MALA(1 / (3 * smoothness), 2, begin)
        z = rtk.sample(MIXTURE, kernel=kernel, segments=segments, num_samples=2000).samples
        u = (ndtr((z - signal * MIXTURE.means.T) / scale) * MIXTURE.log_weights.softmax(0)).sum(1).sort().values
        return float((u - torch.arange(2000) / 2000).abs().max())

    default, centred, theory = (distance(begin) for begin in (GaussianStart(), CentredStart(), GaussianStart(18.0)))
    assert 3 * default < min(centred, theory)
