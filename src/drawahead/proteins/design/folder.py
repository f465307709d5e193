"""The folder of a design job: what was asked, and what is finished of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.proteins.design.fasta import Designed, Native, written
from drawahead.validate import short
from drawahead.words import cell

MANIFEST, TABLE, PAGE = "design.json", "designs.csv", "report.html"
_PARTS, _SEQUENCES = "parts", "seqs"
_MOST = 1 << 28  # bytes of a file that is read back
_COLUMNS = (
    "structure",
    "temperature",
    "sample",
    "score",
    "global_score",
    "seq_recovery",
    "rounds",
    "steps",
    "seed",
    "model",
    "designed_chains",
    "fixed_chains",
    "sequence",
)


@final
@dataclass(frozen=True)
class Part:
    """What is finished of one structure."""

    sha256: str
    """Of its file."""
    steps: int
    """Steps of the longest design, which is also the passes it takes one by one."""
    native: Native
    designed: tuple[Designed, ...]
    dropped: tuple[str, ...]
    """Residues that lack a backbone atom."""


def begin(folder: Path, about: Mapping[str, Any], resume: bool) -> None:
    """Make the folder, or see that it holds the same job."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be a folder for designs: {error.strerror or error}") from None
    files.refuse_links(folder, MANIFEST, _PARTS, _SEQUENCES, TABLE, PAGE)
    manifest = folder / MANIFEST
    if not manifest.exists():
        if any(path.name != "lock" and not files.is_temporary(path) for path in folder.iterdir()):
            raise InputError(f"{folder} is not empty, and holds no design job: name another folder")
        files.write(manifest, json.dumps(about, indent=1).encode() + b"\n")
    elif not resume:
        raise InputError(f"{folder} holds a design job already: --resume it, or name another folder")
    else:
        found, given = _flat(begun(folder)), _flat(about)
        differ = [
            f"{name} {short(found.get(name))}, not {short(value)}"
            for name, value in given.items()
            if found.get(name) != value
        ]
        if differ:
            raise InputError(f"{folder} was begun with {'; '.join(differ)}: resume it as it was begun")
    for name in (_PARTS, _SEQUENCES):
        make(folder / name)


def make(folder: Path) -> None:
    """A folder inside that of a job, if it is not there."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be a folder of the job: {error.strerror or error}") from None


def _flat(about: Mapping[str, Any]) -> dict[str, Any]:
    """With the options one by one."""
    asked = about.get("asked")
    return {name: value for name, value in about.items() if name != "asked"} | (
        asked if isinstance(asked, dict) else {}
    )


def begun(folder: Path) -> dict[str, Any]:
    """What a job was begun with."""
    try:
        found = json.loads(files.read(folder / MANIFEST, "the manifest", _MOST))
    except ValueError as error:
        raise InputError(f"{folder / MANIFEST} is not the manifest of a design job: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{folder / MANIFEST} is not the manifest of a design job")
    return found


def keep(folder: Path, name: str, part: Part) -> None:
    """Write what is finished of a structure."""
    files.write(folder / _SEQUENCES / f"{name}.fa", written(part.native, part.designed).encode())
    files.write(folder / _PARTS / f"{name}.json", json.dumps(asdict(part)).encode())


def finished(folder: Path, name: str, sha256: str) -> Part | None:
    """What is finished of a structure, if it is; one whose file has changed since is refused."""
    path = folder / _PARTS / f"{name}.json"
    if not path.exists():
        return None
    try:
        given = json.loads(files.read(path, "the part", _MOST))
        designed = tuple(Designed(**each) for each in given["designed"])
        part = Part(given["sha256"], given["steps"], Native(**given["native"]), designed, tuple(given["dropped"]))
    except (ValueError, TypeError, KeyError):
        return None  # damaged: it is drawn again
    if part.sha256 != sha256:
        raise InputError("its file has changed since it was designed: name another folder")
    return part


def table(parts: Mapping[str, Part], seed: int) -> str:
    """All sequences, as CSV."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for name, part in parts.items():
        native = part.native
        chains = [cell(",".join(some)) for some in (native.designed_chains, native.fixed_chains)]
        for each in part.designed:
            scores = [f"{value:.4f}" for value in (each.score, each.global_score, each.recovery)]
            costs = [each.rounds, part.steps, seed, cell(native.model)]
            rows.writerow([cell(name), each.temperature, each.number, *scores, *costs, *chains, each.sequence])
    return text.getvalue()
