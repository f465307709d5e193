"""The journal: a line for each shard that was finished since the manifest was written.

A manifest is written as a whole, which for many shards takes long; a line is added in the same time however many there
are. Shards are noted in the order in which they come, which with several workers is any. When a run ends the journal is
taken into the manifest, unless the job is so long that a manifest should not hold it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from drawahead import validate
from drawahead.errors import InputError
from drawahead.jobs import files, manifest
from drawahead.jobs.config import Config
from drawahead.jobs.manifest import Manifest, Shard

NAME = "journal.jsonl"
MOST_IN_MANIFEST = 10_000
"""Shards of a job whose manifest holds them all in the end."""
_MOST_BYTES = 2**30
_JOB = "job"


def read(folder: Path) -> Manifest:
    """What is known about the job in a folder: its manifest, and what the journal tells beside. All is checked."""
    text = _text(folder)  # first: whoever draws may be just about to take it into the manifest
    found = manifest.read(folder)
    try:
        return found.plus(_parsed(text, found.config))
    except InputError as error:
        raise InputError(f"the journal {folder / NAME}: {error}") from None


def note(folder: Path, shards: Sequence[Shard], config: Config) -> None:
    """Write down that these shards are there, and of which job they are."""
    files.append(folder / NAME, b"".join(_line(shard, config) for shard in shards))


def lines(folder: Path, config: Config) -> list[Shard]:
    """The shards that the journal tells of."""
    return _parsed(_text(folder), config)


def close(folder: Path, found: Manifest) -> None:
    """Write the manifest as it is now, with what the journal tells, unless that is too much."""
    found = found.plus(lines(folder, found.config))  # Ctrl-C may have come between a line and who remembers it
    if found.config.shards > MOST_IN_MANIFEST:
        replace(found, shards=()).write(folder)
        return
    found.write(folder)
    (folder / NAME).unlink(missing_ok=True)


def mend(folder: Path) -> None:
    """Remove a line that a crash left half-written: it tells of nothing, and the next one must not be added to it."""
    path = folder / NAME
    if path.exists():
        whole = _text(folder)
        if path.stat().st_size > len(whole):
            files.write(path, whole)


def _line(shard: Shard, config: Config) -> bytes:
    return json.dumps(shard.to_dict() | {_JOB: config.identity}, separators=(",", ":")).encode() + b"\n"


def _text(folder: Path) -> bytes:
    """All whole lines."""
    if not (folder / NAME).is_symlink() and not (folder / NAME).exists():
        return b""
    data = files.read(folder / NAME, "the journal", _MOST_BYTES)
    return data[: data.rfind(b"\n") + 1]


def _parsed(text: bytes, config: Config) -> list[Shard]:
    """The shards of this job. Lines of another one, whose folder was here before, tell nothing."""
    found = []
    for i, line in enumerate(io.BytesIO(text)):
        told = validate.parsed(f"line {i + 1}", line)
        job = told.pop(_JOB, config.identity) if isinstance(told, dict) else None  # earlier versions wrote none
        if not isinstance(told, dict) or job == config.identity:
            found.append(manifest.shard(told, f"the shard of line {i + 1}", config))
    return found
