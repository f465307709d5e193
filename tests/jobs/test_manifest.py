"""The manifest of a folder that came from anywhere: whatever is wrong with it is an InputError that says so."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import drawahead as da
from tests.jobs.forging import OLD, old, resealed


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A manifest as it should be."""
    folder = tmp_path_factory.mktemp("job") / "job"
    sampler = da.Separated(inner=da.Block(window=3))
    da.jobs.draw(folder, da.tilings.dominoes("square", 2), 5, name="a", sampler=sampler, seed=0, shard_size=2)
    return (folder / "manifest.json").read_text()


def read(folder: Path, text: str | bytes) -> da.jobs.Job:
    (folder / "manifest.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    return da.jobs.read(folder)


def test_a_sound_one_is_read(text: str, tmp_path: Path) -> None:
    job = read(tmp_path, text)
    assert job.config.num == 5 and job.config.sampler.sampler == da.Separated(inner=da.Block(window=3))
    assert json.loads(text)["target"] == {"name": "a", "options": {}}


def edited(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Sets what is at a path such as shards/0/file."""
    *parts, last = [int(part) if part.isdecimal() else part for part in path.split("/")]

    def edit(found: Any) -> None:
        for part in parts:
            found = found[part]
        found[last] = value

    return edit


WRONG = [
    ("format", 3),
    ("format", True),
    ("format", "1"),
    ("num", 0),
    ("num", 1.5),
    ("num", 10**30),
    ("seed", "0"),
    ("seed", None),
    ("shard_size", 0),
    ("shard_size", 9),
    ("steps", -1),
    ("shape", "4"),
    ("shape", [4, -1]),
    ("shape", [1] * 9),
    ("dtype", "object"),
    ("dtype", []),
    ("device", 1),
    ("graphs", 0),
    ("max_live", None),
    ("max_batch_size", 0),
    ("target", "a"),
    ("target/name", 5),
    ("target/options", []),
    ("created", 5),
    ("versions", []),
    ("versions/0/torch", 2),
    ("versions/0", {}),
    ("seconds", "1"),
    ("seconds", -1),
    ("oracle_seconds", None),
    ("records", []),
    ("records", {"000000.safetensors": 1}),
    ("sampler", None),
    ("sampler/text", "Block()"),
    ("sampler/kind/name", "Exit"),
    ("sampler/kind/settings", {}),
    ("sampler/kind/settings/spread", 1),
    ("sampler/kind/settings/inner", None),
    ("sampler/kind/settings/inner/settings/window", "3"),
    ("sampler/kind/settings/inner/settings/window", -3),
    ("sampler/kind/settings/inner/settings/pipelined", None),
    ("sampler/probes", -1),
    ("more", 1),
    ("chain", []),
    ("chain", {"order": 1}),
    ("chain/order", "x" * 101),
    ("chain", {str(i): "" for i in range(101)}),
    ("sha256", ""),
    ("sha256", None),
    ("sha256", "0" * 64),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_anything_wrong_is_refused(path: str, value: object, text: str, tmp_path: Path) -> None:
    found = json.loads(text)
    edited(path, value)(found)
    # or the checksum would be all that is looked at
    data = json.dumps(found).encode() if path == "sha256" else resealed(found)
    with pytest.raises(da.InputError, match="the manifest ") as caught:
        read(tmp_path, data)
    assert path == "sha256" or "it is damaged, or was edited" not in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500 + len(str(tmp_path))


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": 1, "format": 1}',
        b'{"format": NaN}',
        b'{"format": 1' + b"0" * 5000 + b"}",
        b"null",
    ],
)
def test_what_is_not_even_a_manifest_is_refused(given: bytes, tmp_path: Path) -> None:
    with pytest.raises(da.InputError, match="the manifest "):
        read(tmp_path, given)


OLD_WRONG = [
    ("shards", {}),
    ("shards/0", None),
    ("shards/0/file", "../../etc/passwd"),
    ("shards/0/file", "000001.safetensors"),
    ("shards/0/file", "/000000.safetensors"),
    ("shards/0/first", 0.0),
    ("shards/1/sha256", 5),
    ("shards/1/report/seconds", "1"),
    ("shards/1/report", {}),
    ("shards/1/more", 1),
    ("report", None),
    ("sha256", ""),
    ("sha256", "0" * 64),
    ("num", 0),
]


@pytest.mark.parametrize(("path", "value"), OLD_WRONG)
def test_anything_wrong_in_an_old_one_is_refused(path: str, value: object, tmp_path: Path) -> None:
    found = json.loads((OLD / "sealed" / "manifest.json").read_text())
    if path == "report":
        del found["report"]
    else:
        edited(path, value)(found)
    with pytest.raises(da.InputError, match="the manifest "):
        read(tmp_path, json.dumps(found))
    if path != "sha256":
        with pytest.raises(da.InputError, match="the manifest "):
            read(tmp_path, resealed(found))


@pytest.mark.parametrize("line", [b"{}\n", b"\xff\n", b'{"file": 1}\n', b"null\n", b"\n", b"[" * 99999 + b"\n"])
def test_a_line_of_an_old_journal_that_is_none_is_refused(line: bytes, tmp_path: Path) -> None:
    path = old("journal", tmp_path / "job") / "journal.jsonl"
    path.write_bytes(line + path.read_bytes())
    with pytest.raises(da.InputError, match="journal"):
        da.jobs.read(tmp_path / "job")


def test_keys_that_are_missing_are_refused(text: str, tmp_path: Path) -> None:
    for key in json.loads(text):
        found = {name: value for name, value in json.loads(text).items() if name != key}
        for data in (json.dumps(found).encode(), resealed(found)):
            if key != "sha256" or data != resealed(found):
                with pytest.raises(da.InputError, match="the manifest "):
                    read(tmp_path, data)


def test_only_plain_files_are_read(text: str, tmp_path: Path) -> None:
    with pytest.raises(da.InputError, match="holds no job"):
        da.jobs.read(tmp_path)
    with pytest.raises(da.InputError, match="holds no job"):
        da.jobs.read(tmp_path / "nothing")
    (tmp_path / "real.json").write_text(text)
    (tmp_path / "manifest.json").symlink_to(tmp_path / "real.json")
    with pytest.raises(da.InputError, match="not readable"):
        da.jobs.read(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(da.InputError, match=r"not a plain file|not readable"):
        da.jobs.read(tmp_path)
    (tmp_path / "manifest.json").rmdir()
    os.mkfifo(tmp_path / "manifest.json")  # opening it would wait for a writer
    with pytest.raises(da.InputError, match="not a plain file"):
        da.jobs.read(tmp_path)


@pytest.mark.parametrize("cut", [0, 4, 8, 100, -1])
def test_shards_that_are_cut_are_refused(cut: int, tmp_path: Path) -> None:
    job = da.jobs.draw(tmp_path / "job", da.targets.Pairs(4), 5, name="a", sampler=da.Sequential(), seed=0)
    shard = tmp_path / "job" / "shards" / "000000.safetensors"
    data = shard.read_bytes()
    for damaged in (data[:cut], data[:cut] + b"\xff" * (len(data) - len(data[:cut]))):
        shard.write_bytes(damaged)
        with pytest.raises(da.InputError, match="shard"):
            job.samples()
        try:
            report = da.jobs.read(tmp_path / "job").report  # only the head is read: that may have survived
        except da.InputError:
            continue
        assert report.num_samples == 5
