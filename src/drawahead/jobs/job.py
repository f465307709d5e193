"""A job as it is on disk: its manifest, and the shards that are there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from drawahead import validate
from drawahead.errors import InputError
from drawahead.jobs import files, shards
from drawahead.jobs.config import MOST_SHARDS, Config, texts
from drawahead.jobs.shards import Shard, merged
from drawahead.jobs.store import SEAL, STATUS, Layout, Store, check_seal, read_json
from drawahead.oracles.condition import Conditions
from drawahead.report import Report
from drawahead.validate import short, whole
from drawahead.words import printable

Folder = str | os.PathLike[str]
FORMAT = 2
JOURNAL = "journal.jsonl"  # of earlier versions
LAYOUT = Layout("job", "manifest.json", shards.SHARDS, (STATUS, shards.CONDITION, JOURNAL))
_MOST_BYTES, _MOST_JOURNAL = 64 * 2**20, 2**30
_CONFIG = ("target", *(each.name for each in fields(Config) if each.name not in ("name", "options")))
_OWN = ("created", "versions", "seconds", "oracle_seconds", "records")
_VERSIONS = ("drawahead", "torch", "python")


@final
@dataclass(frozen=True)
class Manifest:
    """What decides a job, and how it went."""

    config: Config
    created: str
    versions: list[dict[str, Any]]
    """Of drawahead, torch and python, with the first shard they drew; one entry, unless they changed on the way."""
    seconds: float = 0.0
    """That finished shards took, but for those of runs that were killed."""
    oracle_seconds: float = 0.0
    records: dict[str, str] = field(default_factory=dict)
    """The sha256 of shards of earlier versions, which carry none, by their file."""
    format: int = FORMAT
    """Of the file it was read from."""

    def plus(self, name: str, totals: Mapping[str, Any]) -> Manifest:
        """With the time that a shard took; it carries its own sha256."""
        return replace(
            self,
            seconds=self.seconds + totals["seconds"],
            oracle_seconds=self.oracle_seconds + totals["oracle_seconds"],
            records={file: digest for file, digest in self.records.items() if file != name},
        )

    def write(self, store: Store) -> None:
        """Replace the manifest in the folder."""
        own = {name: getattr(self, name) for name in _OWN}
        store.write_manifest({"format": FORMAT, **self.config.to_dict(), **own})


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. Everything in it is checked."""
    where = folder / LAYOUT.manifest
    if not os.path.lexists(where):
        raise InputError(
            f"{folder} holds no job: the manifest {where} is not there; `drawahead sample NAME --out DIR` begins one"
        )
    try:
        found, data = read_json(where, "the manifest", _MOST_BYTES)
        if found.get("format") == FORMAT and type(found["format"]) is int:
            check_seal(found, data)
        elif found.get("format") == 1 and type(found["format"]) is int:
            found = _converted(folder, found)
        else:
            raise InputError(f"it does not have format {FORMAT} or 1, which are those that this version reads")
        validate.keys("it", found, "format", *_OWN, *_CONFIG)
        return Manifest(
            Config.from_dict(found),
            validate.text("created", found["created"], 100),
            _versions(found["versions"]),
            validate.number("seconds", found["seconds"], least=0),
            validate.number("oracle_seconds", found["oracle_seconds"], least=0),
            texts("records", found["records"], MOST_SHARDS),
            found["format"],
        )
    except InputError as error:
        raise InputError(f"the manifest {where}: {error}" if str(where) not in str(error) else str(error)) from None


