"""The registry, the exports, and what the constructors refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from drawahead import targets
from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.targets import (
    TARGETS,
    DenseLogistic,
    HardCode,
    Ising,
    MarkovChain,
    MixtureOfProducts,
    Pairs,
    PolyaUrns,
    Product,
    Table,
    TreeIsing,
    named,
)

REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("probs", lambda: Product([0.5, 0.5])),
    ("probs", lambda: Product([[0.5, 0.6]])),
    ("probs", lambda: Product([[1.5, -0.5]])),
    ("probs", lambda: Product([[float("nan"), 1.0]])),
    ("probs", lambda: Product([[0.5, 0.5], [1.0]])),
    ("probs", lambda: Product([["a", "b"]])),
    ("probs", lambda: Product(torch.empty(0, 2))),
    ("n must be even", lambda: Pairs(3)),
    ("q", lambda: Pairs(4, 0)),
    ("weights", lambda: MixtureOfProducts([1.0], [[[1.0]], [[1.0]]])),
    ("weights", lambda: MixtureOfProducts([0.5, 0.6], [[[1.0]], [[1.0]]])),
    ("components", lambda: MixtureOfProducts.random(4, 0)),
    ("seed", lambda: MixtureOfProducts.random(4, seed=-1)),
    ("block", lambda: PolyaUrns(4, 0)),
    ("concentration", lambda: PolyaUrns(4, 2, concentration=0.0)),
    ("concentration", lambda: PolyaUrns(4, 2, concentration=float("inf"))),
    ("n must", lambda: PolyaUrns(0, 2)),
    ("transition", lambda: MarkovChain(4, [[0.5, 0.5]])),
    ("transition", lambda: MarkovChain(4, [[0.5, 0.6], [0.5, 0.5]])),
    ("initial", lambda: MarkovChain(4, [[0.5, 0.5], [0.5, 0.5]], [1.0])),
    ("as initial", lambda: MarkovChain(4, [[1.0, 0.0], [0.0, 1.0]])),
    ("parents", lambda: TreeIsing([])),
    ("parents", lambda: TreeIsing([1, -1])),
    ("coupling", lambda: TreeIsing([-1, 0], [0.5])),
    ("field", lambda: TreeIsing([-1, 0], 0.5, float("inf"))),
    ("at most 16", lambda: Ising(17, 17)),
    ("rows", lambda: Ising(0, 3)),
    ("coupling", lambda: Ising.grid(2, 2, float("nan"))),
    ("divide it by its sum", lambda: Table([1.0, 1.0])),
    ("atoms", lambda: Table.random(17, 2)),
    ("shape", lambda: Table([[0.5, 0.5]])),
    ("shape", lambda: Table(1.0)),
    ("n must", lambda: DenseLogistic(0)),
    ("beta", lambda: DenseLogistic(4, beta=float("nan"))),
    ("n must", lambda: HardCode(True)),
    ("sizes", lambda: HardCode(4, sizes=[3, 2])),
    ("sizes", lambda: HardCode(4, sizes=[])),
    ("thresholds", lambda: HardCode(4, sizes=[2, 2], thresholds=[1, 3])),
    ("thresholds", lambda: HardCode(4, sizes=[2, 2], thresholds=[1])),
]


@pytest.mark.parametrize(("words", "make"), REFUSED)
def test_bad_arguments_are_named(words: str, make: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_arguments_are_copied() -> None:
    probs = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    oracle = Product(probs)
    probs[0, 0] = 1.0
    assert torch.allclose(oracle.log_probs.exp(), torch.tensor(0.5, dtype=torch.float64))


def test_random_targets_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    for name in TARGETS:
        named(name)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", TARGETS)
def test_every_named_target_answers(name: str) -> None:
    target = TARGETS[name]
    oracle = named(name)
    assert target.name == name and target.summary and isinstance(oracle, TokenOracle)
    assert oracle.length == (target.default_size**2 if name == "ising" else target.default_size)
    rows = oracle.rows(torch.full((2, oracle.length), HIDDEN))
    assert torch.allclose(rows.logsumexp(2), torch.zeros(1, dtype=torch.float64), atol=1e-12)
    if name != "pairs":
        assert named(name, 1).rows(torch.tensor([[HIDDEN]])).shape == (1, 1, named(name, 1).vocab_size)


def test_scalable_targets() -> None:
    assert {name for name, target in TARGETS.items() if not target.scalable} == {"ising", "table"}


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'potts'.*product, pairs, urns"):
        named("potts")


def test_every_export_is_there() -> None:
    assert all(hasattr(targets, name) for name in targets.__all__)
    assert set(targets.__all__) >= {type(named(name)).__name__ for name in TARGETS}
