"""What else is done with the folder of a job: the journal, its condition, status, check, export."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.cli.app import run
from drawahead.jobs import Config, Job, Shard, journal, lock, manifest, status
from drawahead.jobs.export import export

NUM, SIZE = 23, 5


def draw(folder: Path, target: Any = None, **more: Any) -> Job:
    given = {"sampler": da.Sequential(), "seed": 1, "shard_size": SIZE, "name": "ising", "options": {"size": 3}}
    return da.jobs.draw(folder, target or da.targets.named("ising", 3), NUM, **(given | more))


def noted(folder: Path) -> Job:
    """The same job as a crash would leave it: nothing in the manifest, all in the journal, in another order."""
    job = da.jobs.read(folder)
    text = json.loads((folder / "manifest.json").read_text())
    shards, text["shards"] = text["shards"], []
    (folder / "manifest.json").write_text(json.dumps(manifest.sealed(text)))
    journal.note(folder, [job.shards[i] for i in (3, 0, 4)], job.config)
    assert len(shards) == 5
    return job


class TestJournal:
    def test_shards_come_in_any_order(self, tmp_path: Path) -> None:
        draw(tmp_path / "job")
        whole = noted(tmp_path / "job")
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
        assert again.shards[3] == whole.shards[3] and not (tmp_path / "job" / journal.NAME).exists()

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
    def test_a_line_that_is_written_counts(
        self, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever comes right after it, before this process has remembered."""
        note = journal.note

        def interrupted(folder: Path, shards: Sequence[Shard], config: Config) -> None:
            note(folder, shards, config)
            if shards[0].first == 5:
                raise error

        monkeypatch.setattr(journal, "note", interrupted)
        with pytest.raises((da.Interrupted, da.JobError), match="10 of 23 samples are kept"):
            draw(tmp_path / "job")
        monkeypatch.undo()
        before = da.jobs.read(tmp_path / "job")
        assert before.num_samples == 10
        assert draw(tmp_path / "job", resume=True).shards[:2] == before.shards

    @pytest.mark.parametrize("torn", [b'{"file": "0000', b"\0\0\0", b"{}"])
    def test_a_line_that_was_cut_off_tells_of_nothing(self, torn: bytes, tmp_path: Path) -> None:
        draw(tmp_path / "job")
        whole, path = noted(tmp_path / "job"), tmp_path / "job" / journal.NAME
        path.write_bytes(path.read_bytes() + torn)
        assert da.jobs.read(tmp_path / "job").finished == 13
        journal.mend(tmp_path / "job")
        journal.note(tmp_path / "job", [whole.shards[1]], whole.config)  # or it would be added to what was cut off
        assert da.jobs.read(tmp_path / "job").finished == 18

    @pytest.mark.parametrize("line", [b"{}\n", b"\xff\n", b'{"file": 1}\n', b"null\n", b"\n"])
    def test_a_line_that_is_none_is_refused(self, line: bytes, tmp_path: Path) -> None:
        draw(tmp_path / "job")
        noted(tmp_path / "job")
        path = tmp_path / "job" / journal.NAME
        path.write_bytes(line + path.read_bytes())
        with pytest.raises(da.InputError, match=r"the journal .*line 1"):
            da.jobs.read(tmp_path / "job")

    @pytest.mark.parametrize("link", ["symbolic", "hard"])
    def test_a_link_is_not_written_to(self, link: str, tmp_path: Path) -> None:
        draw(tmp_path / "job")
        (tmp_path / "job" / "shards" / "000001.safetensors").unlink()
        precious = tmp_path / "precious"
        precious.write_text("")
        path = tmp_path / "job" / journal.NAME
        path.symlink_to(precious) if link == "symbolic" else path.hardlink_to(precious)
        with pytest.raises(da.DrawaheadError):
            draw(tmp_path / "job", resume=True)
        assert precious.read_text() == ""

    def test_a_long_job_keeps_its_journal(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(journal, "MOST_IN_MANIFEST", 3)
        job = draw(tmp_path / "job")
        assert json.loads((tmp_path / "job" / "manifest.json").read_text())["shards"] == []
        assert da.jobs.read(tmp_path / "job").shards == job.shards and job.complete
        (tmp_path / "job" / "shards" / "000001.safetensors").unlink()
        again = draw(tmp_path / "job", resume=True)
        assert again.complete and [shard.sha256 for shard in again.shards] == [shard.sha256 for shard in job.shards]
        assert da.jobs.read(tmp_path / "job").complete

    def test_manifests_of_earlier_versions_are_read(self, tmp_path: Path) -> None:
        """Format 1 has not changed: shards in order, none missing, no journal."""
        draw(tmp_path / "job")
        found = json.loads((tmp_path / "job" / "manifest.json").read_text())
        assert found["format"] == manifest.FORMAT == 1
        assert [shard["first"] for shard in found["shards"]] == [0, 5, 10, 15, 20]


def told(x: Tensor, k: Tensor, towards: Tensor) -> Tensor:
    return 0.5 * x + towards


def test_the_condition_is_a_file_of_the_job(tmp_path: Path) -> None:
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
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(da.InputError, match=r"the condition .* is damaged"):
        _ = da.jobs.read(tmp_path / "job").condition
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
        assert not (tmp_path / "job" / status.NAME).exists()

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
        draw(tmp_path / "job")
        noted(tmp_path / "job")
        workers = {"workers": 4, "ready": 3, "replaced": 2, "note": "worker 1: killed"}
        with lock.locked(tmp_path / "job"):
            written = status.Status(tmp_path / "job", 3)
            now = time.time()
            written._fixed["since"] = now - 5
            monkeypatch.setattr(status.time, "time", lambda: now)
            written.tell(13, workers, "", last=False)
            assert run(["status", str(tmp_path / "job")]) == 0
        assert "2 per second, 0:05 left, 3 of 4 workers, 2 replaced, worker 1: killed" in capsys.readouterr().out

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1}', "\0"])
    def test_what_is_none_is_refused(self, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        draw(tmp_path / "job")
        (tmp_path / "job" / status.NAME).write_text(text)
        assert run(["status", str(tmp_path / "job")]) == 1 and capsys.readouterr().err.count("\n") == 1


class TestCheck:
    @pytest.mark.parametrize("which", [0, 2])
    def test_damage_is_found_and_drawn_again(
        self, which: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        job = draw(tmp_path / "job")
        assert run(["check", str(tmp_path / "job")]) == 0 and "all 5 shards" in capsys.readouterr().out
        shard, gone = (tmp_path / "job" / "shards" / job.shards[i].file for i in (which, 4))
        data = shard.read_bytes()
        shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        gone.unlink()
        assert [each.file for each in job.damaged()] == [shard.name, gone.name]
        assert run(["check", str(tmp_path / "job")]) == 0
        assert (
            "2 of 5 shards are damaged" in (shown := capsys.readouterr().out)
            and "2 of them with the very same" in shown
        )
        assert shard.read_bytes() == data and not da.jobs.read(tmp_path / "job").damaged()

    def test_a_model_of_ones_own_must_be_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        job = draw(tmp_path / "job", name="mine", options={})
        (tmp_path / "job" / "shards" / job.shards[1].file).write_bytes(b"")
        assert run(["check", str(tmp_path / "job")]) == 1
        assert "name the model with --target" in capsys.readouterr().err
        (tmp_path / "mine.py").write_text("import drawahead as da\ntarget = da.targets.named('ising', 3)\n")
        assert run(["check", str(tmp_path / "job"), "--target", f"{tmp_path / 'mine.py'}:target", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["same_bytes"] == [job.shards[1].file]

    def test_another_target_is_refused(self, tmp_path: Path) -> None:
        job = draw(tmp_path / "job")
        (tmp_path / "job" / "shards" / job.shards[1].file).unlink()
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

    def test_what_cannot_be_written_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        job = draw(tmp_path / "job")
        (tmp_path / "job" / "shards" / job.shards[3].file).write_bytes(b"")
        for name in ("a.npz", "a.zarr"):
            with pytest.raises(da.InputError, match="is damaged"):
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
