"""The orders in which tokens are drawn: uniformly random, given, or spread evenly over the sequence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import drawahead as da
from drawahead import Coupled, InputError, Sequential, TokenChain
from drawahead.chains.base import Tally
from drawahead.chains.tokens import TokenPaths
from drawahead.oracles.tokens import HIDDEN
from drawahead.targets import DenseLogistic, MarkovChain, MixtureOfProducts, Product


def started(chain: TokenChain, num_samples: int, seed: int = 0) -> TokenPaths:
    return chain.start(seed, torch.arange(num_samples), Tally())


def spread(n: int, **options: object) -> TokenChain:
    return TokenChain(Product.random(n), order="spread", **options)  # type: ignore[arg-type]


def widest(order: Tensor) -> float:
    """The most that a gap between drawn positions, or an end and the first of them, exceeds an even share."""
    n, worst = len(order), 0.0
    for k in range(1, n + 1):
        at = order[:k].sort().values
        gaps = torch.cat([at[:1] + 1, at.diff(), n - at[-1:]])
        worst = max(worst, float(gaps.max()) * k / n)
    return worst


@pytest.mark.parametrize("n", [1, 2, 3, 8, 55, 256])
def test_spread_orders_are_permutations(n: int) -> None:
    paths = started(spread(n), 30)
    assert torch.equal(paths.order.sort(1).values, torch.arange(n).expand(30, n))
    assert torch.equal(paths.order.gather(1, paths.rank), torch.arange(n).expand(30, n))
    assert paths.length.tolist() == [n] * 30


@pytest.mark.parametrize("n", [2, 5, 34, 100, 256])
def test_every_prefix_is_spread_evenly(n: int) -> None:
    """After k of n steps no stretch of more than 2 n / k positions is left untouched."""
    assert max(widest(order) for order in started(spread(n), 8).order) <= 2


def test_a_random_order_is_not() -> None:
    random = started(TokenChain(Product.random(100)), 8).order
    assert min(widest(order) for order in random) > 2.5


def test_samples_have_shifts_of_their_own() -> None:
    order = started(spread(64), 60).order
    assert len(set(order[:, 0].tolist())) > 25  # of 64 positions, 60 samples start at about 39 different ones
    assert len({tuple(row) for row in order.tolist()}) > 25
    assert not torch.equal(started(spread(64), 60, seed=1).order, order)
    assert torch.equal(started(spread(64), 10).order, order[:10])


def test_every_position_may_come_first() -> None:
    first = started(spread(8), 4000).order[:, 0].bincount(minlength=8)
    assert first.min() > 0.6 * 4000 / 8 and first.max() < 1.6 * 4000 / 8


@pytest.mark.parametrize("order", ["random", "", "SPREAD", "left to right"])
def test_other_words_are_refused(order: str) -> None:
    with pytest.raises(InputError, match=f'order must be "spread", a permutation .* not {order!r}'):
        TokenChain(DenseLogistic(8), order=order)


def test_evidence_is_skipped() -> None:
    """The hidden positions come in the order they would have had; known ones are never drawn."""
    n = 40
    generator = torch.Generator().manual_seed(0)
    evidence = torch.where(torch.rand(20, n, generator=generator) < 0.4, 1, HIDDEN)
    evidence[3], evidence[4] = HIDDEN, 0
    chain = spread(n, evidence=evidence)
    paths, plain = started(chain, 20), started(spread(n), 20).order
    live = (evidence == HIDDEN).any(1).nonzero()[:, 0]
    assert paths.sample.tolist() == live.tolist()  # sample 4 has nothing to draw
    for row, number in enumerate(live.tolist()):
        hidden = [i for i in plain[number].tolist() if evidence[number, i] == HIDDEN]
        assert paths.order[row, : paths.length[row]].tolist() == hidden
        assert (paths.rank[row][evidence[number] != HIDDEN] == -1).all()
    samples = da.sample(chain, 20, sampler=Coupled(), seed=0).samples
    assert torch.equal(samples[evidence != HIDDEN], evidence[evidence != HIDDEN])
    assert torch.equal(samples, da.sample(chain, 20, sampler=Sequential(), seed=0).samples)


@pytest.mark.parametrize("window", [3, None])
def test_coupled_is_sequential_in_a_spread_order(window: int | None) -> None:
    for oracle in (DenseLogistic(24, beta=1.5), MixtureOfProducts.random(24, q=3)):
        chain = TokenChain(oracle, order="spread")
        one, other = (da.sample(chain, 30, sampler=s, seed=0).samples for s in (Coupled(window), Sequential()))
        assert torch.equal(one, other)
        assert torch.equal(da.sample(chain, 7, sampler=Coupled(window), seed=0, max_live=2).samples, one[:7])


def test_where_neighbours_depend_on_each_other_it_saves_rounds() -> None:
    markov = MarkovChain(128, [[0.9, 0.1], [0.1, 0.9]])
    even, random = (
        da.sample(TokenChain(markov, order=order), 16, sampler=Coupled(128), seed=0).report.mean_rounds
        for order in ("spread", None)
    )
    assert even < 0.95 * random


def test_numbers_say_where_noise_is_found() -> None:
    """A sample is the one that has its number where numbers are not given, whatever its place."""
    oracle = da.targets.DenseLogistic(8, beta=1.5)
    plain = da.sample(oracle, 6, sampler=da.Coupled(), seed=0).samples
    some = torch.tensor([4, 0, 5])
    assert torch.equal(
        da.sample(da.TokenChain(oracle, numbers=some), 3, sampler=da.Coupled(), seed=0).samples, plain[some]
    )
    for wrong in ([1, 2], torch.tensor([[1]]), torch.tensor([1.0])):
        with pytest.raises(da.InputError, match="numbers must be"):
            da.TokenChain(oracle, numbers=wrong)  # type: ignore[arg-type]
    with pytest.raises(da.InputError, match="numbers has 3 rows"):
        da.sample(da.TokenChain(oracle, numbers=some), 4)


def test_a_sample_that_begins_costs_its_own_order_alone() -> None:
    """Rows are given the next sample one by one: a table of thousands of orders must not be sorted for each of them."""
    orders = torch.stack([torch.randperm(8, generator=torch.Generator().manual_seed(i)) for i in range(500)])
    chain = TokenChain(Product.random(8), order=orders)
    with Sorted() as watched:  # type: ignore[no-untyped-call]
        paths = chain.start(0, torch.tensor([3, 7]), Tally())
    assert torch.equal(paths.order, orders[[3, 7]])
    assert watched.most <= 2 * 8


class Sorted(TorchDispatchMode):
    """The most numbers that were sorted at once."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "sort" in func.__name__:
            self.most = max(self.most, args[0].numel())
        return func(*args, **(kwargs or {}))
