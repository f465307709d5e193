"""Folders changed by somebody who knows how: what is left of their defences when all checksums are right; and folders
as earlier versions wrote them."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drawahead.jobs import files, store
from drawahead.jobs.config import Config

Edit = Callable[[dict[str, Any]], object]
OLD = Path(__file__).parents[1] / "data" / "old_jobs"
"""Jobs of `sequences.tokens` with two shards of three: `sealed` has a checksum in its manifest, `journal` a shard in a
journal, and `unsealed` no checksum, nothing about the chain, and shards that name no job."""


def resealed(manifest: dict[str, Any]) -> bytes:
    """A manifest with the checksum that it should have; one of format 1 without."""
    plain = {key: value for key, value in manifest.items() if key != store.SEAL}
    return json.dumps(plain).encode() if manifest.get("format") == 1 else store.sealed_json(plain)


def sealed(folder: Path, edit: Edit) -> None:
    """Edit the manifest, and give it the checksum that it should have then."""
    path = folder / "manifest.json"
    found = json.loads(path.read_text())
    edit(found)
    path.write_bytes(resealed(found))


def forged(folder: Path, edit: Edit) -> None:
    """Edit the manifest, and have every shard say that it is of the job that this makes."""
    sealed(folder, edit)
    config = Config.from_dict(json.loads((folder / "manifest.json").read_text()))
    for path in (folder / "shards").iterdir():
        path.write_bytes(told(path.read_bytes(), seed=config.seed, job=config.identity))


def told(shard: bytes, **changes: object) -> bytes:
    """A shard with other values in its report, and the checksum that it should have then."""
    (length,) = struct.unpack("<Q", shard[:8])
    head = json.loads(shard[8 : 8 + length])
    report = json.loads(head["__metadata__"]["report"]) | changes
    head["__metadata__"]["report"] = json.dumps(report | {store.SEAL: files.BLANK})
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return files.seal(struct.pack("<Q", len(text)) + text + shard[8 + length :])


def old(kind: str, folder: Path) -> Path:
    """A folder of an earlier version."""
    return Path(shutil.copytree(OLD / kind, folder))
