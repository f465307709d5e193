"""The p-values against scipy's, and what the functions refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from scipy import stats

from drawahead.errors import InputError
from drawahead.verification.statistics import (
    chi_square,
    kolmogorov,
    same_law,
    two_sample,
    two_sample_kolmogorov,
    two_sample_vectors,
)


def test_chi_square_is_pearsons() -> None:
    probabilities = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    for counts in ([10, 20, 30, 40], [15, 15, 35, 35], [30, 20, 10, 40], [400, 100, 100, 400]):
        expected = stats.chisquare(counts, (probabilities * sum(counts)).numpy()).pvalue
        assert chi_square(torch.tensor(counts), probabilities) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_small_cells_are_pooled() -> None:
    probabilities = torch.tensor([0.01, 0.02, 0.03, 0.44, 0.5], dtype=torch.float64)
    counts = torch.tensor([4, 1, 2, 43, 50])  # expected 1, 2, 3: one cell of 6
    expected = stats.chisquare([7, 43, 50], [6.0, 44.0, 50.0]).pvalue
    assert chi_square(counts, probabilities) == pytest.approx(expected)
    probabilities = torch.tensor([0.01, 0.02, 0.17, 0.8], dtype=torch.float64)  # 1 and 2 need the 17
    expected = stats.chisquare([25, 75], [20.0, 80.0]).pvalue
    assert chi_square(torch.tensor([1, 2, 22, 75]), probabilities) == pytest.approx(expected)


def test_an_impossible_outcome_fails_at_once() -> None:
    probabilities = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    assert chi_square(torch.tensor([500_000, 500_000, 1]), probabilities) == 0.0
    assert chi_square(torch.tensor([500_000, 500_000, 0]), probabilities) == 1.0


def test_a_single_possible_outcome_agrees() -> None:
    assert chi_square(torch.tensor([7, 0]), torch.tensor([1.0, 0.0])) == 1.0
    assert chi_square(torch.tensor([7]), torch.tensor([1.0])) == 1.0
    assert two_sample(torch.zeros(5, 3, dtype=torch.long), torch.zeros(9, 3, dtype=torch.long)) == 1.0


def test_kolmogorov_tails() -> None:
    generator = torch.Generator().manual_seed(0)
    for size, power in ((2000, 1.0), (2000, 1.1), (5000, 1.2), (20000, 1.05)):
        u = torch.rand(size, dtype=torch.float64, generator=generator) ** power
        assert kolmogorov(u) == pytest.approx(stats.kstest(u.numpy(), "uniform").pvalue, rel=0.1)
        v = torch.rand(size // 2, dtype=torch.float64, generator=generator)
        expected = stats.ks_2samp(u.numpy(), v.numpy(), method="asymp").pvalue
        assert two_sample_kolmogorov(u, v) == pytest.approx(expected, rel=0.15)
    assert kolmogorov(torch.arange(1000) / 999) == 1.0


def test_whole_outcomes_are_a_homogeneity_test() -> None:
    first = torch.tensor([[0, 1]] * 30 + [[1, 1]] * 70)
    second = torch.tensor([[0, 1]] * 90 + [[1, 1]] * 60 + [[0, 0]] * 50)
    expected = stats.chi2_contingency([[30, 70, 0], [90, 60, 50]], correction=False).pvalue
    assert two_sample(first, second) == pytest.approx(expected)


def test_vectors_are_compared_along_lines() -> None:
    vectors = torch.randn(4000, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    one, other = vectors[:2000], vectors[2000:]
    assert same_law(one, other) == two_sample_vectors(one, other) > 1e-3
    shifted = other.clone()
    shifted[:, 1, 2] += 0.3
    assert same_law(one, shifted) < 1e-9
    assert same_law(one, 1.2 * other) < 1e-9  # only the distance from the mean shows it clearly
    assert same_law(one[:, :1, :1], other[:, :1, :1]) > 1e-3
    tokens = torch.tensor([[0, 1]] * 50)
    assert same_law(tokens, tokens) == two_sample(tokens, tokens) == 1.0


def test_two_sample_tells_tokens_apart_whatever_their_names() -> None:
    generator = torch.Generator().manual_seed(1)
    samples = torch.randint(2, (400, 30), generator=generator)
    far = torch.where(samples == 1, 10**12, -5)
    assert two_sample(samples[:200], samples[200:]) == two_sample(far[:200], far[200:])
    assert two_sample(samples, far) < 1e-50


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("one size", lambda: chi_square(torch.tensor([1, 2]), torch.tensor([1.0]))),
        ("not proportions", lambda: chi_square(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.5]))),
        ("not proportions", lambda: chi_square(torch.tensor([0, 0]), torch.tensor([0.5, 0.5]))),
        ("not proportions", lambda: chi_square(torch.tensor([-1, 2]), torch.tensor([0.5, 0.5]))),
        ("sum to 1", lambda: chi_square(torch.tensor([1, 2]), torch.tensor([0.5, 0.6]))),
        ("sum to 1", lambda: chi_square(torch.tensor([1, 2]), torch.tensor([float("nan"), 0.6]))),
        ("integers", lambda: two_sample(torch.rand(3, 2), torch.rand(3, 2))),
        ("integers", lambda: two_sample(torch.zeros(3).long(), torch.zeros(3).long())),
        ("integers", lambda: two_sample(torch.zeros(0, 2).long(), torch.zeros(3, 2).long())),
        ("same length", lambda: two_sample(torch.zeros(3, 2).long(), torch.zeros(3, 3).long())),
        ("between 0 and 1", lambda: kolmogorov(torch.tensor([0.5, 1.5]))),
        ("between 0 and 1", lambda: kolmogorov(torch.tensor([]))),
        ("one size", lambda: two_sample_vectors(torch.rand(3, 2), torch.rand(3, 3))),
        ("NaN", lambda: two_sample_kolmogorov(torch.tensor([0.5, float("nan")]), torch.tensor([0.5]))),
    ],
)
def test_bad_arguments_are_named(words: str, call: Callable[[], float]) -> None:
    with pytest.raises(InputError, match=words):
        call()
