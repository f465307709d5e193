"""A real Ray cluster on this machine: workers are killed, slow or in a mood, and the samples stay those of one process.

Starting a worker takes seconds: nearly all tests share two of them.
"""

from __future__ import annotations

import functools
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import InputError, Ray, SamplingError
from drawahead.oracles.tokens import TokenOracle
from tests.executors.troubled import Ordered, Troubled, cube, small

ray: Any = pytest.importorskip("ray", reason="needs the extra ray")

COUPLED = da.Coupled(4)
# On a busy machine workers take long to start, and the user is told so.
pytestmark = pytest.mark.filterwarnings("ignore:.*workers were ready after:RuntimeWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One cluster for all tests here, with a token of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.delenv("RAY_AUTH_MODE")  # Ray sets it; what it was before comes back in the end
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        ray.init(
            address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20
        )
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def troubles(tmp_path_factory: pytest.TempPathFactory) -> Ordered:
    return Ordered(tmp_path_factory.mktemp("troubles"))


@pytest.fixture(scope="module")
def pair(cluster: None, troubles: Ordered) -> Iterator[Ray]:
    with Ray(functools.partial(moody, troubles), 2, cpus=0.1, hedge=2.0) as executor:
        yield executor


@pytest.fixture(scope="module")
def alone() -> Tensor:
    return da.sample(small(), 20, sampler=COUPLED, seed=0).samples


def moody(troubles: Ordered) -> TokenOracle:
    return Troubled(small(), troubles)


def drawn(executor: Ray, on_round: Callable[[int], None] | None = None) -> Tensor:
    def seen(report: da.Report) -> None:
        if on_round is not None:
            on_round(report.rounds)

    return da.sample(executor.chain, 20, sampler=COUPLED, seed=0, executor=executor, on_round=seen).samples


def test_two_workers_give_the_samples_of_one(pair: Ray, alone: Tensor) -> None:
    assert torch.equal(drawn(pair), alone)
    for sampler in (da.Block(), da.Recursive(), da.Sequential()):
        there = da.sample(pair.chain, 8, sampler=sampler, seed=1, executor=pair)
        here = da.sample(small(), 8, sampler=sampler, seed=1)
        assert torch.equal(there.samples, here.samples) and there.report.widths == here.report.widths
    assert pair.replaced == 0 and not any("died" in note for note in pair.notes)


def test_evidence_is_the_drivers_affair(pair: Ray) -> None:
    evidence = [1, 0] + [da.HIDDEN] * 10
    assert isinstance(pair.chain, da.TokenChain)
    there = da.sample(da.TokenChain(pair.chain.oracle, evidence=evidence), 9, sampler=COUPLED, seed=0, executor=pair)
    here = da.sample(da.TokenChain(small(), evidence=evidence), 9, sampler=COUPLED, seed=0)
    assert torch.equal(there.samples, here.samples)


def test_auto_measures_the_pool(pair: Ray) -> None:
    there = da.sample(pair.chain, 5, seed=0, executor=pair)
    assert there.report.choice and torch.equal(there.samples, da.sample(small(), 5, sampler=COUPLED, seed=0).samples)


def test_another_model_is_refused(pair: Ray) -> None:
    with pytest.raises(SamplingError, match="not the model"):
        da.sample(small(), 2, sampler=COUPLED, executor=pair)


def test_a_slow_worker_is_overtaken(pair: Ray, troubles: Ordered, alone: Tensor) -> None:
    """It dawdles until all is drawn."""
    troubles.order("dawdle")
    assert torch.equal(drawn(pair), alone)
    troubles.enough.touch()
    assert pair.resent >= 1 and pair.replaced == 0


def test_an_error_of_the_oracle_is_not_retried(pair: Ray, troubles: Ordered, alone: Tensor) -> None:
    troubles.order("complain")
    with pytest.raises(SamplingError, match=r"worker \d failed: ValueError: the model is in a mood") as raised:
        drawn(pair)
    assert isinstance(raised.value.__cause__, da.AnswerError) and pair.replaced == 0
    assert torch.equal(drawn(pair), alone), "it was in a mood once"


def test_a_worker_killed_from_outside_is_replaced(pair: Ray, alone: Tensor) -> None:
    """Between rounds: the next shard finds it dead."""

    def kill(rounds: int) -> None:
        if rounds == 2:
            ray.kill(pair._pool._slots[1].worker)

    with pytest.warns(RuntimeWarning, match="1 workers died and were replaced; worker 1"):
        there = drawn(pair, kill)
    assert torch.equal(there, alone) and pair.replaced == 1


def test_workers_that_die_over_their_shards_change_no_sample(pair: Ray, troubles: Ordered, alone: Tensor) -> None:
    """The second to die may be the last: then the round waits for a new one."""
    before = pair.replaced
    there = drawn(pair, lambda rounds: troubles.order("die") if rounds in (1, 3) else None)
    assert torch.equal(there, alone)
    assert pair.replaced == before + 2 and not list(troubles.folder.iterdir())


def test_a_worker_out_of_memory_halves_its_chunks(pair: Ray, troubles: Ordered, alone: Tensor) -> None:
    troubles.order("crowd")
    with pytest.warns(RuntimeWarning, match=r"worker \d: the oracle ran out of memory") as told:
        there = drawn(pair)
    assert torch.equal(there, alone) and len(told) == 1


@pytest.mark.usefixtures("cluster")
def test_a_diffusion() -> None:
    with Ray(cube, 1, cpus=0.1, max_batch_size=5) as executor:
        there = da.sample(executor.chain, 5, sampler=da.Coupled(8), seed=0, executor=executor)
    assert torch.equal(there.samples, da.sample(cube(), 5, sampler=da.Coupled(8), seed=0).samples)
    with pytest.raises(SamplingError, match="closed"):
        da.sample(executor.chain, 5, sampler=da.Coupled(8), seed=0, executor=executor)


@pytest.mark.usefixtures("cluster")
def test_shards_of_a_job(tmp_path: Path) -> None:
    """The folder is that of one process; tests/jobs/test_workers.py kills workers, and marked slow whole nodes."""
    settings: dict[str, Any] = {"name": "shards", "seed": 7, "sampler": COUPLED, "shard_size": 4}
    there = da.jobs.draw(tmp_path / "there", cube, 8, workers=da.RayWorkers(1, cpus=0.1), **settings)
    here = da.jobs.draw(tmp_path / "here", cube(), 8, **settings)
    assert there.complete and [shard.sha256 for shard in there.shards] == [shard.sha256 for shard in here.shards]
    assert there.config == here.config and torch.equal(there.samples(), here.samples())


def broken() -> TokenOracle:
    raise OSError("no weights here")


@pytest.mark.usefixtures("cluster")
def test_what_cannot_start_says_why() -> None:
    with pytest.raises(InputError, match="worker 0: OSError: no weights here"):
        Ray(broken, 1, cpus=0.1)
    with pytest.raises(InputError, match=r"0 of 1 workers were ready .*num_gpus 1.*CPU [\d.]+ of 2.*start_timeout"):
        Ray(small, 1, gpus=1, start_timeout=0.5)
    with pytest.raises(InputError, match="make cannot be sent"):
        Ray((i for i in ()).__next__, 1)


def test_without_a_cluster_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**settings: object) -> None:
        raise ConnectionError(f"nobody at {settings['address']}")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(InputError, match=r"no cluster was found .*nobody at 192\.0\.2\.1"):
        Ray(small, 1, address="192.0.2.1:6379")


def test_without_ray_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=re.escape("pip install 'drawahead[ray]'")):
        Ray(small, 1)


@pytest.mark.usefixtures("cluster")
def test_wrong_settings_are_refused_before_anything_starts() -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("workers", {"workers": 0}),
        ("max_batch_size", {"max_batch_size": 0}),
        ("min_batch_size", {"min_batch_size": 0}),
        ("retries", {"retries": -1}),
        ("hedge", {"hedge": 0.5}),
        ("timeout", {"timeout": 0}),
        ("start_timeout", {"start_timeout": 0}),
        ("make", {"make": 3}),
    ]
    for name, settings in wrong:
        with pytest.raises(InputError, match=name):
            Ray(**{"make": small, "workers": 1, **settings})


def test_nothing_is_left_running(pair: Ray) -> None:
    """Last: of all workers only the two that the tests share are alive."""
    assert ray.is_initialized(), "a cluster that others started is theirs"
    wait_until(lambda: ray.available_resources().get("CPU") == pytest.approx(2 - 2 * 0.1))


def wait_until(done: Callable[[], bool], seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until
        time.sleep(0.1)
