"""Noisy oracles are wrong by what they say, always in the same way, and every sampler draws from their law."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, CountingOracle, Coupled, GaussianChain, Noisy, NoisyDenoiser, Sequential, TokenChain
from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.samplers import Sampler
from drawahead.schedules import StochasticLocalization
from drawahead.targets import DPP, DenseLogistic, GaussianTarget, HardCode, Ising, Pairs, Product, Table
from drawahead.verification.statistics import two_sample_vectors
from studies.noise import random_order_law
from tests.exactness import LEVEL, draws_for, law_p_value

Check = Callable[[float], None]
ORACLES: dict[str, TokenOracle] = {
    "masked": Ising(2, 3),
    "one pass, a network": DenseLogistic(6),
    "one pass": DPP.random(6),
    "three tokens": Table.random(4, q=3),
    "certain": HardCode(5, sizes=[3, 2], thresholds=[2, 1]),
}


def shown(oracle: TokenOracle, m: int = 64) -> Tensor:
    """Random masked sequences."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(oracle.vocab_size, (m, oracle.length), generator=generator)
    return torch.where(torch.rand(tokens.shape, generator=generator) < 0.5, tokens, HIDDEN)


def distance(one: Tensor, other: Tensor) -> Tensor:
    return (one.exp() - other.exp()).abs().sum(-1) / 2


@pytest.mark.parametrize("error", [0.0, 1e-4, 0.03, 0.5])
@pytest.mark.parametrize("name", ORACLES)
def test_every_row_is_wrong_by_the_error(name: str, error: float) -> None:
    oracle = ORACLES[name]
    tokens = shown(oracle)
    rows = Noisy(oracle, error).rows(tokens)
    assert torch.allclose(rows.logsumexp(-1), torch.zeros(1, dtype=torch.float64), atol=1e-12)
    off = distance(rows, oracle.rows(tokens))
    assert torch.allclose(off, torch.full_like(off, error), atol=1e-12, rtol=0)


def test_errors_toward_one_token() -> None:
    oracle = Table.random(4, q=3)
    rows, exact = Noisy(oracle, 0.05, toward=2).rows(shown(oracle)).exp(), oracle.rows(shown(oracle)).exp()
    assert bool((rows[..., 2] >= exact[..., 2]).all()) and bool((rows[..., :2] <= exact[..., :2] + 1e-15).all())
    assert float((rows - exact).abs().sum(-1).max()) / 2 == pytest.approx(0.05)
    certain = Product([[0.0, 1.0]])
    assert Noisy(certain, 0.1, toward=1).rows(torch.tensor([[HIDDEN]])).exp().tolist() == [[[0.0, 1.0]]]


@pytest.mark.parametrize("name", ORACLES)
def test_every_door_gives_the_same_error(name: str) -> None:
    oracle = ORACLES[name]
    noisy = Noisy(oracle, 0.1)
    n, tokens = oracle.length, shown(oracle, 12)
    rows = noisy.rows(tokens)
    context, position = (tokens == HIDDEN).nonzero(as_tuple=True)
    assert torch.allclose(noisy.rows_at(tokens, context, position), rows[context, position], atol=1e-12)
    assert torch.equal(noisy.rows(tokens[5:6])[0], rows[5])
    samples = da.sample(oracle, 8, seed=0).samples  # along possible paths
    rank = torch.rand(8, n, generator=torch.Generator().manual_seed(1)).argsort(1)
    rank[::2] = (rank[::2] - 1).clamp_min(-1)
    steps = int(rank.max(1).values.min()) + 1
    prefix = torch.arange(steps).expand(8, -1)
    own = (rank[:, None] == prefix[..., None]).long().argmax(-1)  # (8, steps)
    cells = (samples, rank, torch.arange(8).repeat_interleave(steps), prefix.reshape(-1), own.reshape(-1))
    expected = TokenOracle.chain_rows(noisy, *cells).exp()
    assert torch.allclose(noisy.chain_rows(*cells).exp(), expected, atol=1e-12)
    paths = noisy.path_rows(samples, rank, prefix, own).exp()
    assert torch.allclose(paths.view(-1, oracle.vocab_size), expected, atol=1e-12)


def test_errors_depend_on_everything_in_the_question() -> None:
    oracle = Product(torch.full((40, 2), 0.5, dtype=torch.float64))
    tokens = torch.full((3, 40), HIDDEN)
    tokens[1, 7], tokens[2, 7] = 0, 1
    up = [Noisy(oracle, 0.1, seed).rows(tokens)[..., 1] > -0.69 for seed in (0, 1)]
    rows = [*up[0], *up[1]]
    for i, one in enumerate(rows):
        assert 8 <= int(one.sum()) <= 32  # both directions
        assert all(not torch.equal(one, other) for other in rows[:i])


