"""Subsets of a fixed size against enumeration in exact fractions; broken versions are rejected."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, Recursive, Sequential, Stepwise
from drawahead.counting.determinantal import fixed_size
from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN
from drawahead.samplers import Sampler
from drawahead.targets import KDPP
from tests.exactness import LEVEL, draws_for, joint_law, law_p_value, outcomes

Check = Callable[[float], None]
N, K = 7, 3


def gram(n: int = N, rank: int = 5) -> Tensor:
    """Whole numbers, so that fractions can hold the law; two items are the same."""
    vectors = torch.randint(-3, 4, (n, rank), generator=torch.Generator().manual_seed(4)).double()
    vectors[1] = vectors[0]
    return vectors @ vectors.T


def determinant(matrix: list[list[Fraction]]) -> Fraction:
    if not matrix:
        return Fraction(1)
    pivot = matrix[0][0]
    if not pivot:  # a Gram matrix: then the whole line is zero
        return Fraction(0)
    rest = [[row[j] - row[0] * matrix[0][j] / pivot for j in range(1, len(row))] for row in matrix[1:]]
    return pivot * determinant(rest)


@functools.cache
def weights(n: int = N, k: int = K) -> dict[tuple[int, ...], Fraction]:
    """det L_A of every subset of k items."""
    table = gram(n).tolist()
    return {
        chosen: determinant([[Fraction(int(table[i][j])) for j in chosen] for i in chosen])
        for chosen in itertools.combinations(range(n), k)
    }


@functools.cache
def enumerated() -> Tensor:
    """The law (2^n,)."""
    law, total = torch.zeros(2**N, dtype=torch.float64), sum(weights().values())
    for chosen, weight in weights().items():
        law[sum(2 ** (N - 1 - i) for i in chosen)] = float(weight / total)
    return law


def test_the_chain_rule_gives_the_enumerated_law() -> None:
    oracle, law = KDPP(gram(), K), enumerated()
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    for along in (None, order):
        assert torch.allclose(joint_law(oracle, along), law, atol=1e-13, rtol=0)
    atoms = outcomes(N, 2)
    assert torch.allclose(oracle.log_prob(atoms).exp(), law, atol=1e-13, rtol=0)
    assert torch.equal(oracle.possible(atoms), law > 0)
    assert torch.allclose(oracle.marginals, law @ atoms.double(), atol=1e-13)
    assert math.exp(oracle.log_total) == pytest.approx(float(sum(weights().values())))


def test_every_conditional_is_that_of_the_enumeration() -> None:
    oracle, law, atoms = KDPP(gram(), K), enumerated(), outcomes(N, 2)
    tokens = torch.cartesian_prod(*[torch.tensor([HIDDEN, 0, 1])] * N)
    rows = oracle.rows(tokens)
    assert not rows.isnan().any() and torch.allclose(rows.logsumexp(2), torch.zeros(1).double(), atol=1e-12)
    fits = ((tokens[:, None] == HIDDEN) | (tokens[:, None] == atoms)).all(2).double()  # (3^n, 2^n)
    mass = fits @ law
    assert torch.equal(oracle.possible(tokens), mass > 0)
    inside = (fits * law) @ atoms.double() / mass[:, None]
    asked = (tokens == HIDDEN) & (mass > 0)[:, None]
    assert torch.allclose(rows[..., 1].exp()[asked], inside[asked], atol=1e-12, rtol=0)


@pytest.mark.parametrize("sampler", [Sequential(), Stepwise(), Block(), Coupled(), Recursive()], ids=repr)
def test_the_law(sampler: Sampler, check: Check) -> None:
    check(law_p_value(KDPP(gram(), K), enumerated(), sampler, draws_for(sampler) // 5))


def without_the_polynomials(logs: Tensor, wanted: Tensor, k: int) -> Tensor:
    """As if the process had no fixed size: each eigenvector is in on its own, with its share of all of them."""
    return (logs - logs.logsumexp(1, keepdim=True)).exp().nan_to_num(nan=0.0) * wanted[:, None]


def one_too_many(logs: Tensor, wanted: Tensor, k: int) -> Tensor:
    """The polynomials of one item more, scaled to the right sum."""
    more = KEPT(logs, wanted + 1, k + 1)
    return more * (wanted / more.sum(1).clamp(min=1e-300))[:, None]


def blind(logs: Tensor, wanted: Tensor, k: int) -> Tensor:
    """Every eigenvector alike."""
    return torch.full_like(logs, 1 / logs.shape[1]) * wanted[:, None]


KEPT = fixed_size._shares


@pytest.mark.parametrize("mutant", [without_the_polynomials, one_too_many, blind])
def test_mutants_are_rejected(mutant: Callable[[Tensor, Tensor, int], Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed_size, "_shares", mutant)
    assert law_p_value(KDPP(gram(), K), enumerated(), Block(), 4_000) < LEVEL


@pytest.mark.parametrize("k", [1, 12, 24])
def test_every_sample_has_its_size(k: int) -> None:
    oracle = KDPP(torch.eye(24).double() + 1, k)
    result = da.sample(oracle, 6, sampler=Coupled(), seed=0)
    assert bool((result.samples.sum(1) == k).all()) and oracle.items(result.samples).shape == (6, k)
    assert torch.equal(result.samples, da.sample(oracle, 6, sampler=Sequential(), seed=0).samples)
    assert result.report.mean_rounds < 12


def test_evidence() -> None:
    oracle = KDPP(gram(), K)
    evidence = torch.full((N,), HIDDEN)
    evidence[0], evidence[4] = 1, 0
    samples = da.sample(da.TokenChain(oracle, evidence=evidence), 20, seed=0).samples
    assert bool((samples[:, 0] == 1).all()) and not samples[:, [1, 4]].any()  # 1 is the same item as 0
    evidence[1] = 1
    with pytest.raises(InputError, match="probability zero"):
        da.TokenChain(oracle, evidence=evidence)


def test_uneven_eigenvalues_are_exact_or_refused() -> None:
    """Against fractions: 1 and 2^-16 in an orthogonal basis; and what needs digits that float64 has not is refused."""
    turned = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]).double()
    matrix = turned @ torch.diag(torch.tensor([1.0, 1.0, 2.0**-16, 2.0**-16]).double()) @ turned
    table = [[Fraction(value) for value in row] for row in matrix.tolist()]
    weight = {a: determinant([[table[i][j] for j in a] for i in a]) for a in itertools.combinations(range(4), 3)}
    law = torch.zeros(16, dtype=torch.float64)
    for chosen, value in weight.items():
        law[sum(2 ** (3 - i) for i in chosen)] = float(value / sum(weight.values()))
    assert torch.allclose(joint_law(KDPP(matrix, 3)), law, atol=1e-9, rtol=0)
    place = torch.linspace(0, 1, 20, dtype=torch.float64)
    with pytest.raises(InputError, match="too uneven for k = 12"):
        KDPP(torch.exp(-8 * (place[:, None] - place) ** 2) + 1e-9 * torch.eye(20).double(), 12)


def test_guesses_that_are_far_off_stay_finite() -> None:
    """Hundreds of items in, of a smooth kernel whose eigenvalues fall below all digits."""
    place = torch.cartesian_prod(torch.arange(12), torch.arange(12)).double()
    oracle = KDPP(torch.exp(-torch.cdist(place, place).square() / 4.5), 20)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(-1, 2, (40, 144), generator=generator)
    tokens[0], tokens[1], tokens[2] = 1, 0, HIDDEN
    tokens[3, :100] = 1
    rows = oracle.rows(tokens)
    assert not rows.isnan().any() and torch.allclose(rows.logsumexp(2), torch.zeros(1).double(), atol=1e-12)
    assert oracle.possible(tokens).tolist() == [i == 2 for i in range(40)]
    result = da.sample(oracle, 3, sampler=Coupled(), seed=0)
    assert bool((result.samples.sum(1) == 20).all())


@pytest.mark.parametrize(
    ("matrix", "k", "why"),
    [
        (gram(rank=2), 3, "rank 2, so no subset of 3"),
        (torch.zeros(3, 3), 1, "rank 0"),
        (torch.eye(3), 4, "k must be at most 3"),
        (-torch.eye(3), 1, "eigenvalues of L must be at least 0"),
        (torch.ones(2, 3), 1, "square"),
    ],
)
def test_what_is_refused(matrix: Tensor, k: int, why: str) -> None:
    with pytest.raises(InputError, match=why):
        KDPP(matrix, k)
