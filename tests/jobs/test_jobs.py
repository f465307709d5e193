"""Jobs: what is drawn, what is kept when something fails, and what is refused."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

import drawahead as da
from drawahead.chains.base import Paths
from drawahead.jobs import Job, files, lock
from drawahead.jobs.model import shard_size
from drawahead.rounds.threads import Thread
from drawahead.samplers import Guarantee
from tests.jobs.forging import sealed

NUM, SIZE, SEED = 23, 5, 11


def ising() -> da.TokenOracle:
    return da.targets.Ising.grid(3, 3, coupling=0.4)


def diffusion() -> da.GaussianChain:
    return da.GaussianChain(da.targets.Hypercube(4), da.DDPM(timesteps=range(900, -1, -100)))


def images() -> da.GaussianChain:
    return da.GaussianChain(da.targets.DataSet(torch.eye(9).view(9, 3, 3)), da.DDPM(timesteps=range(900, -1, -100)))


def draw(folder: Path, target: Any = None, num: int = NUM, **more: Any) -> Job:
    usual = {"name": "ising", "sampler": da.Coupled(), "seed": SEED, "shard_size": SIZE}
    return da.jobs.draw(folder, ising() if target is None else target, num, **(usual | more))


@pytest.mark.parametrize("target", [ising, diffusion, images])
def test_a_job_draws_what_sample_draws(target: Callable[[], Any], tmp_path: Path) -> None:
    job = draw(tmp_path / "job", target(), options={"a": [1, 2], "b": None})
    whole = da.sample(target(), NUM, sampler=da.Coupled(), seed=SEED)
    assert job.complete and job.num_samples == NUM
    assert torch.equal(job.samples(), whole.samples) and job.samples().dtype == whole.samples.dtype
    again = da.jobs.read(str(tmp_path / "job"))
    assert again.config == job.config and again.shards == job.shards and again.report == job.report
    assert again.config.options == {"a": [1, 2], "b": None} and again.config.sampler.sampler == da.Coupled()
    assert [(shard.first, shard.count) for shard in job.shards] == [(0, 5), (5, 5), (10, 5), (15, 5), (20, 3)]
    assert torch.equal(again.samples(3, 14), whole.samples[3:17]) and again.samples(NUM).shape == (
        0,
        *whole.samples.shape[1:],
    )
    again.verify()
    with pytest.raises(da.InputError, match=r"samples 0 \.\.\. 22"):
        again.samples(20, 4)


def test_the_report_is_that_of_all_shards(tmp_path: Path) -> None:
    report = draw(tmp_path / "job").report
    parts = [
        da.sample(ising(), min(SIZE, NUM - i), first=i, sampler=da.Coupled(), seed=SEED).report
        for i in range(0, NUM, SIZE)
    ]
    for name in ("rounds", "queries", "passes", "drafted", "accepted", "num_samples"):
        assert getattr(report, name) == sum(getattr(part, name) for part in parts)
    for name in ("widths", "committed", "drafts", "kept", "sample_rounds"):
        assert getattr(report, name) == sum((getattr(part, name) for part in parts), ()), name
    assert (sum(report.drafts), sum(report.kept)) == (report.drafted, report.accepted) and report.accepted
    assert sorted(report.progress) == list(range(16)) and report.progress[7] == parts[1].progress[7]
    assert report.seconds >= report.oracle_seconds > 0
    assert da.Report.from_dict(report.to_dict()) == report


def test_auto_is_written_down_before_anything_is_drawn(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    begun = draw(tmp_path / "job", diffusion(), sampler=None, shard_size=None, seed=None, stop=stop)
    assert begun.num_samples == 0 and not begun.complete and begun.report.rounds == 0
    written = begun.config.sampler
    assert written.choice and written.sampler in (da.Sequential(), written.sampler) and begun.config.shard_size <= NUM
    job = draw(tmp_path / "job", diffusion(), sampler=da.Auto(), shard_size=None, seed=None, resume=True)
    assert job.config == begun.config and job.report.choice == written.choice and job.report.probes == written.probes
    assert written.sampler is not None
    again = da.sample(diffusion(), NUM, sampler=written.sampler, seed=begun.config.seed)
    assert torch.equal(job.samples(), again.samples)


def test_rounds_of_fixed_shape(tmp_path: Path) -> None:
    same = {"sampler": da.Coupled(window=3), "seed": SEED, "graphs": True}
    job = da.jobs.draw(tmp_path / "job", diffusion(), NUM, name="fixed", shard_size=SIZE, **same)  # type: ignore[arg-type]
    assert torch.equal(job.samples(), da.sample(diffusion(), NUM, **same).samples)  # type: ignore[arg-type]
    with pytest.raises(da.InputError, match="graphs is True there, not False"):
        da.jobs.draw(tmp_path / "job", diffusion(), NUM, name="fixed", graphs=False, resume=True)


def test_a_stop_token_ends_a_job_between_shards(tmp_path: Path) -> None:
    stop = threading.Event()
    rounds = 0

    def on_round(report: da.Report) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 9:
            stop.set()

    part = draw(tmp_path / "job", stop=stop, on_round=on_round)
    assert not part.complete and part.num_samples % SIZE == 0
    assert_resumes(tmp_path / "job", part.num_samples)


def test_ctrl_c_keeps_the_finished_shards(tmp_path: Path) -> None:
    rounds = 0

    def on_round(report: da.Report) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 9:
            raise KeyboardInterrupt

    with pytest.raises(da.Interrupted, match=r"interrupted; \d+ of 23 samples are kept in") as caught:
        draw(tmp_path / "job", on_round=on_round)
    assert len(caught.value.result.samples) < SIZE
    assert_resumes(tmp_path / "job")


def assert_resumes(folder: Path, kept: int | None = None) -> None:
    """What is there stays as it is, and the rest comes as if nothing had happened."""
    before = da.jobs.read(folder)
    assert 0 < before.num_samples < NUM and kept in (None, before.num_samples)
    after = draw(folder, resume=True)
    assert after.complete and after.shards[: len(before.shards)] == before.shards
    assert torch.equal(after.samples(), da.sample(ising(), NUM, sampler=da.Coupled(), seed=SEED).samples)


class Failing(da.TokenOracle):
    """Fails when it is asked for the so manieth time."""

    def __init__(self, calls: int) -> None:
        self.inner, self.calls = ising(), calls
        self.length, self.vocab_size = self.inner.length, self.inner.vocab_size

    def rows(self, tokens: torch.Tensor) -> torch.Tensor:
        self.calls -= 1
        if not self.calls:
            raise RuntimeError("the network is down")
        return self.inner.rows(tokens)


def test_a_crash_of_the_oracle_keeps_the_finished_shards(tmp_path: Path) -> None:
    with pytest.raises(da.JobError, match=r"the network is down; \d+ of 23 samples are kept in") as caught:
        draw(tmp_path / "job", Failing(12))
    assert caught.value.folder == tmp_path / "job" and "\n" not in str(caught.value)
    assert_resumes(tmp_path / "job")


def test_an_oracle_that_fails_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(da.JobError, match="the network is down; nothing was drawn yet"):
        draw(tmp_path / "job", Failing(2), shard_size=None)
    assert draw(tmp_path / "job").complete  # the folder is as good as new


@pytest.mark.parametrize("calls", [1, 3, 4, 7, 8, 11])
def test_a_full_disk_keeps_the_finished_shards(calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write fails, of the manifest or of a shard."""
    sync, left = os.fsync, calls

    def full(handle: int) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(da.JobError, match=r"No space left on device; \d+ of 23 samples are kept in") as caught:
        draw(tmp_path / "job")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "job").rglob("*.tmp"))  # what could not be written takes no room
    monkeypatch.undo()
    before = da.jobs.read(tmp_path / "job") if calls > 1 else draw(tmp_path / "job", stop=stopped())
    before.verify()
    after = draw(tmp_path / "job", resume=True)
    assert after.complete and after.shards[: len(before.shards)] == before.shards
    assert torch.equal(after.samples(), da.sample(ising(), NUM, sampler=da.Coupled(), seed=SEED).samples)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 12}, "seed is 11 there, not 12"),
        ({"num": 24}, "num is 23 there, not 24"),
        ({"shard_size": 6}, "shard_size is 5 there, not 6"),
        ({"name": "other"}, "name is 'ising' there, not 'other'"),
        ({"options": {"a": 1}}, "option a is None there, not 1"),
        ({"max_batch_size": 7}, "max_batch_size is None there, not 7"),
        ({"sampler": da.Block()}, "sampler is 'Coupled(.*)' there, not 'Block"),
        ({"sampler": da.Auto()}, "sampler is 'Coupled(.*)' there, not 'Auto"),
        ({"target": da.targets.Ising.grid(2, 3)}, r"steps is 9 there, not 6; shape is \(9,\) there, not \(6,\)"),
        ({"target": diffusion()}, "dtype is 'int64' there, not 'float64'"),
        ({"seed": 12, "num": 3}, "num is 23 there, not 3; seed is 11 there, not 12"),
    ],
)
def test_another_configuration_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    draw(tmp_path / "job", stop=stopped())
    with pytest.raises(da.InputError, match=words):
        draw(tmp_path / "job", resume=True, **change)


