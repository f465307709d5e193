"""A runner owns what outlives a call, and nothing else does."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, GaussianChain, InputError, Runner, SamplingError, Sequential, TokenChain
from drawahead.rounds.captured.batch import CapturedBatch
from drawahead.targets import DenseLogistic, GaussianMixture
from tests.changes import NUMBER, WALK, Network, batches_used, same, spins

SCHEDULE = da.StochasticLocalization(60, 2.0, delta=0.05)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[CapturedBatch]:
    """The batches that captured runs were given."""
    return batches_used(monkeypatch)


def vectors(**options: Any) -> GaussianChain:
    return GaussianChain(Network(), WALK, (3,), dtype=torch.float64, **options)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("make", [spins, vectors])
def test_it_draws_what_sample_draws(make: Any, graphs: bool) -> None:
    runner = Runner(make(), "coupled", graphs=graphs)
    for seed, first, number in ((0, 0, 3), (1, 0, 2), (0, 1, 2), (0, 0, 3)):
        mine = runner.sample(number, seed=seed, first=first)
        theirs = da.sample(make(), number, seed=seed, first=first, sampler="coupled", graphs=graphs)
        assert same(mine.samples, theirs.samples) and mine.report.rounds == theirs.report.rounds
        assert runner.report is mine.report


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
def test_equal_calls_give_equal_samples_whatever_comes_between(graphs: bool) -> None:
    """By the default sampler, on a diffusion, where another sampler would give others."""
    runner = Runner(GaussianChain(GaussianMixture.random(3), SCHEDULE), graphs=graphs)
    first = runner.sample(2, seed=0)
    for seed in range(1, 4):
        runner.sample(2, seed=seed)
        runner.sample(5, seed=seed)
    again = runner.sample(2, seed=0)
    assert torch.equal(first.samples, again.samples) and first.report.sampler == again.report.sampler
    assert again.report.probes == 0 < first.report.probes


def test_what_was_chosen_can_be_had_and_named() -> None:
    chain = GaussianChain(GaussianMixture.random(3), SCHEDULE)
    chosen = da.tune(chain, 2, seed=3)
    result = da.sample(chain, 2, seed=0)
    assert repr(chosen) == result.report.sampler and result.report.probes == 0
    assert torch.equal(da.sample(chain, 2, seed=0, sampler=chosen).samples, result.samples)


def test_other_conditions_need_no_new_capture(used: list[CapturedBatch]) -> None:
    def denoiser(x: Tensor, k: Tensor, shift: Tensor) -> Tensor:
        return torch.tanh(x) + shift

    def chain(shift: float) -> GaussianChain:
        return GaussianChain(denoiser, WALK, (3,), dtype=torch.float64, condition={"shift": rows(shift)})

    def rows(shift: float) -> Tensor:
        return torch.full((NUMBER, 3), shift, dtype=torch.float64)

    runner = Runner(chain(0.0), Coupled(3), graphs=True)
    for shift in (0.0, 1.0, -2.0):
        mine = runner.sample(NUMBER, seed=1, condition={"shift": rows(shift)}).samples
        assert same(mine, da.sample(chain(shift), NUMBER, seed=1, sampler=Coupled(3)).samples)
    assert len({id(batch) for batch in used}) == 1


def test_two_runners_share_nothing(used: list[CapturedBatch]) -> None:
    chain = vectors()
    one, other = Runner(chain, Coupled(3), graphs=True), Runner(chain, Coupled(3), graphs=True)
    for _ in range(2):
        assert same(one.sample(NUMBER, seed=1).samples, other.sample(NUMBER, seed=1).samples)
    da.sample(chain, NUMBER, seed=1, sampler=Coupled(3), graphs=True)
    assert used[0] is used[2] and used[1] is used[3] and len({id(batch) for batch in used}) == 3


def test_one_call_at_a_time(used: list[CapturedBatch]) -> None:
    """Threads wait for each other, and each gets its own samples."""
    inside, most = 0, 0

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        answer = torch.tanh(x)
        inside -= 1
        return answer

    runner = Runner(GaussianChain(denoiser, WALK, (3,), dtype=torch.float64), Coupled(3), graphs=True)
    for _ in range(2):  # the model counts: its rounds are kept from the second call on
        runner.sample(NUMBER, seed=0)
    used.clear()
    drawn: dict[int, Tensor] = {}
    threads = [
        threading.Thread(target=lambda seed=seed: drawn.update({seed: runner.sample(NUMBER, seed=seed).samples}))
        for seed in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1 and len({id(batch) for batch in used}) == 1
    assert all(same(drawn[seed], runner.sample(NUMBER, seed=seed).samples) for seed in range(6))


@pytest.mark.parametrize("how", ["close", "goes", "recapture"])
def test_memory_returns(how: str, used: list[CapturedBatch]) -> None:
    """Of captured rounds, when a runner is closed, or goes, or is told to."""
    runner: Runner | None = Runner(vectors(), Coupled(3), graphs=True)
    assert runner is not None
    runner.sample(NUMBER, seed=0)
    batch = weakref.ref(used.pop())
    assert batch() is not None
    if how == "goes":
        runner = None
    else:
        getattr(runner, how)()
    gc.collect()
    assert batch() is None


def test_memory_of_a_chain_s_own_runner_returns_with_the_chain(used: list[CapturedBatch]) -> None:
    for make in (vectors, spins):
        chain = make()
        da.sample(chain, NUMBER, seed=0, sampler=Coupled(3), graphs=True)
        references = [weakref.ref(used.pop()), weakref.ref(chain)]
        del chain
        gc.collect()
        assert [reference() for reference in references] == [None, None]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_memory_of_a_gpu_returns() -> None:
    chain, left = da.networks.fashion(60, device="cuda", dtype=torch.float16), []
    for _ in range(4):  # the first one also makes what libraries keep for good
        with Runner(chain, Coupled(8)) as runner:
            runner.sample(4, seed=0)
            torch.cuda.synchronize()
            held = torch.cuda.memory_allocated()
        gc.collect()
        torch.cuda.synchronize()
        left.append(torch.cuda.memory_allocated())
        assert left[-1] < held
    assert max(left[1:]) <= left[1]


def test_a_closed_runner_says_so() -> None:
    with Runner(spins(), Sequential()) as runner:
        runner.sample(1, seed=0)
    with pytest.raises(InputError, match="this runner is closed: make another one"):
        runner.sample(1, seed=0)
    assert "closed" in repr(runner)


def test_the_same_runner_with_other_settings(used: list[CapturedBatch]) -> None:
    """What one captured serves the other; the first stays as it was, and both are closed at once."""
    runner = Runner(vectors(), Coupled(3), graphs=True)
    before = runner.sample(NUMBER, seed=0).samples
    other = runner.using(chain=runner.chain.replace(start=torch.ones(3)))
    assert not same(other.sample(NUMBER, seed=0).samples, before) and used[0] is used[1]
    packed = runner.using(sampler="sequential", graphs=False).sample(NUMBER, seed=0).report
    assert packed.sampler == "Sequential()" and len(used) == 2 and other.report is not packed
    assert same(runner.sample(NUMBER, seed=0).samples, before) and used[2] is used[0]
    with pytest.raises(InputError, match="captured rounds are not split"):
        runner.using(max_batch_size=2)
    other.close()
    with pytest.raises(InputError, match="this runner is closed"):
        runner.sample(1)


def test_closing_closes_the_executor() -> None:
    closed: list[bool] = []

    class Answering(da.Local):  # type: ignore[misc]
        def close(self) -> None:
            closed.append(True)

    with Runner(spins(), Sequential(), Answering()) as runner:
        runner.sample(1, seed=0)
    assert closed == [True]


def test_a_failed_call_leaves_no_report() -> None:
    broken = False

    def rows(tokens: Tensor) -> Tensor:
        return DenseLogistic(8).rows(tokens) * (torch.nan if broken else 1.0)

    runner = Runner(TokenChain(rows, length=8, vocab_size=2), "coupled")
    good = runner.sample(2, seed=0).samples
    broken = True
    with pytest.raises(SamplingError):
        runner.sample(2, seed=0)
    assert runner.report is None
    broken = False
    assert torch.equal(runner.sample(2, seed=0).samples, good) and runner.report is not None
