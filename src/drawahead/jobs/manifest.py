"""The manifest: a job on disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, final

from drawahead import validate
from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.jobs.config import Config
from drawahead.validate import short

NAME = "manifest.json"
SHARDS = "shards"
SEAL = "sha256"
FORMAT = 1
_MOST_BYTES = 64 * 2**20
_CONFIG = ("target", *(field.name for field in fields(Config) if field.name not in ("name", "options")))
COUNTS = ("num_samples", "steps", "rounds", "queries", "passes", "rereads", "drafted", "accepted", "candidates")
SECONDS = ("seconds", "oracle_seconds")


@final
@dataclass(frozen=True, slots=True)
class Shard:
    """A finished shard."""

    file: str
    first: int
    """The number of its first sample."""
    count: int
    bytes: int
    sha256: str
    report: dict[str, Any]
    """Totals: rounds, queries, seconds and so on; round by round they are in the file itself."""

    def to_dict(self) -> dict[str, Any]:
        """As the manifest holds it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@final
@dataclass(frozen=True)
class Manifest:
    """What is known about a job."""

    config: Config
    created: str
    versions: list[dict[str, Any]]
    """Of drawahead, torch and python, with the first shard they drew; one entry, unless they changed on the way."""
    shards: tuple[Shard, ...] = ()
    """In the order of their samples. Some may be missing between them: several workers do not finish in order."""

    def plus(self, shards: Iterable[Shard]) -> Manifest:
        """With these shards too; of two that hold the same samples the later one counts."""
        known = {shard.first: shard for shard in (*self.shards, *shards)}
        return replace(self, shards=tuple(known[first] for first in sorted(known)))

    def write(self, folder: Path) -> None:
        """Replace the manifest in the folder."""
        found = {
            "format": FORMAT,
            "created": self.created,
            "versions": self.versions,
            **self.config.to_dict(),
            "report": totals([shard.report for shard in self.shards]),
            "shards": [shard.to_dict() for shard in self.shards],
        }
        files.write(folder / NAME, json.dumps(sealed(found), indent=1).encode() + b"\n")


def sealed(found: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with the hash of all else that is in it: what is damaged, or edited by hand, is found out."""
    rest = {key: value for key, value in found.items() if key != SEAL}
    return {**rest, SEAL: files.sha256(json.dumps(rest, sort_keys=True).encode())}


def file_name(index: int) -> str:
    return f"{index:06d}.safetensors"


def read(folder: Path) -> Manifest:
    """The manifest of a folder. Everything in it is checked."""
    where = f"the manifest {folder / NAME}"
    if not os.path.lexists(folder / NAME):
        raise InputError(f"{folder} holds no job: {where} is not there; `drawahead sample NAME --out DIR` begins one")
    text = files.read(folder / NAME, "the manifest", _MOST_BYTES)
    try:
        found = validate.parsed("it", text)
        if not isinstance(found, dict) or found.get("format") != FORMAT or type(found["format"]) is not int:
            raise InputError(f"it does not have format {FORMAT}, which is the one this version reads")
        told = found
        found = {"condition": "", "chain": {}, SEAL: None} | found  # manifests of earlier versions have none
        found = validate.keys("it", found, "format", "created", "versions", *_CONFIG, "report", "shards", SEAL)
        config = Config.from_dict(dict(found))
        validate.keys("report", found["report"], *COUNTS, *SECONDS)
        shards = found["shards"]
        if not isinstance(shards, list) or len(shards) > config.shards:
            raise InputError(f"shards must be a list of at most {config.shards}")
        read = Manifest(
            config,
            validate.text("created", found["created"], 100),
            _versions(found["versions"]),
            _in_order([shard(entry, f"shard {i}", config) for i, entry in enumerate(shards)]),
        )
        if SEAL in told and told[SEAL] != sealed(told)[SEAL]:
            raise InputError("it is damaged, or was edited: it does not have the sha256 that it tells; put it back")
        return read
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def totals(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The totals of many reports together."""
    out: dict[str, Any] = {key: sum(report[key] for report in reports) for key in (*COUNTS, *SECONDS)}
    out["steps"] = max((report["steps"] for report in reports), default=0)
    return out


def shard(value: object, what: str, config: Config) -> Shard:
    """A finished shard of this job, as `to_dict` gives it; anything else is refused."""
    found = validate.keys(what, value, *(field.name for field in fields(Shard)))
    first, count = (validate.count(what, found[name]) for name in ("first", "count"))
    index = first // config.shard_size
    if found["file"] != file_name(index):  # so no name leads out of the folder
        raise InputError(f"the file of {what} must be {file_name(index)}, not {short(found['file'])}")
    if index >= config.shards or (first, count) != config.part(index):
        raise InputError(f"{what} must have the (first, count) of a shard of the job, not {(first, count)}")
    digest = validate.text(f"sha256 of {what}", found["sha256"], 64)
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise InputError(f"sha256 of {what} must be 64 hexadecimal digits")
    report = validate.keys(f"the report of {what}", found["report"], *COUNTS, *SECONDS)
    for key in COUNTS:
        validate.count(f"{key} of {what}", report[key])
    for key in SECONDS:
        if type(report[key]) not in (int, float) or not 0 <= report[key] < 2**63:
            raise InputError(f"{key} of {what} must be a number of seconds, not {short(report[key])}")
    return Shard(
        file_name(index),
        first,
        count,
        validate.count(f"bytes of {what}", found["bytes"], 1),
        digest,
        dict(report),
    )


def _in_order(shards: Sequence[Shard]) -> tuple[Shard, ...]:
    if any(one.first >= other.first for one, other in pairwise(shards)):
        raise InputError("shards must be in the order of their samples, and none twice")
    return tuple(shards)


def _versions(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not 1 <= len(value) <= 1000:
        raise InputError("versions must be a list")
    for found in value:
        names = ("drawahead", "torch", "python")
        given = validate.keys("versions", found, *names, "shard")
        validate.count("the shard of versions", given["shard"])
        for name in names:
            validate.text(f"the version of {name}", given[name], 200)
    return value