def stopped() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


def test_what_is_not_given_is_taken_from_the_job(tmp_path: Path) -> None:
    begun = draw(tmp_path / "job", stop=stopped(), max_batch_size=3)
    job = draw(tmp_path / "job", resume=True, sampler=None, seed=None, shard_size=None)
    assert job.config == begun.config and job.complete


def test_other_versions_are_refused_unless_asked_for(tmp_path: Path) -> None:
    draw(tmp_path / "job", stop=stopped())
    sealed(tmp_path / "job", lambda found: found["versions"][0].update(torch="1.0"))
    with pytest.raises(da.InputError, match=r"torch 1\.0 there"):
        draw(tmp_path / "job", resume=True)
    job = draw(tmp_path / "job", resume=True, any_version=True)
    assert [entry["torch"] for entry in job.manifest.versions] == ["1.0", torch.__version__] and job.complete
    assert draw(tmp_path / "job", resume=True) is not None  # the newest counts


def test_folders_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    draw(tmp_path / "job")
    with pytest.raises(da.InputError, match="holds a job already"):
        draw(tmp_path / "job")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    for resume in (False, True):
        with pytest.raises(da.InputError, match="is not empty, and holds no job"):
            draw(tmp_path / "full", resume=resume)
    (tmp_path / "file").write_text("")
    with pytest.raises(da.InputError, match="cannot be the folder of a job"):
        draw(tmp_path / "file")
    (tmp_path / "job" / "manifest.json").unlink()
    with pytest.raises(da.InputError, match="shards but no manifest"):
        draw(tmp_path / "job", resume=True)
    assert draw(tmp_path / "new" / "er", resume=True).complete


