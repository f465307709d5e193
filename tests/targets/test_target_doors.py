"""`rows_at`, `chain_rows` and `path_rows` answer what `rows` answers, for every named target."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import drawahead.oracles.cells as cells_module
from drawahead.oracles.tokens import HIDDEN, CountingOracle, TokenOracle
from drawahead.targets import TARGETS, DenseLogistic, MixtureOfProducts, named

SIZES = {"ising": 3, "table": 6}


@pytest.fixture(params=TARGETS)
def oracle(request: pytest.FixtureRequest) -> TokenOracle:
    return named(request.param, SIZES.get(request.param, 24))


def assert_same(one: Tensor, other: Tensor) -> None:
    assert one.dtype == torch.float64 and one.shape == other.shape
    assert torch.allclose(one, other, atol=1e-12, rtol=0)


def paths(oracle: TokenOracle, r: int, p: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Random arguments of `chain_rows`; the first positions drawn are evidence in half of the sequences."""
    n, generator = oracle.length, torch.Generator().manual_seed(0)
    tokens = torch.randint(oracle.vocab_size, (r, n), generator=generator)
    rank = torch.rand(r, n, generator=generator).argsort(1)
    rank[::2] = (rank[::2] - 3).clamp_min(-1)
    row = torch.randint(r, (p,), generator=generator).sort().values
    row[row == 1] = 2  # a sequence of which nothing is asked
    prefix = torch.randint(n, (p,), generator=generator)
    prefix = prefix[(row * n + prefix).argsort()]
    highest = rank.max(1).values[row]
    prefix = torch.minimum(prefix, highest)
    open_position = torch.rand(p, n, generator=generator).masked_fill(rank[row] < prefix[:, None], -1)
    return tokens, rank, row, prefix, open_position.argmax(1)


@pytest.mark.parametrize("share", [0.1, 0.6, 0.95])
def test_rows_at_equals_rows(oracle: TokenOracle, share: float) -> None:
    n, generator = oracle.length, torch.Generator().manual_seed(1)
    known = torch.rand(30, n, generator=generator) < share
    tokens = torch.where(known, torch.randint(oracle.vocab_size, (30, n), generator=generator), HIDDEN)
    context, position = (tokens == HIDDEN).nonzero(as_tuple=True)
    for few in (len(context), 7):
        some = torch.randperm(len(context), generator=generator)[:few]
        expected = oracle.rows(tokens)[context[some], position[some]]
        assert_same(oracle.rows_at(tokens, context[some], position[some]), expected)


@pytest.mark.parametrize("elements", [1, cells_module.STRETCH_ELEMENTS])
def test_chain_rows_equals_its_default(oracle: TokenOracle, elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells_module, "STRETCH_ELEMENTS", elements)
    arguments = paths(oracle, r=9, p=300)
    assert_same(oracle.chain_rows(*arguments), TokenOracle.chain_rows(oracle, *arguments))
    single = (arguments[0], arguments[1], *(part[:1] for part in arguments[2:]))
    assert_same(oracle.chain_rows(*single), TokenOracle.chain_rows(oracle, *single))
    nothing = (arguments[0], arguments[1], *(part[:0] for part in arguments[2:]))
    assert oracle.chain_rows(*nothing).shape == (0, oracle.vocab_size)


def test_path_rows_equals_chain_rows(oracle: TokenOracle) -> None:
    """As many cells of every path: those of its next steps, and what the last of them says about later ones."""
    n, generator = oracle.length, torch.Generator().manual_seed(2)
    tokens = torch.randint(oracle.vocab_size, (7, n), generator=generator)
    order = torch.rand(7, n, generator=generator).argsort(1)
    rank = order.argsort(1)
    first = torch.arange(7)[:, None] % (n - 4)
    step = first + torch.arange(4)
    prefix = torch.minimum(step, first + 1)
    position = order.gather(1, step)
    table = oracle.path_rows(tokens, rank, prefix, position)
    row = torch.arange(7).repeat_interleave(4)
    cells = (row, prefix.reshape(-1), position.reshape(-1))
    assert table.shape == (7, 4, oracle.vocab_size)
    assert_same(table.view(28, -1), oracle.chain_rows(tokens, rank, *cells))
    assert_same(table.view(28, -1), TokenOracle.chain_rows(oracle, tokens, rank, *cells))
    counting = CountingOracle(oracle)
    assert torch.equal(counting.path_rows(tokens, rank, prefix, position), table)
    assert (counting.calls, counting.queries, counting.passes) == (1, 14, 7)


def test_chain_rows_with_impossible_components() -> None:
    oracle = MixtureOfProducts([0.5, 0.5], [[[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]], [[0.3, 0.7], [1.0, 0.0], [0.1, 0.9]]])
    arguments = paths(oracle, r=9, p=60)
    assert_same(oracle.chain_rows(*arguments).exp(), TokenOracle.chain_rows(oracle, *arguments).exp())


def test_dense_logistic_formula() -> None:
    oracle = DenseLogistic(5, beta=0.8, seed=2)
    field = (oracle.weights[1, 0] * 1 + oracle.weights[1, 3] * -1).item()
    row = oracle.rows(torch.tensor([[1, HIDDEN, HIDDEN, 0, HIDDEN]]))[0, 1]
    assert_same(row.exp(), torch.tensor([-field, field], dtype=torch.float64).sigmoid())
    assert torch.equal(oracle.weights, oracle.weights.T) and not oracle.weights.diagonal().any()
    big = DenseLogistic(400, beta=1.5)
    assert abs(big.weights[big.weights != 0].std().item() * 400**0.5 / 3.0 - 1) < 0.02
    assert_same(DenseLogistic(1).rows(torch.tensor([[HIDDEN]])).exp(), torch.full((1, 1, 2), 0.5, dtype=torch.float64))