@final
class Job:
    """A job: its configuration, its finished shards, their samples and costs.

    It is a snapshot: read a running job again to see more.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.config = manifest.config
        self.shards: tuple[Shard, ...] = shards.listed(folder, manifest.config, manifest.records)
        """The finished shards, in order."""

    @cached_property
    def num_samples(self) -> int:
        """Samples finished from the first one on: those with numbers 0 ... num_samples-1. Workers may be further."""
        end = 0
        for shard in self.shards:
            if shard.first != end:
                break
            end += shard.count
        return end

    @property
    def finished(self) -> int:
        """All samples finished, also those whose number comes after that of a missing one."""
        return sum(shard.count for shard in self.shards)

    @property
    def complete(self) -> bool:
        """Whether all samples are there."""
        return self.finished == self.config.num

    @property
    def condition(self) -> Conditions:
        """The tables of the condition, a row for each sample; empty if there are none."""
        return shards.condition(self.folder, self.config.condition)

    def samples(self, first: int = 0, count: int | None = None) -> Tensor:
        """Samples first ... first+count-1, or all from `first` on (count, ...). Only their shards are read."""
        first = whole("first", first, 0)
        count = self.num_samples - first if count is None else whole("count", count, 0)
        if first + max(count, 0) > self.num_samples or count < 0:
            raise InputError(f"the job has samples 0 ... {self.num_samples - 1}: not {count} from {first} on")
        parts = [torch.zeros(0, *self.config.shape, dtype=self.config.torch_dtype)]
        for shard in self.shards:
            begin, end = max(first, shard.first), min(first + count, shard.first + shard.count)
            if begin < end:
                parts.append(shard.samples()[begin - shard.first : end - shard.first])
        return torch.cat(parts)

    def parts(self) -> Iterator[Tensor]:
        """Samples 0 ... num_samples-1, shard by shard: what is more than memory holds can be gone through like this."""
        for shard in self.shards:
            if shard.first >= self.num_samples:
                return
            yield shard.samples()

    @cached_property
    def report(self) -> Report:
        """What all finished shards cost together, as if one run had drawn them one after another."""
        together = merged([shard.report() for shard in self.shards], self.config)
        return replace(together, seconds=self.manifest.seconds, oracle_seconds=self.manifest.oracle_seconds)

    def damaged(self) -> list[Shard]:
        """Read every finished shard. -> those that do not have the sha256 that they should have. One that is sound, but
        of another job, is an InputError: it is not ours to draw again."""
        return [shard for shard in self.shards if not shard.sound()]

    def damaged_files(self) -> list[str]:
        """The names of damaged shards, and of the condition, if it is damaged or gone."""
        names = [shard.file for shard in self.damaged()]
        try:
            _ = self.condition
        except InputError:
            names.append(shards.CONDITION)
        return names

    def verify(self) -> None:
        """Read every finished shard, and the condition; an InputError says which one is damaged."""
        _ = self.condition
        for shard in self.shards:
            shard.samples()

    def __repr__(self) -> str:
        done = f"{self.finished} of {self.config.num} samples"
        return f"Job({str(self.folder)!r}: {printable(self.config.name)}, {done})"


def read(folder: Folder) -> Job:
    """The job in a folder, whether it is complete or not, or even being drawn."""
    place = Path(folder)
    return Job(place, read_manifest(place))


def _converted(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """A manifest of format 1 as one of ours. It lists shards with their sha256, and those finished since it was written
    are in a journal, a line each; the first ones had no sha256 of their own."""
    seal = found.pop(SEAL, None)
    if seal is not None and seal != files.sha256(json.dumps(found, sort_keys=True).encode()):
        raise InputError("it is damaged or was edited: its sha256 does not match; restore it")
    found = {"condition": "", "chain": {}, **found}  # the first ones had neither
    entries = found.pop("shards", None)
    own = Config.from_dict(dict(validate.keys("it", found, "format", "created", "versions", "report", *_CONFIG)))
    del found["report"]
    if not isinstance(entries, list):
        raise InputError("shards must be a list")
    journal = folder / JOURNAL
    text = files.read(journal, "the journal", _MOST_JOURNAL) if os.path.lexists(journal) else b""
    for i, line in enumerate(text.split(b"\n")[:-1]):  # what a crash cut off has no end
        entry = validate.parsed(f"line {i + 1} of the journal {journal}", line)
        if not isinstance(entry, dict) or entry.pop("job", own.identity) == own.identity:
            entries.append(entry)
    records, times = {}, {"seconds": 0.0, "oracle_seconds": 0.0}
    for entry in entries:
        shard = validate.keys("an entry of the shards", entry, "file", "first", "count", "bytes", "sha256", "report")
        name = shards.file_name(validate.count("first of a shard", shard["first"]) // own.shard_size)
        if shard["file"] != name:
            raise InputError(f"the file of a shard must be {name}, not {short(shard['file'])}")
        records[name] = shard["sha256"]
        cost = shard["report"] if isinstance(shard["report"], dict) else {}
        for key in times:
            times[key] += validate.number(f"{key} of a shard", cost.get(key), least=0)
    return {**found, **times, "records": records}


def _versions(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not 1 <= len(value) <= 1000:
        raise InputError("versions must be a list")
    for found in value:
        validate.keys("versions", found, *_VERSIONS, "shard")
        validate.count("the shard of versions", found["shard"])
        for name in _VERSIONS:
            validate.text(f"the version of {name}", found[name], 200)
    return value
