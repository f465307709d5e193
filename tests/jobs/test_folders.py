"""What else is done with the folder of a job: the journal, its condition, status, check, export."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.cli.app import run
from drawahead.jobs import Job, files, lock, store
from drawahead.jobs.export import export

NUM, SIZE = 23, 5


def draw(folder: Path, target: Any = None, **more: Any) -> Job:
    given = {"sampler": da.Sequential(), "seed": 1, "shard_size": SIZE, "name": "ising", "options": {"size": 3}}
    return da.jobs.draw(folder, target or da.targets.named("ising", 3), NUM, **(given | more))


class TestShards:
    def test_they_come_in_any_order(self, tmp_path: Path) -> None:
        whole = draw(tmp_path / "job")
        for i in (1, 2):
            (tmp_path / "job" / "shards" / whole.shards[i].file).unlink()
        (tmp_path / "job" / "shards" / "notes.txt").write_text("not a shard")
        (tmp_path / "job" / "shards" / "000009.safetensors").write_text("nor is this, of a job of five")
        part = da.jobs.read(tmp_path / "job")
        assert part.shards == tuple(whole.shards[i] for i in (0, 3, 4))
        assert (part.num_samples, part.finished, part.complete) == (5, 13, False)
        assert torch.equal(part.samples(), whole.samples(0, 5)) and torch.equal(
            torch.cat([*part.parts()]), part.samples()
        )
        with pytest.raises(da.InputError, match=r"samples 0 \.\.\. 4"):
            part.samples(3, 4)
        again = draw(tmp_path / "job", resume=True)
        assert again.complete and torch.equal(again.samples(), whole.samples())

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
    def test_one_that_is_written_counts(
        self, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever comes right after it, before this process has remembered."""
        write = files.write

        def interrupted(path: Path, data: bytes) -> None:
            write(path, data)
            if path.name == "000001.safetensors":
                raise error

        monkeypatch.setattr(files, "write", interrupted)
        with pytest.raises((da.Interrupted, da.JobError), match="10 of 23 samples are kept"):
            draw(tmp_path / "job")
        monkeypatch.undo()
        before = da.jobs.read(tmp_path / "job")
        assert before.num_samples == 10
        assert draw(tmp_path / "job", resume=True).shards[:2] == before.shards


def told(x: Tensor, k: Tensor, towards: Tensor) -> Tensor:
    return 0.5 * x + towards


def test_the_condition_is_a_file_of_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    towards = torch.linspace(-1, 1, NUM, dtype=torch.float64)[:, None].expand(NUM, 3).clone()
    schedule = da.DDPM(timesteps=range(900, -1, -300))
    chain = da.GaussianChain(told, schedule, (3,), dtype=torch.float64, condition={"towards": towards})
    job = draw(tmp_path / "job", chain)
    assert torch.equal(da.jobs.read(tmp_path / "job").condition["towards"], towards)
    again = da.sample(chain.replace(condition=job.condition), NUM, sampler=da.Sequential(), seed=1)
    assert torch.equal(again.samples, job.samples())
    with pytest.raises(da.InputError, match="condition is"):
        draw(tmp_path / "job", chain.replace(condition={"towards": towards + 1}), resume=True)
    path = tmp_path / "job" / "condition.safetensors"
    data = path.read_bytes()
    for damage in (lambda: path.write_bytes(data[:-1] + b"!"), path.unlink, lambda: path.write_bytes(b"")):
        damage()
        for look in (job.verify, lambda: export(job, tmp_path / "a.npz")):
            with pytest.raises(da.InputError, match="the condition "):
                look()
        assert run(["status", str(tmp_path / "job")]) == 0
        assert "1 damaged: condition.safetensors; drawahead check" in capsys.readouterr().out
        assert run(["export", str(tmp_path / "job"), "--to", "txt"]) == 1 and not (tmp_path / "job.txt").exists()
        assert draw(tmp_path / "job", chain, resume=True).complete and path.read_bytes() == data
    assert draw(tmp_path / "plain").condition == {}


