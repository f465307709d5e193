"""Shards drawn by many workers: whatever happens to them, the folder is the one that a single process makes."""

from __future__ import annotations

import json
import os
import pickle
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import drawahead as da
from drawahead import InputError, RayWorkers
from drawahead.cli.subjects import TargetOptions
from drawahead.executors import Replicas
from drawahead.jobs import Job
from drawahead.jobs.commands.drawing import planned, workers_named
from drawahead.jobs.model import Drawn, JobRequest
from drawahead.jobs.workers import ShardWorker

KILLED, CLUSTERED = (Path(__file__).with_name(name) for name in ("killed.py", "clustered.py"))
NUM, SHARD = 240, 8
SAMPLER = da.Coupled(window=3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
@pytest.mark.parametrize("kills", [8, pytest.param(1000, marks=pytest.mark.slow)])
def test_killed_workers_and_a_killed_head_lose_nothing(kills: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(KILLED), str(kills), str(tmp_path)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200 if kills < 100 else 7200,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["workers"]["kills"] >= kills and found["head"]["kills"] >= kills // 4
    assert found["hangs"] == {"replaced": 1}
    # The same test finds out who gives a shard its name before it is whole.
    assert "found out: " in found["named_first"] and ".safetensors" in found["named_first"]


# In this process


def diffusion() -> da.GaussianChain:
    return da.GaussianChain(da.targets.Hypercube(4), da.DDPM(timesteps=range(900, -1, -100)))


def asked(num: int = NUM) -> JobRequest:
    return JobRequest("workers", {}, num, SAMPLER, 7, SHARD)


def alone(folder: Path, num: int = NUM) -> Job:
    return da.jobs.draw(folder, diffusion(), num, name="workers", seed=7, sampler=SAMPLER, shard_size=SHARD)


def test_a_worker_draws_the_shards_of_a_job(tmp_path: Path) -> None:
    whole, worker = alone(tmp_path / "job", 16), ShardWorker()
    worker.build(diffusion)
    config, _ = worker.evaluate(asked(16))
    assert config == whole.config and worker.evaluate(None) == ({}, "")
    drawn, _ = worker.evaluate((config, 1))
    assert isinstance(drawn, Drawn) and drawn.data == whole.shards[1].path.read_bytes() and worker.pulse() > 0


def test_a_worker_may_hold_replicas(tmp_path: Path) -> None:
    """Rounds over the devices of a worker, and shards over workers."""
    worker = ShardWorker()
    worker.build(lambda: Replicas([diffusion(), diffusion()]))
    config, _ = worker.evaluate(asked())
    drawn, _ = worker.evaluate((config, 1))
    assert drawn.data == alone(tmp_path / "job").shards[1].path.read_bytes()


def test_wrong_settings_are_refused_before_anything_starts(tmp_path: Path) -> None:
    for name, wrong in {"workers": 0, "retries": -1, "hedge": 0.5, "timeout": 0, "start_timeout": 0}.items():
        with pytest.raises(InputError, match=name):
            RayWorkers(**{name: wrong})  # type: ignore[arg-type]
    for given in ({"executor": da.Local()}, {"on_round": print}):
        with pytest.raises(InputError, match="whole shards"):
            da.jobs.draw(tmp_path / "job", diffusion, 4, name="a", workers=RayWorkers(1), **given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="target must be a function"):
        da.jobs.draw(tmp_path / "job", 3, 4, name="a", workers=RayWorkers(1))  # type: ignore[arg-type]


def test_without_ray_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'drawahead\[ray\]'"):
        da.jobs.draw(tmp_path / "job", diffusion, 4, name="a", workers=RayWorkers(1))


class TestCommandLine:
    """What `--workers` asks for, and what is sent."""

    def test_workers_are_named(self) -> None:
        assert workers_named(None, None, None) is None
        assert workers_named("ray", None, 0.5) == RayWorkers(None, gpus=0.5)
        assert workers_named("ray:16", "head:6379", None) == RayWorkers(16, address="head:6379")
        for wrong in ("dask", "ray:0", "ray:", "ray:x", ""):
            with pytest.raises(InputError, match="--workers must be ray"):
                workers_named(wrong, None, None)
        with pytest.raises(InputError, match="are for --workers"):
            workers_named(None, "head:6379", None)

    @pytest.mark.parametrize(("target", "given"), [("ising", {"size": 3}), ("fashion", {"steps": 2}), ("aztec", {})])
    def test_what_is_sent_makes_what_is_drawn_here(self, target: str, given: dict[str, Any]) -> None:
        here = planned(target, TargetOptions(**given), None)
        there = planned(target, TargetOptions(**given), RayWorkers(1))
        assert (there.options, there.num, there.sampler) == (here.options, here.num, here.sampler)
        facts = ShardWorker().build(pickle.loads(pickle.dumps(there.target)))
        assert facts == ShardWorker().build(lambda: here.target)

    def test_a_model_of_ones_own_is_not_built_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("mine.py").write_text("import drawahead as da\nMine = da.targets.Pairs(6)\nheavy = 1 / 1\n")
        plan = planned("mine.py:Mine", TargetOptions(), RayWorkers(1, gpus=1))
        monkeypatch.chdir("/")  # a worker may run anywhere
        assert callable(plan.target) and ShardWorker().build(plan.target)["shape"] == (6,)


# On a cluster


def clustered(folder: Path, *parts: str, seconds: float) -> dict[str, Any]:
    """A cluster in a process of its own, with a token of its own from the beginning."""
    pytest.importorskip("ray", reason="needs the extra ray")
    ours = {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}
    done = subprocess.run(
        [sys.executable, str(CLUSTERED), str(folder), *parts],
        env=os.environ | ours | {"RAY_AUTH_TOKEN": secrets.token_hex(32), "PYTHONPATH": str(CLUSTERED.parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_a_cluster_whose_workers_and_nodes_die(tmp_path: Path) -> None:
    """A worker killed, a node taken away, another added; stopped on the way, and finished without Ray."""
    both = clustered(tmp_path, "nodes", "designs", seconds=1800.0)
    found = both["nodes"]
    assert both["designs"]["files"] == 5
    assert found["killed"] == 1 and found["started"] >= 3 and 0 < found["begun"] < found["num"]


@pytest.mark.slow
def test_all_that_can_happen_on_a_cluster(tmp_path: Path) -> None:
    """200 workers killed at random moments, one that hangs, one that complains, and the head killed with -9."""
    found = clustered(tmp_path, "kills=200", "hangs", "complains", "head", seconds=7200.0)
    assert found["kills"]["killed"] >= 200 and found["hangs"]["replaced"] >= 1 and found["head"]["killed"] == 2
    assert "ValueError: the model is in a mood; 0 of 240 samples are kept" in found["complains"]["error"]