@pytest.mark.parametrize("at", [0, 9, 40, 200, -1])
def test_a_damaged_shard_is_named_and_drawn_again(at: int, tmp_path: Path) -> None:
    """Whichever byte it is, of the head's length, the head, the report or the samples; and a missing one is, too."""
    job = draw(tmp_path / "job")
    digests = [shard.sha256 for shard in job.shards]
    shard = tmp_path / "job" / "shards" / "000002.safetensors"
    whole = shard.read_bytes()
    data = bytearray(whole)
    data[at] ^= 1
    shard.write_bytes(data)
    with pytest.raises(da.InputError, match=r"000002\.safetensors"):
        job.samples()
    with pytest.warns(RuntimeWarning, match=r"damaged in .*job, and drawn again: 000002\.safetensors \(1 in all\)"):
        again = draw(tmp_path / "job", resume=True)
    assert shard.read_bytes() == whole and [shard.sha256 for shard in again.shards] == digests
    shard.unlink()
    with pytest.raises(da.InputError, match=r"000002\.safetensors is not readable"):
        job.samples()
    assert not da.jobs.read(tmp_path / "job").complete
    again = draw(tmp_path / "job", resume=True)
    assert torch.equal(again.samples(), da.sample(ising(), NUM, sampler=da.Coupled(), seed=SEED).samples)
    assert [shard.sha256 for shard in again.shards] == digests and again.shards == job.shards


def test_bytes_of_a_manifest_all_count(tmp_path: Path) -> None:
    draw(tmp_path / "job", stop=stopped())
    path = tmp_path / "job" / "manifest.json"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(da.InputError, match="the manifest"):
            da.jobs.read(tmp_path / "job")


def test_only_one_drawer_at_a_time(tmp_path: Path) -> None:
    seen = []

    def on_round(report: da.Report) -> None:
        if not seen:
            with pytest.raises(da.InputError, match=f"in use by process {os.getpid()} on ") as caught:
                draw(tmp_path / "job", resume=True)
            seen.append(caught)
            assert da.jobs.read(tmp_path / "job").num_samples == 0  # looking is free

    assert draw(tmp_path / "job", on_round=on_round).complete and seen
    assert draw(tmp_path / "job", resume=True).complete


