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
from drawahead.jobs.config import Config
from drawahead.jobs.shards import OtherJob, Shard, merged, no_report
from drawahead.jobs.store import SEAL, STATUS, Layout, Store, check_seal, read_json
from drawahead.oracles.condition import Conditions
from drawahead.report import Report
from drawahead.validate import path, short, whole
from drawahead.words import printable

Folder = str | os.PathLike[str]
FORMAT = 2
JOURNAL = "journal.jsonl"  # of earlier versions
LAYOUT = Layout("job", "manifest.json", shards.SHARDS, (STATUS, shards.CONDITION, JOURNAL))
_MOST_BYTES, _MOSTJOURNAL = 64 * 2**20, 2**30
_CONFIG = ("target", *(each.name for each in fields(Config) if each.name not in ("name", "options")))
_OLD = ("format", "created", "versions", "report")
_SHARD = ("file", "first", "count", "bytes", "sha256", "report")
_OWN = ("format", "created", "versions", "seconds", "oracle_seconds", "records")


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
        own = {name: getattr(self, name) for name in _OWN[1:]}
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
        if found.get("format") == 1 and type(found["format"]) is int:
            found = old_manifest(folder, found)
        elif found.get("format") == FORMAT and type(found["format"]) is int:
            check_seal(found, data)
        else:
            raise InputError(f"it does not have format {FORMAT} or 1, which are those that this version reads")
        validate.keys("it", found, *_OWN, *_CONFIG)
        seconds, asking = (validate.number(name, found[name], least=0) for name in ("seconds", "oracle_seconds"))
        records = {
            validate.text("records", name, 100): validate.text("records", digest, 64)
            for name, digest in _object("records", found["records"]).items()
        }
        created = validate.text("created", found["created"], 100)
        own = Config.from_dict(found), created, _versions(found["versions"])
        return Manifest(*own, seconds, asking, records, found["format"])
    except InputError as error:
        raise InputError(f"the manifest {where}: {error}" if str(where) not in str(error) else str(error)) from None


@final
class Job:
    """What there is of a job: its configuration, the shards that are finished, their samples and costs.

    It is the state at one moment: a job that somebody goes on drawing has to be read again.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.shards: tuple[Shard, ...] = shards.listed(folder, manifest.config, manifest.records)
        """The finished shards, in order."""

    @property
    def config(self) -> Config:
        return self.manifest.config

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
        """The tables that the model was told, a row for each sample; empty if there are none."""
        return shards.condition(self.folder, self.config.condition)

    @property
    def has_condition(self) -> bool:
        """Whether the file of the condition is there, and sound; also where there is none to be."""
        try:
            return self.condition is not None
        except InputError:
            return False

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
                values = shards.samples(shard, self.config)
                parts.append(values[begin - shard.first : end - shard.first])
        return torch.cat(parts)

    def parts(self) -> Iterator[Tensor]:
        """Samples 0 ... num_samples-1, shard by shard: what is more than memory holds can be gone through like this."""
        for shard in self.shards:
            if shard.first >= self.num_samples:
                return
            yield shards.samples(shard, self.config)

    @cached_property
    def report(self) -> Report:
        """What all finished shards cost together, as if one run had drawn them one after another."""
        reports = [shards.report(shard) for shard in self.shards]
        if not reports:
            return no_report(self.config)
        spent, chosen = self.manifest, self.config.sampler
        return replace(
            merged(reports),
            choice=chosen.choice,
            probes=chosen.probes,
            seconds=spent.seconds,
            oracle_seconds=spent.oracle_seconds,
        )

    def damaged(self) -> list[Shard]:
        """Read every finished shard. -> those that do not have the sha256 that they should have. One that is sound, but
        of another job, is an InputError: it is not ours to draw again."""
        return [shard for shard in self.shards if not sound(shard, self.config)]

    def look(self) -> None:
        """Read shards until one is sound: samples have the shape that the manifest tells, or this is an InputError."""
        if not any(sound(shard, self.config) for shard in self.shards):
            self.verify()

    def verify(self) -> None:
        """Read every finished shard, and the condition; an InputError says which one is damaged."""
        _ = self.condition
        for shard in self.shards:
            shards.samples(shard, self.config)

    def __repr__(self) -> str:
        done = f"{self.finished} of {self.config.num} samples"
        return f"Job({str(self.folder)!r}: {printable(self.config.name)}, {done})"


def read(folder: Folder) -> Job:
    """The job in a folder, whether it is complete or not, or even being drawn."""
    place = path("folder", folder)
    return Job(place, read_manifest(place))


def sound(shard: Shard, config: Config, *, whole: bool = True) -> bool:
    """Whether a shard is what it should be; if not `whole`, as far as its head tells."""
    try:
        shards.check(shard, config, whole=whole)
    except OtherJob:
        raise
    except InputError:
        return False
    return True


def old_manifest(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """A manifest of format 1 as one of ours. It lists shards with their sha256, and those finished since it was written
    are in a journal, a line each; the first ones had no sha256 of their own."""
    seal = found.pop(SEAL, None)
    if seal is not None and seal != files.sha256(json.dumps(found, sort_keys=True).encode()):
        raise InputError("it is damaged, or was edited: it does not have the sha256 that it tells; put it back")
    found = {"condition": "", "chain": {}, **found}  # the first ones had neither
    entries, own = found.pop("shards", None), Config.from_dict(dict(validate.keys("it", found, *_CONFIG, *_OLD)))
    if not isinstance(entries, list):
        raise InputError("shards must be a list")
    journal = folder / JOURNAL
    text = files.read(journal, "the journal", _MOSTJOURNAL) if os.path.lexists(journal) else b""
    for i, line in enumerate(text.split(b"\n")[:-1]):  # what a crash cut off has no end
        entry = validate.parsed(f"line {i + 1} of the journal {journal}", line)
        if not isinstance(entry, dict) or entry.pop("job", own.identity) == own.identity:
            entries.append(entry)
    records, seconds, asking = {}, 0.0, 0.0
    for entry in entries:
        shard = validate.keys("an entry of shards or the journal", entry, *_SHARD)
        index = validate.count("first of a shard", shard["first"]) // own.shard_size
        if shard["file"] != shards.file_name(index):
            raise InputError(f"the file of a shard must be {shards.file_name(index)}, not {short(shard['file'])}")
        records[shard["file"]] = shard["sha256"]
        cost = shard["report"] if isinstance(shard["report"], dict) else {}
        seconds += validate.number("seconds of a shard", cost.get("seconds"), least=0)
        asking += validate.number("oracle_seconds of a shard", cost.get("oracle_seconds"), least=0)
    del found["report"]
    return {**found, "seconds": seconds, "oracle_seconds": asking, "records": records}


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} must be an object")
    return value


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
