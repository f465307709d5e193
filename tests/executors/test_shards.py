"""A shard of a query, asked of another oracle or in another process, gives the numbers of the whole."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import drawahead as da
from drawahead import Local
from drawahead.chains import Chain
from drawahead.executors.shards import cut
from drawahead.executors.wire import Packed, Worker
from drawahead.rounds.threads import Query
from tests.executors.troubled import cube
from tests.instances import SMALL

SCHEDULE = da.DDPM(tuple(0.01 * k for k in range(1, 21)))
CHAINS: dict[str, Chain] = {name: da.TokenChain(oracle) for name, oracle in SMALL.items()}
CHAINS["evidence"] = da.TokenChain(SMALL["ising"], evidence=[0, -1, -1, 1, -1, -1])
CHAINS["cube"] = cube()
CHAINS["network"] = da.GaussianChain(lambda x, k: x.tanh(), SCHEDULE, (2, 3), dtype=torch.float32)


class Cutting:
    """Answers with the shards of each query, sent through pickle to an oracle that sits there."""

    def __init__(self, chain: Chain, shards: int) -> None:
        self.replica, self.shards = chain.model, shards
        self.local = Local()

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query) -> Tensor:
        shards = [query.take(*ends) for ends in cut(len(query), self.shards, 1, None)]
        assert [len(shard) for shard in shards] == [
            stop - start for start, stop in cut(len(query), self.shards, 1, None)
        ]
        assert sum(shard.conditionings for shard in shards) == query.conditionings
        assert sum(shard.cells for shard in shards) == query.cells
        sent = [pickle.loads(pickle.dumps(Packed.of(shard))) for shard in shards]
        parts = [packed.unpacked(self.replica) for packed in sent]
        assert all(part.oracle is self.replica for part in parts)
        return torch.cat([part.evaluate(0, len(part)) for part in parts])


@pytest.mark.parametrize("shards", [2, 1000])
@pytest.mark.parametrize("name", CHAINS)
def test_shards_give_the_numbers_of_the_whole(name: str, shards: int) -> None:
    """The driver has the stand-in, and everything is asked of the chain itself."""
    chain = CHAINS[name]
    for sampler in (da.Coupled(3), da.Block()):
        driver = pickle.loads(pickle.dumps(chain.without_model()))
        cutting = Cutting(chain, shards)
        here = da.sample(chain, 9, sampler=sampler, seed=0, graphs=False)
        there = da.sample(driver, 9, sampler=sampler, seed=0, executor=cutting)
        assert torch.equal(there.samples, here.samples)
        assert there.report.widths == here.report.widths


class Stop:
    """Set once so many things are in a list."""

    def __init__(self, things: list[int], enough: int) -> None:
        self.things, self.enough = things, enough

    def is_set(self) -> bool:
        return len(self.things) >= self.enough


def test_what_is_sent_is_no_more_than_the_shard() -> None:
    """A slice does not drag along what it is a slice of, nor does any query its oracle."""
    sizes: list[int] = []

    class Measured:
        def answer(self, queries: Sequence[Query]) -> list[Tensor]:
            query = queries[0]
            sizes.append(len(pickle.dumps(Packed.of(query.take(0, 1)))))
            return Local().answer(queries)

    big = da.targets.DenseLogistic(300)  # 300 x 300 couplings: 720 kB
    da.sample(big, 40, sampler=da.Coupled(4), seed=0, executor=Measured(), stop=Stop(sizes, 3))
    assert max(sizes) < 3 * 8 * 300 + 2000


def test_a_stand_in_cannot_be_asked() -> None:
    for name in ("dense", "cube"):
        with pytest.raises(da.DrawaheadError, match="executor="):
            da.sample(CHAINS[name].without_model(), 2, sampler=da.Sequential())


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 50), st.none() | st.integers(1, 60))
def test_cuts(items: int, workers: int, least: int, most: int | None) -> None:
    shards = cut(items, workers, least, most)
    assert [start for start, _ in shards] == [0, *(stop for _, stop in shards[:-1])] and shards[-1][1] == items
    sizes = [stop - start for start, stop in shards]
    assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 1
    if most is not None:
        assert max(sizes) <= most
    else:
        assert len(sizes) <= workers and (min(sizes) >= least or len(sizes) == 1)


class Trained(da.TokenOracle):
    """A model with a parameter, as networks have them."""

    length, vocab_size = 4, 2

    def __init__(self) -> None:
        self.logits = torch.nn.Parameter(torch.tensor([0.3, -0.2], dtype=torch.float64))

    def rows(self, tokens: Tensor) -> Tensor:
        return self.logits.log_softmax(-1).expand(*tokens.shape, 2)


def test_a_worker_keeps_its_model_and_sends_numbers() -> None:
    worker = Worker()
    chain = worker.build(Trained)
    assert isinstance(chain, da.TokenChain) and not hasattr(chain.oracle, "logits")

    class Sent:
        def answer(self, queries: Sequence[Query]) -> list[Tensor]:
            arrays = [worker.evaluate(Packed.of(query)) for query in queries]
            assert all(not note for _, note in arrays)
            return [torch.from_numpy(array) for array, _ in arrays]

    there = da.sample(chain, 5, sampler=da.Block(), seed=0, executor=Sent()).samples
    assert torch.equal(there, da.sample(Trained(), 5, sampler=da.Block(), seed=0).samples)
