"""The helpers are calibrated: quiet when the laws agree, loud when they differ by what the table promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from drawahead.oracles.tokens import HIDDEN
from drawahead.targets import DenseLogistic, Pairs, Table
from drawahead.verification.statistics import (
    chi_square,
    kolmogorov,
    two_sample,
    two_sample_kolmogorov,
    two_sample_vectors,
)
from tests.exactness import CHECKS, LEVEL, averaged_law, joint_law, outcome_counts, outcomes

Check = Callable[[float], None]


def draw(law: Tensor, shape: tuple[int, ...], seed: int) -> Tensor:
    """Cells drawn from `law` by torch's own generator."""
    generator = torch.Generator().manual_seed(seed)
    size = int(torch.tensor(shape).prod())
    return torch.multinomial(law, size, replacement=True, generator=generator).view(shape)


def uneven_law(cells: int) -> Tensor:
    """A law whose smallest cells need pooling."""
    return torch.linspace(0.05, 4, cells, dtype=torch.float64).exp().softmax(0) * 0.5 + 0.5 / cells


def shifted(law: Tensor, distance: float) -> Tensor:
    """The law at this total variation that Pearson's statistic sees least of all: cells changed in proportion."""
    order = law.argsort()
    sign = torch.empty_like(law)
    sign[order] = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(len(law))[: len(law)]
    change = law * sign
    change = torch.where(change > 0, change / change[change > 0].sum(), change / -change[change < 0].sum())
    return law + distance * change


def test_chi_square_p_values_are_uniform(check: Check) -> None:
    law = uneven_law(81)
    cells = draw(law, (1500, 4000), seed=0)
    check(kolmogorov(torch.tensor([chi_square(torch.bincount(row, minlength=81), law) for row in cells])))


def test_whole_outcome_p_values_are_uniform(check: Check) -> None:
    cells = outcomes(3, 3)[draw(uneven_law(27), (1500, 1000), seed=1)]  # (repetitions, draws, 3)
    check(kolmogorov(torch.tensor([two_sample(part[:400], part[400:]) for part in cells])))


def test_small_table_p_values_are_seldom_small(check: Check) -> None:
    """Bonferroni is conservative: p below 0.1 at most a tenth of the time."""
    samples = torch.randint(3, (300, 200, 20), generator=torch.Generator().manual_seed(2))
    below = sum(two_sample(part[:100], part[100:]) < 0.1 for part in samples)
    tail = torch.distributions.Binomial(300, torch.tensor(0.1)).log_prob(torch.arange(below, 301.0)).exp().sum()
    check(float(tail))


def test_vector_p_values_are_seldom_small(check: Check) -> None:
    vectors = torch.randn(300, 300, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(10))
    below = sum(two_sample_vectors(part[:100], part[100:]) < 0.1 for part in vectors)
    tail = torch.distributions.Binomial(300, torch.tensor(0.1)).log_prob(torch.arange(below, 301.0)).exp().sum()
    check(float(tail))


def test_kolmogorov_p_values_are_uniform(check: Check) -> None:
    u = torch.rand(2000, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    check(kolmogorov(torch.tensor([kolmogorov(row) for row in u])))


def test_two_sample_kolmogorov_p_values_are_uniform(check: Check) -> None:
    u = torch.rand(1000, 3000, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    p_values = torch.tensor([two_sample_kolmogorov(row[:1000], row[1000:]) for row in u])
    check(kolmogorov(p_values))


@pytest.mark.parametrize(("draws", "cells", "distance"), [(2_000, 81, 0.128), (20_000, 81, 0.041), (20_000, 243, 0.05)])
def test_the_power_is_what_the_table_says(draws: int, cells: int, distance: float) -> None:
    law = torch.full((cells,), 1 / cells, dtype=torch.float64)
    other = shifted(law, distance)
    assert abs(float((law - other).abs().sum()) / 2 - distance) < 1e-12
    samples = draw(other, (200, draws), seed=5)
    rejected = sum(chi_square(torch.bincount(row, minlength=cells), law) < LEVEL for row in samples)
    assert rejected >= 190  # 198 expected
    fair = draw(law, (200, draws), seed=6)
    assert all(chi_square(torch.bincount(row, minlength=cells), law) >= LEVEL for row in fair)


def test_two_sample_power() -> None:
    """What `two_sample` sees in 5000 draws: a law at total variation 0.1, and a correlation of 0.15 in long ones."""
    law = uneven_law(27)
    atoms = outcomes(3, 3)
    one, other = draw(law, (5000,), seed=7), draw(shifted(law, 0.1), (5000,), seed=8)
    assert two_sample(atoms[one], atoms[other]) < LEVEL
    generator = torch.Generator().manual_seed(9)
    free = torch.randint(2, (5000, 40), generator=generator)
    tied = torch.randint(2, (5000, 40), generator=generator)
    tied[:, 8] = torch.where(torch.rand(5000, generator=generator) < 0.15, tied[:, 7], tied[:, 8])
    assert two_sample(free, tied) < LEVEL <= two_sample(free[:2500], free[2500:])


def test_the_enumerated_law() -> None:
    table = Table.random(4, 3, seed=2)
    assert torch.allclose(joint_law(table), table.joint)
    assert torch.allclose(joint_law(table, torch.tensor([2, 0, 3, 1])), table.joint)
    assert torch.allclose(averaged_law(table), table.joint)
    evidence = torch.tensor([HIDDEN, 2, HIDDEN, 0])
    inside = (outcomes(4, 3)[:, [1, 3]] == evidence[[1, 3]]).all(1)
    expected = torch.where(inside, table.joint, 0) / table.joint[inside].sum()
    assert torch.allclose(joint_law(table, evidence=evidence), expected)
    assert joint_law(Pairs(4)).tolist() == [0.25 * (a == b and c == d) for a, b, c, d in outcomes(4, 2).tolist()]


def test_the_enumerated_law_of_inconsistent_conditionals_depends_on_the_order() -> None:
    dense = DenseLogistic(4, beta=2.0)
    one, other = joint_law(dense, torch.tensor([0, 1, 2, 3])), joint_law(dense, torch.tensor([3, 1, 0, 2]))
    assert abs(float(one.sum()) - 1) < 1e-12 and abs(float(other.sum()) - 1) < 1e-12
    assert float((one - other).abs().sum()) / 2 > 0.05


def test_outcome_counts_follow_the_lexical_order() -> None:
    samples = torch.tensor([[0, 2], [1, 0], [1, 0], [2, 2]])
    counts = outcome_counts(samples, 3)
    assert counts.tolist() == [0, 0, 1, 2, 0, 0, 0, 0, 1]
    assert outcomes(2, 3)[counts > 0].tolist() == [[0, 2], [1, 0], [2, 2]]


def test_the_budget_is_not_exceeded(request: pytest.FixtureRequest) -> None:
    spending = [item for item in request.session.items if "check" in getattr(item, "fixturenames", ())]
    assert len(spending) <= CHECKS


def test_a_check_is_made_once(check: Check) -> None:
    check(LEVEL)
    with pytest.raises(AssertionError, match="one stochastic check"):
        check(1.0)


def test_a_small_p_value_fails(check: Check) -> None:
    with pytest.raises(AssertionError, match="do not have their law"):
        check(LEVEL / 2)
