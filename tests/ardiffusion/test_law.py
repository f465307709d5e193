"""Parts drawn in parallel have the law of parts drawn one after another, and wrong inference is found out."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import ardiffusion as ar
from drawahead import rtk
from tests.ardiffusion.mutants import LANGEVIN_MUTANTS, MUTANTS
from tests.ardiffusion.reference import (
    COVARIANCE,
    LANGEVIN,
    MEAN,
    NUMBER,
    PARTS,
    SCHEDULES,
    SIZE,
    TARGET,
    chain_law,
    langevin_law,
    law_p_value,
    normal_p_value,
)
from tests.exactness import LEVEL, combined

Check = Callable[[float], None]
QUICK: list[da.Sampler] = [da.Sequential(), da.Stepwise(), da.Block(), da.Coupled()]
PAIRS = [(sampler, name) for sampler in QUICK for name in ("ou", "ddpm")]
PAIRS += [(da.Coupled(window=7), "ou"), (da.Coupled(), "localization"), (da.Recursive(), "ou")]


def draws_for(sampler: da.Sampler) -> int:
    return 60 if isinstance(sampler, da.Recursive) else 10_000


@pytest.mark.parametrize(("sampler", "name"), PAIRS, ids=str)
def test_the_law_of_all_parts(sampler: da.Sampler, name: str, check: Check) -> None:
    check(law_p_value(ar.chain(TARGET, SCHEDULES[name]), name, sampler, draws_for(sampler)))


@pytest.mark.parametrize("sampler", [da.Sequential(), da.Block(), da.Coupled()], ids=repr)
def test_the_law_of_langevin_steps(sampler: da.Sampler, check: Check) -> None:
    check(law_p_value(ar.chain(TARGET, LANGEVIN), "langevin", sampler, 5_000))


MANY = [(sampler, name) for sampler in QUICK for name in (*SCHEDULES, "langevin")]
MANY += [(da.Recursive(), name) for name in SCHEDULES]  # the recursion on 36 Langevin steps takes an hour


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "name"), MANY, ids=str)
def test_the_law_of_all_parts_with_ten_times_the_draws(sampler: da.Sampler, name: str, check: Check) -> None:
    chain = ar.chain(TARGET, LANGEVIN if name == "langevin" else SCHEDULES[name])
    check(law_p_value(chain, name, sampler, 10 * draws_for(sampler), seed=1))


@pytest.mark.parametrize("sampler", [da.Block(), da.Coupled()], ids=repr)
def test_paths_are_the_noise_of_one_part_after_another(sampler: da.Sampler, check: Check) -> None:
    """Every step's innovation is standard normal, and no lane moves out of its turn."""
    schedule = SCHEDULES["ou"]
    plan, count = schedule.plan(), len(schedule.plan().a)
    chain = ar.chain(TARGET, schedule, record=range(1, NUMBER * count))
    samples = da.sample(chain, 3_000, sampler=sampler, seed=0, max_live=3_000).samples  # (m, N, K, d)
    xi = []
    for k in range(1, chain.steps):
        before, after, lane, r = samples[:, k - 1], samples[:, k], k // count, k % count
        others = torch.arange(NUMBER) != lane
        assert torch.equal(before[:, others], after[:, others])
        answer = TARGET.mean(before, torch.full((len(before),), lane), plan.signal[[r]], plan.noise[[r]])
        xi.append((after[:, lane] - plan.a[r] * before[:, lane] - plan.b[r] * answer) / plan.s[r])
    white = torch.stack(xi, 1).flatten(1)  # (m, (N - 1) d)
    n = white.shape[1]
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(8, n, dtype=torch.float64, generator=generator)
    along = white @ (direction / direction.norm(dim=1, keepdim=True)).T
    eye = torch.eye(n, dtype=torch.float64)
    check(
        combined(
            [
                normal_p_value(white, torch.zeros(n).double(), eye),
                *(normal_p_value(z[:, None], torch.zeros(1).double(), eye[:1, :1]) for z in along.T),
            ]
        )
    )


@pytest.mark.parametrize("sampler", [da.Sequential(), da.Coupled()], ids=repr)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_rejected(mutant: str, sampler: da.Sampler) -> None:
    assert law_p_value(MUTANTS[mutant]("ou"), "ou", sampler, 10_000) < LEVEL


@pytest.mark.parametrize("mutant", LANGEVIN_MUTANTS)
def test_a_mutant_of_langevin_steps_is_rejected(mutant: str) -> None:
    assert law_p_value(LANGEVIN_MUTANTS[mutant]("langevin"), "langevin", da.Sequential(), 5_000) < LEVEL


def test_one_part_of_langevin_steps_is_what_rtk_draws() -> None:
    """Sample for sample: with one part nothing is left of auto-regression."""
    whole = ar.GaussianParts(COVARIANCE, ar.Parts.undivided((NUMBER * SIZE,)), MEAN)
    usual = da.targets.GaussianTarget(covariance=COVARIANCE, mean=MEAN)
    one = da.sample(ar.chain(whole, LANGEVIN), 20, sampler=da.Sequential(), seed=4).samples
    other = rtk.sample(usual, kernel=LANGEVIN.kernel, segments=LANGEVIN.segments, num_samples=20, seed=4).samples
    assert torch.allclose(one[:, 0], other, atol=1e-9)


