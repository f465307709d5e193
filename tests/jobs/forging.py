"""Manifests changed by somebody who knows how: what is left of a folder's defences when its checksums are right."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drawahead.jobs import files, manifest
from drawahead.jobs.config import Config

Edit = Callable[[dict[str, Any]], object]


def sealed(folder: Path, edit: Edit) -> None:
    """Edit the manifest, and give it the checksum that it should have then."""
    path = folder / manifest.NAME
    found = json.loads(path.read_text())
    edit(found)
    path.write_text(json.dumps(manifest.sealed(found) if manifest.SEAL in found else found))


def forged(folder: Path, edit: Edit) -> None:
    """Edit the manifest, and have every shard say that it is of the job that this makes."""
    sealed(folder, edit)

    def sign(found: dict[str, Any]) -> None:
        config = Config.from_dict(dict(found))
        for shard in found["shards"]:
            path = folder / manifest.SHARDS / shard["file"]
            data = told(path.read_bytes(), seed=config.seed, job=config.identity)
            path.write_bytes(data)
            shard |= {"bytes": len(data), "sha256": files.sha256(data)}

    sealed(folder, sign)


def told(shard: bytes, **changes: object) -> bytes:
    """A shard with other values in its report; those that are None are left out."""
    (length,) = struct.unpack("<Q", shard[:8])
    head = json.loads(shard[8 : 8 + length])
    report = json.loads(head["__metadata__"]["report"]) | changes
    kept = {key: value for key, value in report.items() if value is not None or key not in changes}
    head["__metadata__"]["report"] = json.dumps(kept)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + shard[8 + length :]


def aged(folder: Path) -> None:
    """The folder as earlier versions wrote it: no checksum, nothing about the chain, and shards that name no job."""
    path = folder / manifest.NAME
    found = json.loads(path.read_text())
    for shard in found["shards"]:
        file = folder / manifest.SHARDS / shard["file"]
        data = told(file.read_bytes(), job=None)
        file.write_bytes(data)
        shard |= {"bytes": len(data), "sha256": files.sha256(data)}
    del found[manifest.SEAL], found["chain"]
    path.write_text(json.dumps(found))
