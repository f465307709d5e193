"""The same noise gives the same sample: whatever the window, the batch, the order of rounds or the company."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, Recursive, Sequential, TokenChain
from drawahead.executors import Local
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.samplers import Sampler
from drawahead.targets import TARGETS, DenseLogistic, Ising, MixtureOfProducts, Table, named
from tests.instances import PLAIN, SETTINGS

SIZES = {"ising": 4, "table": 8, "hard": 27}


def target(name: str) -> TokenOracle:
    return named(name, SIZES.get(name, 24))


def drawn(chain: TokenChain | TokenOracle, num_samples: int, sampler: Sampler, **options: object) -> Tensor:
    return da.sample(chain, num_samples, sampler=sampler, **{"seed": 0, **options}).samples  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TARGETS)
def test_coupled_is_sequential_token_for_token(name: str) -> None:
    oracle = target(name)
    sequential = drawn(oracle, 60, Sequential())
    for window in (1, 2, 5, 1000, None):
        assert torch.equal(drawn(oracle, 60, Coupled(window)), sequential), window


def test_coupled_is_sequential_with_order_and_evidence() -> None:
    oracle = MixtureOfProducts.random(20, q=3)
    generator = torch.Generator().manual_seed(0)
    evidence = torch.randint(3, (40, 20), generator=generator)
    evidence[torch.rand(40, 20, generator=generator) < torch.linspace(0, 1, 40)[:, None]] = HIDDEN
    chain = TokenChain(oracle, order=torch.randperm(20, generator=generator), evidence=evidence)
    sequential = drawn(chain, 40, Sequential())
    for window in (2, 1000, None):
        assert torch.equal(drawn(chain, 40, Coupled(window)), sequential), window


COMPANY = 32


@pytest.fixture(scope="module")
def company() -> TokenChain:
    """Samples that differ in length and order, so that a row's fate could depend on its neighbours."""
    generator = torch.Generator().manual_seed(1)
    evidence = torch.randint(2, (COMPANY, 18), generator=generator)
    evidence[torch.rand(COMPANY, 18, generator=generator) < torch.rand(COMPANY, 1, generator=generator)] = HIDDEN
    evidence[3], evidence[5] = HIDDEN, torch.ones(18, dtype=torch.long)
    return TokenChain(DenseLogistic(18, beta=1.5), evidence=evidence)


WAYS: list[dict[str, Any]] = [
    {"num_samples": 16, "max_live": 5, "max_batch_size": 7},
    {"num_samples": 8, "max_live": 1},
    {"num_samples": 11, "executor": Local(chunk_bytes=2000), "on_round": lambda report: None},
    {"num_samples": 1},
    {"num_samples": COMPANY, "max_live": 5},
    {"num_samples": 9, "max_batch_size": 1},
    {"num_samples": COMPANY, "max_batch_size": 7},
]
ARRANGED = [
    *((sampler, WAYS) for sampler in PLAIN),
    *((sampler, WAYS[:1]) for sampler in SETTINGS),
    *(pytest.param(sampler, WAYS[1:], marks=pytest.mark.slow) for sampler in SETTINGS),
]


@pytest.mark.parametrize(("sampler", "ways"), ARRANGED, ids=lambda part: "" if isinstance(part, list) else repr(part))
def test_a_sample_does_not_depend_on_its_company(
    sampler: Sampler, ways: list[dict[str, Any]], company: TokenChain
) -> None:
    """Sample 7 of seed 0 is sample 7 of seed 0."""
    everyone = drawn(company, COMPANY, sampler)
    for way in ways:
        assert torch.equal(drawn(company, sampler=sampler, **way), everyone[: way["num_samples"]]), way


@pytest.mark.parametrize("growth", [0.2, 1.0, 5.0])
def test_the_growth_of_the_batches_changes_only_their_number(growth: float) -> None:
    """The lowest accepted candidate wins, however many run beside it."""
    oracle = Table.random(6)
    one, other = (da.sample(oracle, 60, sampler=s, seed=0) for s in (Recursive(growth=0.1), Recursive(growth)))
    assert torch.equal(one.samples, other.samples)
    assert one.report.rounds != other.report.rounds


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_the_number_of_samples_changes_nothing(sampler: Sampler, name: str) -> None:
    """On every target: some answer a path in one pass, some mask, and chunks cut both."""
    oracle = named(name, {"ising": 3, "table": 6}.get(name, 12))
    all_ = drawn(oracle, 20, sampler)
    assert all_.shape == (20, oracle.length) and all_.dtype == torch.int64
    assert torch.equal(drawn(oracle, 8, sampler, max_live=3, max_batch_size=5), all_[:8])


