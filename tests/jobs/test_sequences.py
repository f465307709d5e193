"""Sequences of calls on one folder, compared with a fresh folder; and bugs that jobs have had, each put back: some case
must find it."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import drawahead as da
from drawahead.jobs import config, files, lock, shards
from drawahead.jobs.store import SEAL
from tests.jobs.sequences import ASKED, CASES, CHANGED, EDITS, MANIFEST, draw, tokens

Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("name", CASES)
def test_a_sequence(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path / "job")


def test_every_field_has_its_turn(tmp_path: Path) -> None:
    """Of a request, of every chain, and of a manifest."""
    asked = {field.name for field in dataclasses.fields(da.jobs.model.JobRequest)}
    assert {"num" if name == "num_samples" else name for name in ASKED} == asked
    # The user's own, or compared since ever.
    model = {"oracle", "length", "vocab_size", "denoiser", "condition", "shape", "device"}
    kinds = (da.TokenChain, da.GaussianChain, da.StackedChain)
    settings = {name for kind in kinds for name in inspect.signature(kind).parameters}
    changed = {name for _, change in CHANGED.values() for name in change}
    assert settings - model == changed
    draw(tmp_path / "job", tokens(), shards=2)
    found = json.loads((tmp_path / "job" / MANIFEST).read_text())
    parts = {what.split("/")[0] for what in EDITS}
    assert found.keys() - {"format", SEAL} == parts
    assert {f"chain/{name}" for name in found["chain"]} <= EDITS.keys()


def chains_not_compared(patch: Patch) -> None:
    """Of a chain its shape, steps and condition were compared, and nothing else."""
    patch.setattr(config, "digests", lambda chain: {})


def one_thing_not_compared(name: str) -> Callable[[Patch], None]:
    def put_back(patch: Patch) -> None:
        own = config.digests
        patch.setattr(config, "digests", lambda chain: {key: text for key, text in own(chain).items() if key != name})

    put_back.__name__ = f"{name}_not_compared"
    return put_back


def no_checksum(patch: Patch) -> None:
    """The manifest had no checksum."""
    patch.setattr(files, "is_sealed", lambda data, digest: True)


def shards_of_any_job(patch: Patch) -> None:
    """Shards were taken for those of the job if the manifest told of them."""
    patch.setattr(shards, "_check_job", lambda about, config, path: None)


def seeds_not_compared(patch: Patch) -> None:
    """Folders of earlier versions: what a shard tells of its seed was not looked at."""
    own = shards._check_job

    def check(about: dict[str, Any], wanted: da.jobs.Config, path: Path) -> None:
        own(about | {"seed": wanted.seed}, wanted, path)

    patch.setattr(shards, "_check_job", check)


def journals_adopt_all(patch: Patch) -> None:
    """Lines of another job were taken for ours."""
    patch.setattr(config.Config, "identity", "1" * 64)


def records_not_compared(patch: Patch) -> None:
    """Shards of earlier versions were taken for what the manifest tells."""
    own = shards.listed

    def listed(folder: Path, told: da.jobs.Config, records: dict[str, str]) -> tuple[shards.Shard, ...]:
        return own(folder, told, {name: files.sha256((folder / "shards" / name).read_bytes()) for name in records})

    patch.setattr(shards, "listed", listed)


def locks_of_deleted_files(patch: Patch) -> None:
    """A lock counted as held, whatever had become of its file."""
    patch.setattr(lock, "held", lambda folder, token: True)


BUGS: list[tuple[Callable[[Patch], None], str]] = [
    (chains_not_compared, "another"),
    *(
        (one_thing_not_compared(name), "another")
        for name in ("evidence", "order", "numbers", "start", "known", "around")
    ),
    *((one_thing_not_compared(name), "another") for name in ("clean", "record", "law_dtype", "schedule", "adjust")),
    *((one_thing_not_compared(name), "another") for name in ("project", "plan")),
    (no_checksum, "edited by hand"),
    (shards_of_any_job, "edited to agree"),
    (shards_of_any_job, "foreign shard"),
    (seeds_not_compared, "edited, of old"),
    (journals_adopt_all, "foreign lines"),
    (records_not_compared, "old folder"),
    (locks_of_deleted_files, "replaced"),
    (locks_of_deleted_files, "deleted"),
]
"""What is put back, and how the names of cases begin that must find it."""


@pytest.mark.parametrize(("put_back", "where"), BUGS, ids=lambda part: getattr(part, "__name__", part))
def test_a_bug_is_found(put_back: Callable[[Patch], None], where: str, tmp_path: Path, monkeypatch: Patch) -> None:
    put_back(monkeypatch)
    numbers = itertools.count()
    near = sorted(
        (name for name in CASES if name.startswith(where)), key=lambda name: name[8:] not in put_back.__name__
    )

    def finds(name: str) -> bool:
        try:
            CASES[name](tmp_path / str(next(numbers)) / "job")
        except (AssertionError, pytest.fail.Exception, da.DrawaheadError, OSError):
            return True
        return False

    assert any(finds(name) for name in near)