@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_the_library_works_the_law_of_langevin_steps_out(spread: float) -> None:
    """Whatever the spread, which is not part of the law."""
    found = ar.law(ar.chain(TARGET, ar.RTK(LANGEVIN.kernel, LANGEVIN.segments, spread)))
    mean, covariance = langevin_law()
    assert torch.allclose(found.mean, mean, atol=1e-9) and torch.allclose(found.covariance, covariance, atol=1e-9)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_library_works_the_same_law_out(name: str) -> None:
    found = ar.law(ar.chain(TARGET, SCHEDULES[name]))
    mean, covariance = chain_law(SCHEDULES[name].plan())
    assert torch.allclose(found.mean, mean, atol=1e-10) and torch.allclose(found.covariance, covariance, atol=1e-10)


def test_fine_steps_come_to_the_data() -> None:
    """The law of the chain goes to the Gaussian itself as its steps become fine."""
    truth = ar.Normal(MEAN, COVARIANCE)
    schedules = [da.OUExponential.even(steps, first=6.0, last=1e-5) for steps in (32, 128, 512)]
    far, near, nearest = (truth.divergence(ar.law(ar.chain(TARGET, schedule))) for schedule in schedules)
    assert far > 8 * near > 64 * nearest and nearest < 1e-3


def test_one_part_is_the_usual_gaussian_target() -> None:
    """With nothing to condition on, the exact answers are those of GaussianTarget, on every schedule."""
    whole = ar.GaussianParts(COVARIANCE, ar.Parts.undivided((NUMBER * SIZE,)), MEAN)
    usual = da.targets.GaussianTarget(covariance=COVARIANCE, mean=MEAN)
    for schedule in SCHEDULES.values():
        one = da.sample(ar.chain(whole, schedule), 50, sampler=da.Sequential(), seed=4).samples
        other = da.sample(da.GaussianChain(usual, schedule), 50, sampler=da.Sequential(), seed=4).samples
        assert torch.allclose(one[:, 0], other, atol=1e-9)


@pytest.mark.parametrize("sampler", QUICK, ids=repr)
def test_a_sample_does_not_depend_on_the_others(sampler: da.Sampler) -> None:
    chain = ar.chain(TARGET, SCHEDULES["ou"])
    many = da.sample(chain, 8, sampler=sampler, seed=5).samples
    few = da.sample(chain, 8, sampler=sampler, seed=5, max_live=3).samples
    assert torch.allclose(many, few, atol=1e-12)
    assert torch.allclose(many[:4], da.sample(chain, 4, sampler=sampler, seed=5).samples, atol=1e-12)


class Counting:
    """Counts what is really asked."""

    def __init__(self) -> None:
        self.queries = 0

    @property
    def parts(self) -> ar.Parts:
        return PARTS

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        self.queries += len(state)
        return TARGET.mean(state, part, signal, noise)


@pytest.mark.parametrize("sampler", QUICK, ids=repr)
def test_rounds_and_queries_are_what_was_asked(sampler: da.Sampler) -> None:
    counting = Counting()
    report = da.sample(ar.chain(counting, da.OUExponential.even(40, last=0.01)), 6, sampler=sampler, seed=0).report
    assert report.steps == NUMBER * 40 and report.queries == counting.queries
    if isinstance(sampler, da.Sequential):
        assert report.rounds == NUMBER * 40
    else:
        assert report.rounds < NUMBER * 40 / 2


def test_windows_reach_beyond_a_part() -> None:
    """Without steps that have no noise, a round may commit the end of one part and the beginning of the next."""
    chain = ar.chain(TARGET, da.OUExponential.even(10, last=0.05))
    report = da.sample(chain, 8, sampler=da.Coupled(window=20), seed=0).report
    ends = [[a for a, b in itertools.pairwise(path) if a < 10 < b] for path in report.progress.values()]
    assert any(ends)
    with_barrier = ar.chain(TARGET, da.DDPM(betas=da.schedules.linear_betas(10, 0.02, 0.5)))
    for path in da.sample(with_barrier, 8, sampler=da.Coupled(window=20), seed=0).report.progress.values():
        assert not any(a < 9 < b - 1 for a, b in itertools.pairwise(path))


def test_samples_are_joined() -> None:
    parts = ar.Parts((2, 4), (1, 2))  # two patches side by side
    target = ar.GaussianParts(torch.eye(8), parts, torch.arange(8))
    result = ar.sample(target, 200, inner=da.OUExponential.even(40), sampler=da.Coupled(), seed=0)
    assert result.samples.shape == (200, 2, 4)
    expected = torch.tensor([[0.0, 1, 4, 5], [2, 3, 6, 7]]).double()
    assert (result.samples.mean(0) - expected).abs().max() < 0.5