def test_where_there_is_no_flock_windows_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module, played by flock: it locks a byte, which nobody else can read then."""
    fcntl = pytest.importorskip("fcntl", reason="no flock to play it")
    places = []

    def locking(handle: int, mode: int, size: int) -> None:
        assert (mode, size) == (2, 1)
        places.append(os.lseek(handle, 0, os.SEEK_CUR))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    test_only_one_drawer_at_a_time(tmp_path)
    assert set(places) == {1000} and (tmp_path / "job" / "lock").stat().st_size < 1000
    assert not lock.in_use(tmp_path / "job")


@dataclass(frozen=True)
class Mine(da.Sampler):
    """A sampler of the user's own."""

    guarantee: ClassVar[Guarantee] = Guarantee(exact=True, rounds="n", reference="mine")
    pace: int = 1

    def run(self, paths: Paths) -> Thread:
        return da.Sequential().run(paths)


def test_a_sampler_of_your_own_is_given_again(tmp_path: Path) -> None:
    draw(tmp_path / "job", sampler=Mine(), stop=stopped())
    assert da.jobs.read(tmp_path / "job").config.sampler.sampler is None
    with pytest.raises(da.InputError, match="a sampler of your own"):
        draw(tmp_path / "job", sampler=None, resume=True)
    with pytest.raises(da.InputError, match=r"Mine\(pace=1\)' there, not 'Mine\(pace=2\)"):
        draw(tmp_path / "job", sampler=Mine(2), resume=True)
    assert draw(tmp_path / "job", sampler=Mine(), resume=True).complete


def test_samplers_inside_samplers_are_written_down(tmp_path: Path) -> None:
    board = da.tilings.dominoes("square", 4)
    sampler = da.Separated(inner=da.Block(window=3))
    job = draw(tmp_path / "job", board, 3, sampler=sampler)
    assert da.jobs.read(tmp_path / "job").config.sampler.sampler == sampler
    assert torch.equal(job.samples(), da.sample(board, 3, sampler=sampler, seed=SEED).samples)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"num": 0}, "num_samples must be at least 1"),
        ({"shard_size": 0}, "shard_size must be at least 1"),
        ({"options": {"a": float("nan")}}, "options must be plain"),
        ({"options": {"a": object()}}, "options must be plain"),
        ({"seed": 2**65}, "seed must be"),
        ({"name": 3}, "name must be a text"),
        ({"num": 2_000_001, "shard_size": 1}, "shard_size must be at least 3 here"),
        ({"sampler": "blok"}, "there is no sampler .blok.; did you mean .block."),
        ({"sampler": 3}, "sampler must be a sampler"),
    ],
)
def test_bad_input_is_refused(wrong: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(da.InputError, match=words):
        draw(tmp_path / "job", **wrong)
    assert not (tmp_path / "job" / "manifest.json").exists()


def test_without_safetensors_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(da.InputError, match=r"pip install 'drawahead\[models\]'"):
        draw(tmp_path / "job")
    assert not (tmp_path / "job").exists()


class TestShardSize:
    """Half a minute of work, 64 MiB at most."""

    @pytest.mark.usefixtures("clock")
    def test_quick_samples_come_in_large_shards(self, tmp_path: Path) -> None:
        job = draw(tmp_path / "job", da.targets.Product.random(4, q=2), 2000, shard_size=None, sampler=da.Sequential())
        assert job.config.shard_size == 2000

    @pytest.mark.usefixtures("clock")
    def test_slow_ones_in_small_ones(self, tmp_path: Path) -> None:
        class Slow(Failing):
            def rows(self, tokens: torch.Tensor) -> torch.Tensor:
                time.sleep(0.05 * len(tokens))
                return super().rows(tokens)

        job = draw(tmp_path / "job", Slow(-1), 2000, shard_size=None, sampler=da.Sequential(), stop=stopped())
        assert job.config.shard_size == 64  # 66 samples in 30 seconds

    def test_large_ones_are_limited_by_their_bytes(self) -> None:
        big = da.GaussianChain(lambda x, k: x, da.DDPM(timesteps=range(900, -1, -100)), (1024, 1024))
        quick = da.sample(ising(), 4, seed=0)
        assert shard_size(big, 1000, lambda n, pace: quick) == 16
