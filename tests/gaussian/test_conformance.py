"""Every exact sampler on every schedule: states and whole paths against the law of the discretised chain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import drawahead as da
from drawahead import GaussianChain, Recursive
from drawahead.samplers import Sampler
from drawahead.targets import GaussianTarget, Hypercube
from drawahead.verification.statistics import kolmogorov
from tests.exactness import combined
from tests.gaussian.reference import (
    GRID,
    MEAN,
    NONLINEAR,
    SCHEDULES,
    VARIANCES,
    draws_for,
    final_cdf,
    innovations,
    linear_chain,
    linear_chain_p_value,
    linear_moments,
    nonlinear_p_value,
    normal_p_value,
    path_p_value,
    states,
    whole,
)
from tests.instances import PLAIN, VARIANTS

Check = Callable[[float], None]
QUICK = [variant for variant in VARIANTS if not isinstance(variant, Recursive)]
ANY_WINDOW = [variant for variant in QUICK if getattr(variant, "window", None) is None]
PAIRS = [(sampler, name) for sampler in ANY_WINDOW for name in SCHEDULES]
PAIRS += [
    (sampler, "localization" if getattr(sampler, "pipelined", True) else "euler")
    for sampler in QUICK
    if sampler not in ANY_WINDOW
]
PAIRS += [(Recursive(), "localization"), (Recursive(), "ddpm")]  # the others are slow
WINDOWED = [sampler for sampler in PLAIN if not isinstance(sampler, Recursive)]


@pytest.mark.parametrize(("sampler", "name"), PAIRS, ids=str)
def test_the_law_of_a_linear_chain(sampler: Sampler, name: str, check: Check) -> None:
    check(linear_chain_p_value(name, sampler, draws_for(sampler)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("sampler", [*ANY_WINDOW, Recursive()], ids=repr)
def test_the_law_of_a_linear_chain_with_ten_times_the_draws(sampler: Sampler, name: str, check: Check) -> None:
    check(linear_chain_p_value(name, sampler, draws_for(sampler, slow=True), seed=1))


@pytest.mark.parametrize("name", NONLINEAR)
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_the_law_of_a_chain_on_the_line(sampler: Sampler, name: str, check: Check) -> None:
    """Where nothing is Gaussian, against numerical quadrature."""
    check(nonlinear_p_value(name, sampler, draws_for(sampler)))


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_the_paths_of_a_chain_in_three_dimensions(sampler: Sampler, check: Check) -> None:
    covariance = torch.tensor([[3.0, 1.2, 0.0], [1.2, 1.0, -0.4], [0.0, -0.4, 0.5]], dtype=torch.float64)
    chain = whole(GaussianTarget(covariance=covariance), da.StochasticLocalization(5, radius=2.0, delta=0.1))
    draws = draws_for(sampler) if not isinstance(sampler, Recursive) else 150
    check(path_p_value(innovations(chain, da.sample(chain, draws, sampler=sampler, seed=0, max_live=draws).samples)))


@pytest.mark.parametrize("sampler", WINDOWED, ids=repr)
def test_windows_that_adapt(sampler: Sampler, check: Check) -> None:
    """Long enough for windows to change: 40 steps on the corners of a cube."""
    chain = whole(Hypercube(3), da.StochasticLocalization(40, delta=0.02))
    check(path_p_value(innovations(chain, da.sample(chain, 2000, sampler=sampler, seed=0, max_live=2000).samples)))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_very_short_chains(sampler: Sampler, steps: int, check: Check) -> None:
    schedule = da.StochasticLocalization(steps, radius=2.0, delta=0.05)
    chain, draws = GaussianChain(GaussianTarget(variances=VARIANCES, mean=MEAN), schedule), draws_for(sampler)
    result = da.sample(chain, draws, sampler=sampler, seed=0, max_live=draws)
    moments = linear_moments(chain.plan)
    z = (result.samples / chain.plan.final - moments.mean[-1]) / moments.variance[-1].sqrt()
    check(combined([normal_p_value(column) for column in (*z.T, (z[:, 0] + z[:, 1]) / 2**0.5)]))
    assert max(result.report.sample_rounds) <= 2 * steps or isinstance(sampler, Recursive)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_samples_that_wait_for_room(sampler: Sampler, check: Check) -> None:
    """Those that finish early make room: were the choice to depend on their values, the law would show it."""
    chain, draws = linear_chain("euler"), 200 if isinstance(sampler, Recursive) else 3_000
    samples = da.sample(chain, draws, sampler=sampler, seed=0, max_live=draws // 3).samples
    check(path_p_value(innovations(chain, samples)))


def test_the_check_on_the_line_knows_its_law() -> None:
    """The quadrature agrees with the closed form where there is one."""
    target = GaussianTarget(variances=torch.tensor([2.0]), mean=torch.tensor([0.7]))
    for schedule in (da.StochasticLocalization(4, delta=0.2), da.OUExponential.even(4, first=1.0, last=0.2)):
        chain = whole(target, schedule)
        moments = linear_moments(chain.plan, target.centre, target.spectrum)
        points = torch.linspace(-10, 20, 301, dtype=torch.float64)
        truth = torch.special.ndtr((points - moments.mean[-1]) / moments.variance[-1].sqrt())
        assert (final_cdf(chain, points, GRID) - truth).abs().max() < 1e-9


def test_innovations_are_the_noise(check: Check) -> None:
    """Of the sequential sampler they are standard normals; of a path that is not a path of the chain they are not."""
    chain = linear_chain("localization")
    samples = da.sample(chain, 2000, sampler=da.Sequential(), seed=0).samples
    xi = innovations(chain, samples)
    assert xi.shape == (2000, 6, 2) and states(chain, samples).shape == (2000, 6, 2)
    assert path_p_value(xi * 1.2) < 1e-6 and path_p_value(xi.roll(1, 0) * 0 + xi[:, :1]) < 1e-6
    check(kolmogorov(torch.special.ndtr(xi.flatten())))