def test_every_door_of_an_oracle_gives_the_same_samples() -> None:
    """The masked door of an oracle and its one-pass door."""

    class Masked(TokenOracle):
        def __init__(self, oracle: TokenOracle) -> None:
            self.oracle, self.length, self.vocab_size = oracle, oracle.length, oracle.vocab_size

        def rows(self, tokens: Tensor) -> Tensor:
            return self.oracle.rows(tokens)

    for oracle in (DenseLogistic(20), MixtureOfProducts.random(20, q=3), Ising(4, 5)):
        for sampler in (Block(), Coupled(), Sequential()):
            assert torch.equal(drawn(oracle, 30, sampler), drawn(Masked(oracle), 30, sampler))


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_the_global_generators_are_untouched(sampler: Sampler) -> None:
    torch.manual_seed(5)
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    da.sample(DenseLogistic(8), 10, sampler=sampler)
    da.sample(DenseLogistic(8), 10, sampler=sampler, seed=0)
    da.sample(DenseLogistic(8), 10, sampler=sampler, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), numpy_state, strict=True))  # noqa: NPY002
    assert random.getstate() == python_state


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_samples_do_not_depend_on_the_global_generators(sampler: Sampler) -> None:
    torch.manual_seed(1)
    one = drawn(DenseLogistic(8), 10, sampler)
    torch.manual_seed(2)
    assert torch.equal(drawn(DenseLogistic(8), 10, sampler), one)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_a_generator_is_reproducible_and_moves_on(sampler: Sampler) -> None:
    def twice(seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [da.sample(DenseLogistic(16), 20, sampler=sampler, generator=generator).samples for _ in range(2)]

    first, again, other = twice(0), twice(0), twice(1)
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], first[1]) and not torch.equal(first[0], other[0])


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_seeds_differ(sampler: Sampler) -> None:
    oracle = DenseLogistic(12)
    seeds = [0, 1, 2**32, 2**40 + 1, 2**63 - 1]
    sets = {tuple(drawn(oracle, 20, sampler, seed=seed).flatten().tolist()) for seed in seeds}
    assert len(sets) == len(seeds)
    assert not torch.equal(
        da.sample(oracle, 20, sampler=sampler).samples, da.sample(oracle, 20, sampler=sampler).samples
    )


def test_the_report_names_the_seed_that_repeats_the_run() -> None:
    for sampler in (None, Block()):
        first = da.sample(DenseLogistic(16), 10, sampler=sampler)
        again = da.sample(DenseLogistic(16), 10, sampler=sampler, seed=first.report.seed)
        assert torch.equal(again.samples, first.samples)


def test_the_default_is_sequential_token_for_token() -> None:
    """Whatever it chooses."""
    for name in ("dense", "mixture", "tree", "urns"):
        oracle = target(name)
        assert torch.equal(da.sample(oracle, 20, seed=0).samples, drawn(oracle, 20, Sequential()))


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_samples_differ_and_have_orders_of_their_own(sampler: Sampler) -> None:
    """The first position asked about, alone, is different from sample to sample."""
    known = []

    def rows(tokens: Tensor) -> Tensor:
        known.extend((tokens != HIDDEN).long().argmax(1)[(tokens != HIDDEN).sum(1) == 1].tolist())
        return torch.full((*tokens.shape, 2), 0.5, dtype=torch.float64).log()

    samples = drawn(TokenChain(rows, length=12, vocab_size=2), 60, sampler)
    assert len({tuple(row) for row in samples.tolist()}) > 50
    assert set(known) == set(range(12))


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_a_given_order_is_followed(sampler: Sampler) -> None:
    """Only prefixes of the order (and of its guesses) are ever shown."""
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    prefixes = {frozenset(order[:k].tolist()) for k in range(10)}
    seen = set()

    def rows(tokens: Tensor) -> Tensor:
        seen.update(frozenset(row.nonzero()[:, 0].tolist()) for row in tokens != HIDDEN)
        return torch.full((*tokens.shape, 3), 1 / 3, dtype=torch.float64).log()

    drawn(TokenChain(rows, length=9, vocab_size=3, order=order), 5, sampler)
    assert frozenset() in seen and seen <= prefixes
