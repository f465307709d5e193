"""Job folders from anywhere: whatever is in one, reading it is a job or an error of drawahead's own."""

from __future__ import annotations

import copy
import functools
import json
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import drawahead as da
from drawahead import jobs, show
from drawahead.cli.app import run
from drawahead.jobs.files import BLANK, seal
from tests.fuzz.fuzzing import fuzzed, only_our_errors
from tests.jobs.forging import OLD, resealed, told

TARGET = da.targets.Pairs(4)
Files = dict[str, bytes]


class Two:
    """Stops a job once two shards are there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_set(self) -> bool:
        return len([*self.folder.glob("shards/0*")]) >= 2


@functools.cache
def good() -> Files:
    """The files of a job of three shards, one of them not drawn yet."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "job"
        draw(folder, stop=Two(folder), shard_size=2)
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def draw(folder: Path, stop: Two | None = None, shard_size: int | None = None) -> None:
    jobs.draw(
        folder,
        TARGET,
        6,
        name="pairs",
        options={"size": 4},
        seed=0,
        shard_size=shard_size,
        sampler=da.Coupled(),
        stop=stop,
        resume=True,
    )


@contextmanager
def folder_of(files: Files) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "job"
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        yield folder


def look(folder: Path) -> None:
    """Read all there is in a folder, each thing on its own."""
    with only_our_errors():
        job = jobs.read(folder)
        repr(job)
        for use in (job.samples, lambda: job.samples(1, 2), lambda: str(job.report), job.verify):
            with only_our_errors():
                use()
        for target in (None, TARGET):
            with only_our_errors():
                show.job_page(job, target=target)


def go_on(folder: Path) -> None:
    """Make a page, and go on with the job. Nothing may appear beside the folder."""
    assert run(["report", str(folder), "--quiet"]) in (0, 1)
    with only_our_errors():
        draw(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["job"]


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.sampled_from([0, 1, 2, 6, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, -1]),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["", "..", "../x", "/etc/passwd", "a\0b", "\ud800", "x" * 300, "000000.safetensors", "text"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)
"""JSON, and what Python's reader takes for it."""


def places(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there is something in a tree of JSON."""
    found = [at]
    if isinstance(tree, dict):
        found += [place for key, value in tree.items() for place in places(value, (*at, key))]
    elif isinstance(tree, list):
        found += [place for i, value in enumerate(tree) for place in places(value, (*at, i))]
    return found


def changed(tree: Any, data: st.DataObject) -> Any:
    """A tree with one thing replaced, removed or added."""
    tree = copy.deepcopy(tree)
    *path, last = data.draw(st.sampled_from(places(tree)[1:]), "place")
    inner = functools.reduce(lambda part, key: part[key], path, tree)
    how = data.draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]), "how")
    if how == "remove":
        del inner[last]
    elif how == "add" and isinstance(inner, dict):
        inner[data.draw(st.text(max_size=5), "key")] = data.draw(values, "value")
    else:
        inner[last] = data.draw(values, "value")
    return tree


def damaged(data: bytes, draw: st.DataObject) -> bytes:
    """Bytes of which some are gone, others, or more."""
    at = draw.draw(st.integers(0, len(data)), "at")
    return draw.draw(
        st.sampled_from([data[:at], data[at:], data[:at] + b"\xff" + data[at + 1 :], data[:at] + bytes(9) + data[at:]]),
        "damaged",
    )


def with_shard(shard: bytes) -> Files:
    """The first shard replaced."""
    return {**good(), "shards/000000.safetensors": shard}


def headed(data: st.DataObject) -> Files:
    """One thing changed in the head of a shard, and its checksum made to agree."""
    shard = good()["shards/000000.safetensors"]
    (length,) = struct.unpack("<Q", shard[:8])
    head = json.loads(shard[8 : 8 + length])
    head["__metadata__"]["report"] = json.loads(head["__metadata__"]["report"]) | {"sha256": BLANK}
    head = changed(head, data)
    if isinstance(head.get("__metadata__"), dict) and "report" in head["__metadata__"]:
        head["__metadata__"]["report"] = json.dumps(head["__metadata__"]["report"])
    text = json.dumps(head).encode()
    return with_shard(seal(struct.pack("<Q", len(text)) + text + shard[8 + length :]))


def edited(data: st.DataObject) -> Files:
    """One thing changed in the manifest."""
    tree = changed(json.loads(good()["manifest.json"]), data)
    sealed = data.draw(st.booleans(), "sealed")
    return {**good(), "manifest.json": resealed(tree) if sealed else json.dumps(tree).encode()}


def edited_of_old(data: st.DataObject) -> Files:
    """One thing changed in a manifest or a journal of format 1."""
    home = OLD / "journal"
    files = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    manifest = json.loads(files["manifest.json"])
    line = json.loads(files["journal.jsonl"].splitlines()[0])
    if data.draw(st.booleans(), "manifest"):
        files["manifest.json"] = resealed(changed({**manifest, "sha256": ""}, data))
    else:
        files["journal.jsonl"] = json.dumps(changed(line, data)).encode() + b"\n"
    return files


def broken(data: st.DataObject) -> Files:
    """A damaged file."""
    name = data.draw(st.sampled_from(["manifest.json", "shards/000000.safetensors", "lock"]))
    return {**good(), name: damaged(good()[name], data)}


def broken_shard(data: st.DataObject) -> Files:
    """A damaged shard whose checksum agrees, if it still has one."""
    blank = told(good()["shards/000000.safetensors"], drafted=0)
    digest = json.loads(json.loads(blank[8:].split(b"}}")[0] + b"}}")["__metadata__"]["report"])["sha256"]
    return with_shard(seal(damaged(blank.replace(digest.encode(), BLANK.encode(), 1), data)))


def anything(data: st.DataObject) -> Files:
    """No manifest at all, but something in its place."""
    text = data.draw(st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
    return {**good(), "manifest.json": text}


FOLDERS = st.sampled_from([headed, edited, edited, edited_of_old, broken, broken_shard, anything])


def test_the_folder_is_good() -> None:
    with folder_of(good()) as folder:
        job = jobs.read(folder)
        assert job.num_samples == 4 and not job.complete
        look(folder)
        go_on(folder)
        assert jobs.read(folder).complete


@fuzzed(300, make=FOLDERS, data=st.data())
def test_looking_at_any_folder(make: Callable[[st.DataObject], Files], data: st.DataObject) -> None:
    with folder_of(make(data)) as folder:
        look(folder)


@fuzzed(40, make=FOLDERS, data=st.data())
def test_going_on_with_any_folder(make: Callable[[st.DataObject], Files], data: st.DataObject) -> None:
    with folder_of(make(data)) as folder:
        go_on(folder)