class TestStatus:
    def test_of_a_job_that_is_drawn(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        seen = []

        def look(report: da.Report) -> None:
            if da.jobs.read(tmp_path / "job").finished == 10 and not seen:
                assert (
                    run(["status", str(tmp_path / "job")]) == 0
                    and run(["status", str(tmp_path / "job"), "--json"]) == 0
                )
                seen.extend(capsys.readouterr().out.splitlines())

        draw(tmp_path / "job", on_round=look)
        found = json.loads(seen[1])
        assert found["drawing"] and (found["done"], found["num"], found["shards"]) == (10, NUM, 2)
        assert seen[0].startswith("ising: 10 of 23 samples in 2 shards")
        assert run(["status", str(tmp_path / "job"), "--watch"]) == 0
        assert capsys.readouterr().out == "ising: 23 of 23 samples in 5 shards, complete\n"
        assert not (tmp_path / "job" / store.STATUS).exists()

    def test_of_one_that_stopped(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        def fail(report: da.Report) -> None:
            if da.jobs.read(tmp_path / "job").finished == 10:
                raise RuntimeError("the network is down")

        with pytest.raises(da.JobError):
            draw(tmp_path / "job", on_round=fail)
        assert run(["status", str(tmp_path / "job")]) == 0
        shown = capsys.readouterr().out
        assert "stopped: the network is down; 10 of 23 samples are kept" in shown and "--resume" in shown

    def test_the_rate_and_the_workers(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = draw(tmp_path / "job")
        for shard in job.shards[1:3]:
            shard.path.unlink()
        workers = {"workers": 4, "ready": 3, "replaced": 2, "note": "worker 1: killed"}
        with lock.locked(tmp_path / "job"):
            written = store.Status(tmp_path / "job", 3)
            now = time.time()
            written._fixed["since"] = now - 5
            monkeypatch.setattr(store.time, "time", lambda: now)
            written.tell(13, workers)
            assert run(["status", str(tmp_path / "job")]) == 0
        assert "2 per second, 0:05 left, 3 of 4 workers, 2 replaced, worker 1: killed" in capsys.readouterr().out

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1}', "\0", "[" * 99_999])
    def test_a_damaged_file_tells_nothing(self, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        draw(tmp_path / "job")
        (tmp_path / "job" / store.STATUS).write_text(text)
        assert run(["status", str(tmp_path / "job")]) == 0
        assert capsys.readouterr().out == "ising: 23 of 23 samples in 5 shards, complete\n"
        draw(tmp_path / "job", resume=True)
        assert not (tmp_path / "job" / store.STATUS).exists()

    def test_of_damaged_shards(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        job = draw(tmp_path / "job")
        job.shards[1].path.write_bytes(b"")
        assert run(["status", str(tmp_path / "job")]) == 0
        assert "1 damaged: 000001.safetensors; drawahead check" in capsys.readouterr().out
        assert run(["report", str(tmp_path / "job")]) == 1
        assert "000001.safetensors" in capsys.readouterr().err


class TestCheck:
    @pytest.mark.parametrize("which", [0, 2])
    def test_damage_is_found_and_drawn_again(
        self, which: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        job = draw(tmp_path / "job")
        assert run(["check", str(tmp_path / "job")]) == 0 and "all 5 shards are sound" in capsys.readouterr().out
        damaged = [job.shards[i].path for i in (which, 4)]
        data = [path.read_bytes() for path in damaged]
        damaged[0].write_bytes(data[0][:-1] + bytes([data[0][-1] ^ 1]))
        damaged[1].write_bytes(b"")
        assert [each.path for each in job.damaged()] == damaged
        assert run(["check", str(tmp_path / "job")]) == 0
        assert f"2 damaged: {damaged[0].name}, {damaged[1].name}; drawn again" in capsys.readouterr().out
        assert [path.read_bytes() for path in damaged] == data and not da.jobs.read(tmp_path / "job").damaged()

    def test_resuming_draws_damage_again_and_says_so(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        job = draw(tmp_path / "job")
        data = job.shards[2].path.read_bytes()
        job.shards[2].path.write_bytes(data[:-1])
        assert run(["sample", "ising", "--out", str(tmp_path / "job"), "--resume", "--quiet"]) == 0
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and "drawn again: 000002.safetensors (1 in all)" in told
        assert job.shards[2].path.read_bytes() == data

    def test_a_model_of_ones_own_must_be_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        job = draw(tmp_path / "job", name="mine", options={})
        (tmp_path / "job" / "shards" / job.shards[1].file).write_bytes(b"")
        assert run(["check", str(tmp_path / "job")]) == 1
        assert "name the model with --target" in capsys.readouterr().err
        (tmp_path / "mine.py").write_text("import drawahead as da\ntarget = da.targets.named('ising', 3)\n")
        assert run(["check", str(tmp_path / "job"), "--target", f"{tmp_path / 'mine.py'}:target", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["drawn_again"] == [job.shards[1].file]

    def test_another_target_is_refused(self, tmp_path: Path) -> None:
        job = draw(tmp_path / "job")
        job.shards[1].path.write_bytes(b"")
        with pytest.raises(da.InputError, match="begun with another configuration: steps"):
            da.jobs.mend(tmp_path / "job", da.targets.named("ising", 2))


def pictures() -> da.GaussianChain:
    return da.GaussianChain(da.targets.DataSet(torch.eye(9).view(9, 3, 3)), da.DDPM(timesteps=range(900, -1, -100)))


class TestExport:
    def test_arrays(self, tmp_path: Path) -> None:
        for name, target in (("tokens", None), ("images", pictures())):
            job = draw(tmp_path / name, target)
            expected = job.samples().numpy()
            export(job, tmp_path / f"{name}.npz")
            found = np.load(tmp_path / f"{name}.npz")
            assert np.array_equal(found["samples"], expected) and found["samples"].dtype == expected.dtype
            assert np.array_equal(found["numbers"], np.arange(NUM))
            export(job, tmp_path / f"{name}.zarr")
            assert np.array_equal(zarr(tmp_path / f"{name}.zarr"), expected)

    def test_texts_and_pictures(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = str(tmp_path / "words")
        assert run(["sample", "text", "--size", "6", "--num", "3", "--out", folder, "--shard-size", "2", "-q"]) == 0
        for form in ("txt", "fasta"):
            assert run(["export", folder, "--to", form]) == 0
        lines = (tmp_path / "words.txt").read_text().splitlines()
        assert len(lines) == 3 and all(len(line) == 6 for line in lines)
        fasta = (tmp_path / "words.fasta").read_text().splitlines()
        assert fasta[1::2] == lines and fasta[::2] == [">0 text", ">1 text", ">2 text"]
        assert run(["export", folder, "--to", "txt"]) == 1 and "is there already" in capsys.readouterr().err
        assert run(["export", folder, "--to", "png"]) == 1 and "are no images" in capsys.readouterr().err
        for form, name, message in (
            ("png", "picture", "must end in .png"),
            ("txt", "gone/a.txt", "there is no folder"),
        ):
            assert run(["export", folder, "--to", form, "--out", str(tmp_path / name)]) == 1
            assert message in capsys.readouterr().err

    def test_what_cannot_be_written_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        job = draw(tmp_path / "job")
        (tmp_path / "job" / "shards" / job.shards[3].file).write_bytes(b"")
        for name in ("a.npz", "a.zarr"):
            with pytest.raises(da.InputError, match=r"000003\.safetensors"):
                export(job, tmp_path / name)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(da.InputError, match="pip install pyarrow"):
            export(job, tmp_path / "a.parquet")
        with pytest.raises(da.InputError, match="must end in"):
            export(job, tmp_path / "a.csv")
        assert [path.name for path in tmp_path.iterdir()] == ["job"]

    def test_parquet(self, tmp_path: Path) -> None:
        parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
        job = draw(tmp_path / "job")
        export(job, tmp_path / "a.parquet")
        table = parquet.read_table(tmp_path / "a.parquet")
        assert np.array_equal(np.stack(table["sample"].to_numpy()), job.samples().numpy())
        assert table["number"].to_pylist() == list(range(NUM))


def zarr(folder: Path) -> np.ndarray[Any, Any]:
    """As the specification of format 2 has it: chunks of one size, row by row, those at the end padded."""
    head = json.loads((folder / ".zarray").read_text())
    assert head["zarr_format"] == 2 and head["compressor"] is None and head["order"] == "C"
    number = -(-head["shape"][0] // head["chunks"][0])
    names = [".".join([str(i), *("0" for _ in head["shape"][1:])]) for i in range(number)]
    chunks = [np.frombuffer((folder / name).read_bytes(), head["dtype"]).reshape(head["chunks"]) for name in names]
    return np.concatenate(chunks)[: head["shape"][0]]
