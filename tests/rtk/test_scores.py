"""Scores are gradients of the densities they belong to, energies are theirs too, and every call is counted."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import rtk
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.rtk import LineIntegral
from drawahead.targets import DataSet, GaussianMixture, GaussianTarget, Hypercube
from tests.rtk.laws import GAUSSIAN, MIXTURE, normals

POINTS = torch.tensor([[1.0, 0.0], [-0.5, 2.0], [0.3, -1.0]], dtype=torch.float64)
RING = GaussianMixture(POINTS, torch.tensor([0.3, 0.05, 1.0]), torch.tensor([1.0, 2.0, 0.5]))
DIAGONAL = GaussianTarget(variances=torch.tensor([0.3, 2.0]), mean=torch.tensor([1.0, -1.0]))
KNOWN = {"gaussian": GAUSSIAN, "diagonal": DIAGONAL, "mixture": RING, "mixture in 1-d": MIXTURE}


def states(target: DenoisingTarget, m: int = 64) -> tuple[Tensor, Tensor]:
    """States and times, all different."""
    t = torch.linspace(0.01, 3, m, dtype=torch.float64)
    return 1.5 * normals(m, *target.shape), t


def tweedie(target: DenoisingTarget, x: Tensor, t: Tensor) -> Tensor:
    signal, variance = torch.exp(-t)[:, None], 1 - torch.exp(-2 * t)[:, None]
    return (signal * target.mean(signal / variance * x, (signal**2 / variance)[:, 0]) - x) / variance


@pytest.mark.parametrize("name", KNOWN)
def test_the_closed_form_is_tweedies_formula(name: str) -> None:
    target = KNOWN[name]
    x, t = states(target)
    assert torch.allclose(rtk.exact(target)(x, t), tweedie(target, x, t), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", KNOWN)
def test_the_score_is_the_gradient_of_the_log_density(name: str) -> None:
    score = rtk.exact(KNOWN[name])
    x, t = states(KNOWN[name])
    t[0] = 0.0  # the closed forms go down to the data
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(score.log_density(x, t).sum(), x)
    assert torch.allclose(score(x.detach(), t), gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("target", [Hypercube(2), DataSet(POINTS)], ids=["hypercube", "data set"])
def test_tweedie_where_nothing_else_is_known(target: DenoisingTarget) -> None:
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 2)
    points = GaussianMixture(corners if isinstance(target, Hypercube) else POINTS, 0.0)
    x, t = states(target)
    assert torch.allclose(rtk.exact(target)(x, t), rtk.exact(points)(x, t), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("t", [0.0, 0.3, 2.0])
def test_the_log_density_is_that_of_the_forward_process(t: float) -> None:
    score = rtk.exact(MIXTURE)
    grid = torch.linspace(-10, 10, 4001, dtype=torch.float64)
    at_t = score.log_density(grid[:, None], torch.full_like(grid, t)).exp()
    assert float(torch.trapezoid(at_t, grid)) == pytest.approx(1, abs=1e-10)
    # From t on for another 0.4: X -> exp(-0.4) X + sqrt(1 - exp(-0.8)) g.
    x = torch.linspace(-3, 3, 13, dtype=torch.float64)
    variance = 1 - math.exp(-0.8)
    step = torch.exp(-((x[:, None] - math.exp(-0.4) * grid) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    later = score.log_density(x[:, None], torch.full_like(x, t + 0.4)).exp()
    assert torch.allclose(torch.trapezoid(step * at_t, grid, dim=1), later, rtol=1e-8)


def test_networks_of_other_outputs() -> None:
    x, t = states(RING)
    score = rtk.exact(RING)(x, t)
    spread = (1 - torch.exp(-2 * t))[:, None]

    def epsilon(x: Tensor, t: Tensor) -> Tensor:
        return -spread.sqrt() * score

    def data(x: Tensor, t: Tensor) -> Tensor:
        return (x + spread * score) / torch.exp(-t)[:, None]

    for network in (rtk.from_epsilon(epsilon), rtk.from_data_prediction(data)):
        assert torch.allclose(rtk.learned(network, dtype=torch.float64)(x, t), score)


def test_a_network_is_given_its_shape_and_dtype() -> None:
    seen = []

    def network(x: Tensor, t: Tensor) -> Tensor:
        seen.append((tuple(x.shape), x.dtype, t.dtype))
        return -x

    score = rtk.learned(network, (2, 3))
    x = normals(5, 6)
    assert torch.allclose(score(x, torch.ones(5)), -x, atol=1e-6) and score(x, torch.ones(5)).dtype == torch.float64
    assert seen[0] == ((5, 2, 3), torch.float32, torch.float32)


class TestLineIntegrals:
    def pairs(self, far: float) -> tuple[Tensor, Tensor, Tensor]:
        old = 1.2 * normals(400, 2, seed=3)
        return old, old + far * normals(400, 2, seed=4), torch.full((400,), 0.2, dtype=torch.float64)

    def test_one_exact_value_for_gaussians(self) -> None:
        old, new, t = self.pairs(2.0)
        exact = rtk.exact(DIAGONAL).log_ratio(old, new, t)
        for nodes in (2, 3, 7):
            integral = rtk.exact(DIAGONAL, energy=LineIntegral(nodes)).log_ratio(old, new, t)
            assert torch.allclose(integral.value, exact.value, atol=1e-10)
            assert nodes == 2 or float(integral.error.max()) < 1e-10  # the estimate knows, but from two nodes
        assert float(exact.error.max()) == 0.0

    @pytest.mark.parametrize("far", [0.2, 1.0])
    def test_close_to_exact_ones_and_the_estimate_says_how_close(self, far: float) -> None:
        old, new, t = self.pairs(far)
        exact = rtk.exact(RING).log_ratio(old, new, t).value
        worst = []
        for nodes in (3, 4, 6, 8):
            value, estimate = rtk.exact(RING, energy=LineIntegral(nodes)).log_ratio(old, new, t)
            error = (value - exact).abs()
            worst.append(float(error.max()))
            assert float((estimate >= error).double().mean()) > 0.95  # a bound, nearly always
            assert float(error.mean()) <= float(estimate.mean()) <= 0.5 * float(exact.abs().mean()) + 1e-9
        assert worst == sorted(worst, reverse=True) and worst[-1] < 0.02 * worst[0]

    def test_the_estimate_falls_with_the_nodes(self) -> None:
        old, new, t = self.pairs(1.0)
        few, more = (
            rtk.exact(RING, energy=LineIntegral(nodes)).log_ratio(old, new, t).error.mean() for nodes in (4, 10)
        )
        assert float(more) < 0.02 * float(few)

    def test_its_calls_are_counted_apart(self) -> None:
        asked = []

        def network(x: Tensor, t: Tensor) -> Tensor:
            asked.append(len(x))
            return -x

        score = rtk.learned(network, energy=LineIntegral(5))
        x, t = normals(7, 3), torch.ones(7, dtype=torch.float64)
        score(x, t)
        score.log_ratio(x, 2 * x, t)
        score(x[:2], t[:2])
        assert asked == [7, 35, 2]
        assert (score.calls, score.queries, score.energy_calls, score.energy_queries) == (2, 9, 1, 35)

    def test_so_are_those_of_a_density(self) -> None:
        score = rtk.exact(RING)
        x, t = states(RING, 7)
        score.log_ratio(x, 2 * x, t)
        assert (score.calls, score.energy_calls, score.energy_queries) == (0, 1, 14)


class TestRefusals:
    X, T = torch.zeros(3, 2, dtype=torch.float64), torch.ones(3, dtype=torch.float64)

    def test_answers_of_the_wrong_shape(self) -> None:
        for wrong in (lambda x, t: x[:, :1], lambda x, t: x.sum(), lambda x, t: None):
            with pytest.raises(da.AnswerError, match=r"one vector per state, \(3, 2\)"):
                rtk.learned(wrong)(self.X, self.T)

    def test_answers_that_are_not_numbers(self) -> None:
        with pytest.raises(da.AnswerError, match="NaN or infinity at time 1"):
            rtk.learned(lambda x, t: x / 0)(self.X, self.T)

    def test_states_that_have_run_away(self) -> None:
        with pytest.raises(da.AnswerError, match=r"entries up to inf: .* smaller tau"):
            rtk.exact(RING)(self.X + math.inf, self.T)

    def test_energies_that_are_not_known(self) -> None:
        with pytest.raises(da.InputError, match="energy=LineIntegral"):
            rtk.learned(lambda x, t: x, energy=None).log_ratio(self.X, self.X, self.T)
        with pytest.raises(da.InputError, match="density of Hypercube is not known"):
            rtk.exact(Hypercube(2)).log_density(self.X, self.T)
        with pytest.raises(da.InputError, match="nodes must be at least 2"):
            LineIntegral(1)

    @pytest.mark.parametrize(
        "target", [Hypercube(2), GaussianMixture(POINTS, 0.0), DataSet(POINTS)], ids=["cube", "points", "data"]
    )
    def test_time_zero_where_there_is_no_density(self, target: DenoisingTarget) -> None:
        with pytest.raises(da.InputError, match="end above 0"):
            rtk.exact(target)(self.X, 0 * self.T)