def test_the_output_is_within_the_bound() -> None:
    for name, oracle in ORACLES.items():
        exact = random_order_law(oracle)
        for error in (0.01, 0.1):
            off = float((random_order_law(Noisy(oracle, error)) - exact).abs().sum()) / 2
            assert 0 < off <= oracle.length * error, name
    constant = Product(torch.tensor([[1.0, 0.0]]).expand(6, 2))
    assert float(random_order_law(Noisy(constant, 0.1))[0]) == pytest.approx(0.9**6)


@pytest.mark.parametrize("sampler", [Block(), Coupled()], ids=repr)
def test_samples_have_the_law_of_the_noisy_oracle(sampler: Sampler, check: Check) -> None:
    noisy = Noisy(Table.random(6), 0.1)
    check(law_p_value(noisy, random_order_law(noisy), sampler, draws_for(sampler)))
    assert law_p_value(noisy, random_order_law(noisy.oracle), sampler, draws_for(sampler)) < LEVEL


def test_coupled_is_sequential_on_a_noisy_oracle() -> None:
    for oracle in (Noisy(Ising(3, 4), 0.1), Noisy(DPP.random(12), 0.1), Noisy(DenseLogistic(12), 0.1)):
        one, other = (da.sample(oracle, 40, sampler=sampler, seed=0).samples for sampler in (Coupled(), Sequential()))
        assert torch.equal(one, other)
        assert torch.equal(da.sample(oracle, 5, sampler=Coupled(), seed=0, max_batch_size=3).samples, other[:5])


def test_what_is_asked_is_counted() -> None:
    counting = CountingOracle(Noisy(DPP.random(12), 0.05))
    report = da.sample(counting, 10, sampler=Block(), seed=0).report
    assert (report.queries, report.passes, report.rounds) == (counting.queries, counting.passes, counting.calls)


def test_impossible_evidence_stays_impossible() -> None:
    with pytest.raises(InputError, match="probability zero"):
        TokenChain(Noisy(Pairs(2), 0.1), evidence=[0, 1])


def zero(x: Tensor, k: Tensor) -> Tensor:
    return torch.zeros_like(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_prediction_is_wrong_by_the_error(dtype: torch.dtype) -> None:
    x = torch.randn(20, 3, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    k = torch.arange(20) % 4
    noisy = NoisyDenoiser(zero, 0.3)
    off = noisy(x, k)
    assert off.shape == x.shape and off.dtype == torch.float64
    assert torch.allclose(off.flatten(1).norm(dim=1), torch.full((20,), 0.3, dtype=torch.float64))
    assert torch.allclose(noisy(x[7:9], k[7:9]), off[7:9], atol=1e-15)
    for other in (noisy(x, k + 1), noisy(x + 1e-6, k), NoisyDenoiser(zero, 0.3, seed=1)(x, k)):
        assert float((other - off).flatten(1).norm(dim=1).min()) > 0.01
    assert float(off.mean(0).norm()) < 0.3  # no direction is preferred
    assert torch.equal(noisy(torch.zeros(1, 2), k[:1]), noisy(-torch.zeros(1, 2), k[:1]))
    assert torch.equal(NoisyDenoiser(zero, 0.0)(x, k), torch.zeros_like(off))


def test_vectors_have_the_law_of_the_noisy_denoiser(check: Check) -> None:
    """Block against Sequential: with 2000 draws of each, a Kolmogorov distance of 0.13 on one line is seen."""
    target = GaussianTarget(variances=[0.2, 1.0])
    schedule = StochasticLocalization(32, radius=target.radius, delta=0.1)
    chain = GaussianChain(NoisyDenoiser(target.denoiser(schedule), 0.5), schedule, target.shape, dtype=torch.float64)
    one, other = (
        da.sample(chain, 2_000, sampler=sampler, seed=seed, max_live=2_000).samples
        for sampler, seed in ((Block(), 0), (Sequential(), 1))
    )
    check(two_sample_vectors(one, other))


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("error must", lambda: Noisy(Pairs(2), 0.6)),
    ("error must", lambda: Noisy(Pairs(2), -0.1)),
    ("error must", lambda: Noisy(Pairs(2), float("nan"))),
    ("one token", lambda: Noisy(Pairs(2, q=1), 0.1)),
    ("toward must", lambda: Noisy(Pairs(2), 0.1, toward=2)),
    ("seed must", lambda: Noisy(Pairs(2), 0.1, seed=0.5)),  # type: ignore[arg-type]
    ("error must", lambda: NoisyDenoiser(zero, -1.0)),
    ("error must", lambda: NoisyDenoiser(zero, float("inf"))),
]


@pytest.mark.parametrize(("words", "make"), REFUSED)
def test_bad_arguments_are_named(words: str, make: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=words):
        make()
