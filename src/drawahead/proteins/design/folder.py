"""The folder of a design job: the finished part of each structure, its FASTA file, and the table of all sequences.

FASTA files have the header fields that ProteinMPNN writes, so that scripts which read those read these.
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np

from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.jobs.store import SEAL, Layout, Store, check_seal, read_json, sealed_json
from drawahead.proteins.structures.files import Backbone
from drawahead.validate import short
from drawahead.values import dataclass
from drawahead.words import cell, printable

TABLE, PAGE, SEQUENCES = "designs.csv", "report.html", "seqs"
LAYOUT = Layout("design job", "design.json", "parts", (SEQUENCES, TABLE, PAGE))
Kind = TypeVar("Kind", "Native", "Designed", "Part")
_FORMAT = 2
_MOST = 1 << 28  # bytes of a file that is read back
_COLUMNS = (
    "structure temperature sample score global_score seq_recovery rounds steps seed model designed_chains fixed_chains "
    "sequence"
)


@final
@dataclass(frozen=True)
class Native:
    """The first entry: the sequence of the structure."""

    name: str
    score: float
    global_score: float
    fixed_chains: Sequence[str]
    designed_chains: Sequence[str]
    model: str
    ca_only: bool
    seed: int
    sequence: str

    def header(self) -> str:
        model = "CA_model_name" if self.ca_only else "model_name"
        return (
            f"{printable(self.name)}, score={decimal(self.score)}, global_score={decimal(self.global_score)}, "
            f"fixed_chains={list(self.fixed_chains)}, designed_chains={list(self.designed_chains)}, "
            f"{model}={printable(self.model)}, git_hash=unknown, seed={self.seed}"
        )


@final
@dataclass(frozen=True)
class Designed:
    """The entry of a design."""

    temperature: float
    number: int
    """From 1 on, at each temperature."""
    score: float
    global_score: float
    recovery: float
    rounds: int
    sequence: str

    def header(self) -> str:
        return (
            f"T={self.temperature}, sample={self.number}, score={decimal(self.score)}, "
            f"global_score={decimal(self.global_score)}, seq_recovery={decimal(self.recovery)}"
        )


@final
@dataclass(frozen=True)
class Part:
    """The designs of one structure."""

    sha256: str
    """Of its file."""
    steps: int
    """Steps of the longest design, which is also the passes it takes one by one."""
    native: Native
    designed: tuple[Designed, ...]
    dropped: tuple[str, ...]
    """Residues that lack a backbone atom."""

    def mean(self, name: str) -> float:
        """The mean of an attribute of the designs."""
        return float(np.mean([getattr(each, name) for each in self.designed]))


@final
@dataclass(frozen=True)
class Folder:
    """The folder of a job under way."""

    store: Store
    job: str
    """The identity of the job, which every part carries."""
    records: Mapping[str, str]
    """The sha256 of parts of earlier versions, which carry none."""

    @staticmethod
    @contextmanager
    def opened(folder: Path, about: Mapping[str, Any], *, resume: bool) -> Iterator[Folder]:
        """Begin a job, or go on with it, if it was begun with the same options and inputs (`about`)."""
        with Store.opened(folder, LAYOUT, resume=resume) as store:
            records: dict[str, str] = {}
            old = store.begun and "records" not in (found := begun(folder))
            if store.begun:
                records = unsealed(folder) if old else found["records"]
                there, given = _flat(found), _flat(about)
                differ = [
                    f"{name} {short(there.get(name))}, not {short(value)}"
                    for name, value in given.items()
                    if there.get(name) != value
                ]
                if differ:
                    raise InputError(f"{folder} was begun with {'; '.join(differ)}: resume it as it was begun")
            store.make(LAYOUT.parts, SEQUENCES)
            if old or not store.begun:
                store.write_manifest({"format": _FORMAT, **about, "records": records})
            yield Folder(store, files.sha256(json.dumps(about, sort_keys=True).encode()), records)

    def keep(self, name: str, part: Part) -> None:
        """Write the part of a structure that is finished."""
        self._write_sequences(name, part)
        self.store.write(self.store.part(f"{name}.json"), sealed_json({"job": self.job, "part": asdict(part)}))

    def finished(self, name: str, sha256: str, sequences: int) -> Part | None:
        """The part of a structure, with so many sequences, if it is finished; one whose file has changed since is
        refused. A damaged part is named, and drawn again; a FASTA file that is damaged or gone is written again."""
        path = self.store.part(f"{name}.json")
        if not path.exists():
            return None
        try:
            part = self.read(path)
            if len(part.designed) != sequences:
                raise InputError("it does not hold all sequences")
        except (InputError, ValueError, TypeError, KeyError):
            words = printable(f"damaged in {self.store.folder}, and drawn again: {path.name}")
            warnings.warn(words, RuntimeWarning, stacklevel=2)
            return None
        if part.sha256 != sha256:
            raise InputError("its file has changed since it was designed: name another folder")
        self._write_sequences(name, part)
        return part

    def write_table(self, parts: Mapping[str, Part], seed: int) -> None:
        """Write the table of all sequences."""
        self.store.write(self.store.folder / TABLE, table(parts, seed).encode())

    def _write_sequences(self, name: str, part: Part) -> None:
        path, data = self.store.folder / SEQUENCES / f"{name}.fa", written(part.native, part.designed).encode()
        try:
            if files.read(path, "the FASTA file", _MOST) == data:
                return
        except InputError:
            pass
        self.store.write(path, data)

    def read(self, path: Path) -> Part:
        """A part that is whole, and of this job; whatever else a file holds is an error."""
        found, data = read_json(path, "the part", _MOST)
        if SEAL in found and "part" in found:
            check_seal(found, data)
            if found["job"] != self.job:
                raise InputError("it is of another job")
            found = found["part"]
        elif self.records.get(path.name) != files.sha256(data):
            raise InputError("it has no sha256")
        return _part(found)


def begun(folder: Path) -> dict[str, Any]:
    """The manifest of a job: the options and inputs it was begun with."""
    where = folder / LAYOUT.manifest
    try:
        found, data = read_json(where, "the manifest", _MOST)
        if SEAL in found or "format" in found or "records" in found:  # earlier versions wrote none of these
            check_seal(found, data)
            if found.pop("format", None) != _FORMAT or not isinstance(found.get("records"), dict):
                raise InputError(f"it does not have format {_FORMAT}, which is the one this version reads")
    except InputError as error:
        raise InputError(f"the manifest {where}: {error}") from None
    return found


def _flat(about: Mapping[str, Any]) -> dict[str, Any]:
    """With the options one by one."""
    asked = about.get("asked")
    plain = {name: value for name, value in about.items() if name not in ("asked", "records")}
    return plain | (asked if isinstance(asked, dict) else {})


def unsealed(folder: Path) -> dict[str, str]:
    """The sha256 of parts of an earlier version, of those that can be read: it wrote none itself."""
    found = {}
    for path in (folder / LAYOUT.parts).glob("[!.]*.json"):
        try:
            part, data = read_json(path, "the part", _MOST)
            _part(part)
        except (InputError, ValueError, TypeError, KeyError):
            continue
        found[path.name] = files.sha256(data)
    return found


def _part(found: Any) -> Part:
    """A part from JSON; a value of the wrong type is a TypeError."""
    designed = tuple(_made(Designed, each) for each in found["designed"])
    native, dropped = _made(Native, found["native"]), tuple(found["dropped"])
    return _made(Part, found | {"native": native, "designed": designed, "dropped": dropped})


def _made(kind: type[Kind], found: dict[str, Any]) -> Kind:
    values = {each.name: found[each.name] for each in fields(kind)}
    for each in fields(kind):
        value = values[each.name]
        plain = {"float": float, "int": int, "str": str, "bool": bool}.get(str(each.type), object)
        texts = value if each.type in ("Sequence[str]", "tuple[str, ...]") else ()
        if not isinstance(value, plain) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{each.name} cannot be {short(value)}")
    return kind(**values)


def table(parts: Mapping[str, Part], seed: int) -> str:
    """All sequences, as CSV."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_COLUMNS.split())
    for name, part in parts.items():
        native = part.native
        chains = [cell(",".join(some)) for some in (native.designed_chains, native.fixed_chains)]
        for each in part.designed:
            scores = [f"{value:.4f}" for value in (each.score, each.global_score, each.recovery)]
            costs = [each.rounds, part.steps, seed, cell(native.model)]
            rows.writerow([cell(name), each.temperature, each.number, *scores, *costs, *chains, each.sequence])
    return text.getvalue()


def written(native: Native, designed: Iterable[Designed]) -> str:
    """The file."""
    entries: list[Native | Designed] = [native, *designed]
    return "".join(f">{entry.header()}\n{entry.sequence}\n" for entry in entries)


def decimal(value: float) -> str:
    """Four digits after the point, as many as are not zero for certain."""
    return np.format_float_positional(np.float32(value), unique=False, precision=4)


def spelled(structure: Backbone, letters: str, chains: Sequence[str]) -> str:
    """The sequence of these chains, sorted, with / between them: X where residues are missing from the file, and the
    letter of the file where one was left out because an atom is missing."""
    parts = []
    for chain in sorted(chains):
        there = {
            int(place): letter
            for of, place, letter in zip(structure.chain, structure.index, letters, strict=True)
            if of == chain
        }
        there |= {place: letter for of, place, letter in structure.absent if of == chain}
        parts.append("".join(there.get(place, "X") for place in range(max(there) + 1)))
    return "/".join(parts)
