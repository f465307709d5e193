"""Several replicas in one process give the samples of one, and say which of them failed."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import AnswerError, InputError, Replicas, SamplingError
from drawahead.samplers import Sampler
from tests.executors.troubled import Crowded, Troubled, cube, network, small
from tests.instances import SMALL

SAMPLERS: list[Sampler] = [da.Sequential(), da.Coupled(4), da.Coupled(), da.Block(), da.Stepwise(), da.Recursive()]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_the_samples_are_those_of_one(sampler: Sampler, replicas: int) -> None:
    with Replicas([small() for _ in range(replicas)]) as executor:
        drawn = da.sample(executor.chain, 12, sampler=sampler, seed=0, executor=executor)
    alone = da.sample(small(), 12, sampler=sampler, seed=0)
    assert torch.equal(drawn.samples, alone.samples)
    assert drawn.report.widths == alone.report.widths


@pytest.mark.parametrize("name", SMALL)
def test_every_target_can_have_replicas(name: str) -> None:
    first = SMALL[name]
    other = type(first).__new__(type(first))
    other.__dict__.update(first.__dict__)
    with Replicas([first, other], max_batch_size=3) as executor:
        drawn = da.sample(first, 9, sampler=da.Coupled(3), seed=0, executor=executor).samples
    assert torch.equal(drawn, da.sample(first, 9, sampler=da.Coupled(3), seed=0).samples)


def test_a_diffusion_on_two_replicas() -> None:
    chain = cube()
    with Replicas.on(lambda device: cube(), ["cpu", "cpu"]) as executor:
        drawn = da.sample(executor.chain, 5, sampler=da.Coupled(8), seed=0, executor=executor)
    assert torch.equal(drawn.samples, da.sample(chain, 5, sampler=da.Coupled(8), seed=0).samples)


def test_a_chain_with_another_start_asks_the_same_model() -> None:
    chain = cube()
    assert isinstance(chain, da.GaussianChain)
    known = torch.tensor([1.0, torch.nan, torch.nan, -1.0, torch.nan, torch.nan])
    painted = da.GaussianChain(chain.denoiser, chain.schedule, chain.shape, known=known, dtype=chain.dtype)
    with Replicas([chain, cube()]) as executor:
        drawn = da.sample(painted, 5, sampler=da.Coupled(8), seed=0, executor=executor).samples
    assert torch.equal(drawn, da.sample(painted, 5, sampler=da.Coupled(8), seed=0).samples)


def test_replicas_share_the_work_and_work_at_the_same_time() -> None:
    """Both are inside at once, or the barrier breaks."""
    barrier = threading.Barrier(2, timeout=300)
    sizes: list[list[int]] = [[], []]

    def trouble(which: int) -> Troubled:
        def meet(tokens: Tensor) -> None:
            sizes[which].append(len(tokens))
            assert not torch.is_grad_enabled()
            barrier.wait()

        return Troubled(small(), meet)

    with Replicas([trouble(0), trouble(1)]) as executor:
        da.sample(executor.chain, 9, sampler=da.Sequential(), seed=0, executor=executor)
    assert sizes == [[4] * 12, [5] * 12]


def test_replicas_share_the_cores_and_leave_them_as_they_were() -> None:
    seen: set[int] = set()
    before = torch.get_num_threads()
    torch.set_num_threads(7)
    try:
        replicas = [Troubled(small(), lambda tokens: seen.add(torch.get_num_threads())) for _ in range(3)]
        with Replicas(replicas) as executor:
            da.sample(executor.chain, 9, sampler=da.Sequential(), seed=0, executor=executor)
        assert seen == {2} and torch.get_num_threads() == 7
    finally:
        torch.set_num_threads(before)


def test_small_rounds_are_not_cut() -> None:
    asked = [Crowded(99, MemoryError()), Crowded(99, MemoryError())]
    replicas = [Troubled(small(), sizes) for sizes in asked]
    with Replicas(replicas, min_batch_size=5) as executor:
        da.sample(executor.chain, 9, sampler=da.Sequential(), seed=0, executor=executor)
        assert asked[0].sizes == [9] * 12 and not asked[1].sizes
        da.sample(executor.chain, 10, sampler=da.Sequential(), seed=0, executor=executor)
        assert asked[1].sizes == [5] * 12


def test_a_replica_that_fails_is_named_and_the_others_go_on() -> None:
    troubles: list[Exception] = []

    def moody(tokens: Tensor) -> None:
        if troubles:
            raise troubles[0]

    with Replicas([small(), Troubled(small(), moody), small()]) as executor:
        good = da.sample(executor.chain, 9, sampler=da.Block(), seed=0, executor=executor).samples
        troubles.append(ValueError("no"))
        with pytest.raises(SamplingError, match="replica 1 on cpu failed: ValueError: no") as raised:
            da.sample(executor.chain, 9, sampler=da.Block(), seed=0, executor=executor)
        assert isinstance(raised.value.__cause__, AnswerError)
        troubles.clear()
        assert torch.equal(good, da.sample(executor.chain, 9, sampler=da.Block(), seed=0, executor=executor).samples)


def test_each_replica_has_a_memory_of_its_own() -> None:
    crowded = Crowded(3, torch.OutOfMemoryError("CUDA out of memory"))
    with (
        Replicas([small(), Troubled(small(), crowded)]) as executor,
        pytest.warns(RuntimeWarning, match="replica 1: .*memory") as told,
    ):
        drawn = da.sample(executor.chain, 30, sampler=da.Coupled(4), seed=3, executor=executor).samples
    assert torch.equal(drawn, da.sample(small(), 30, sampler=da.Coupled(4), seed=3).samples)
    assert len(told) == 1 and len(executor.notes) == 1 and max(crowded.sizes[4:]) <= 3


def test_what_cannot_be_replicated_is_refused() -> None:
    oracle = small()
    for wrong, words in (
        ([], "at least one"),
        (oracle, "list"),
        ([oracle, oracle], "object of its own"),
        ([network], "TokenChain"),
    ):
        with pytest.raises(InputError, match=words):
            Replicas(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="min_batch_size"):
        Replicas([oracle], min_batch_size=0)
    with Replicas([small(), small()]) as executor, pytest.raises(SamplingError, match="not the model"):
        da.sample(small(), 2, sampler=da.Block(), executor=executor)


def test_pieces_of_a_target_are_no_replicas() -> None:
    """Their oracles are made on the way: only where they are made can they be asked."""
    tilings = da.tilings.dominoes("square", 4)
    with Replicas([tilings]) as executor, pytest.raises(SamplingError, match="not the model"):
        da.sample(tilings, 2, sampler=da.Separated(), executor=executor)
