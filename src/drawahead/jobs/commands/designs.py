"""The folder of a design job, for `status` and `check`: what is finished of it, and which of its files are damaged."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drawahead.errors import InputError
from drawahead.jobs import files, lock
from drawahead.jobs.store import Store
from drawahead.words import cell, counted


def is_design(folder: Path) -> bool:
    """Whether `drawahead design` made this folder, which has another manifest."""
    return os.path.lexists(folder / "design.json")


def refuse(folder: Path) -> None:
    """For commands about samples: say where designs are."""
    if is_design(folder):
        raise InputError(
            f"{folder} holds a design job: its sequences are in seqs, as FASTA, and in designs.csv; {_again(folder)} "
            "writes them, and the page report.html, again"
        )


def standing(folder: Path, *, verify: bool = True) -> dict[str, Any]:
    """What is done, what is damaged, and whether it is under way, as plain values. Unless they are verified, parts are
    not read."""
    from drawahead.proteins.design.folder import LAYOUT
    from drawahead.proteins.design.job import settings
    from drawahead.proteins.design.sources import find

    asked, paths = settings(folder)
    files.refuse_links(folder, LAYOUT.parts, *LAYOUT.others)
    there = {path.stem for path in (folder / LAYOUT.parts).glob("[!.]*.json")}
    structures, _ = find(paths)
    sequences = asked.num * len(asked.temperature)
    complete = structures.keys() <= there
    return {
        "folder": str(folder),
        "model": asked.model,
        "done": len(there),
        "num": len(structures.keys() | there),
        "sequences": sequences * len(there),
        "damaged": list(_damaged(folder, sequences, asked.seed, complete=complete)) if verify else [],
        "drawing": lock.in_use(folder),
    }


def sentence(found: dict[str, Any]) -> str:
    """The same in words."""
    structures, sequences = counted(found["num"], "structure"), counted(found["sequences"], "sequence")
    parts = [f"designs by {Path(found['model']).stem}: {found['done']} of {structures}, {sequences}"]
    if found["damaged"]:
        parts.append(damage(found))
    if found["drawing"]:
        return ", ".join([*parts, "being drawn"])
    if found["done"] < found["num"]:
        return f"{', '.join(parts)}; nobody draws it; go on with: {_again(Path(found['folder']))}"
    return ", ".join(parts if found["damaged"] else [*parts, "complete"])


def damage(found: dict[str, Any]) -> str:
    """Which files are damaged, and what to do."""
    names = found["damaged"]
    more = " ..." if len(names) > 5 else ""
    return f"{len(names)} damaged: {', '.join(names[:5])}{more}; {_again(Path(found['folder']))} writes them again"


def _damaged(folder: Path, sequences: int, seed: int, *, complete: bool) -> Iterator[str]:
    """Parts that are not what their sha256 tells, or not of this job; of sound ones FASTA files that hold something
    else; and the table. What is damaged or gone is drawn and written again when the job is resumed."""
    from drawahead.proteins.design import folder as design

    about = design.begun(folder)
    records = about.pop("records", None)
    if records is None:  # an earlier version wrote no sha256: what can be read counts
        records = design.unsealed(folder)
    job = files.sha256(json.dumps(about, sort_keys=True).encode())
    home = design.Folder(Store(folder, design.LAYOUT, token=""), job, records)
    sound, damaged = {}, []
    for path in sorted((folder / design.LAYOUT.parts).glob("[!.]*.json")):
        try:
            part = home.read(path)
        except (InputError, ValueError, TypeError, KeyError):
            part = None
        if part is None or len(part.designed) != sequences:
            damaged.append(path.stem)
            yield f"{design.LAYOUT.parts}/{path.name}"
            continue
        sound[path.stem] = part
        fasta = f"{design.SEQUENCES}/{path.stem}.fa"
        if _bytes(folder / fasta) != design.written(part.native, part.designed).encode():
            yield fasta
    expected, table = design.table(sound, seed).encode(), _bytes(folder / design.TABLE)
    if table is None:
        if complete:  # it is written at the end
            yield design.TABLE
        return
    unknown = tuple(f"{cell(name)},".encode() for name in damaged)
    rows = [row for row in table.split(b"\n") if not row.startswith(unknown)]
    known = expected.split(b"\n")
    if not {*rows} <= {*known} or (complete and sorted(rows) != sorted(known)):
        yield design.TABLE


def _bytes(path: Path) -> bytes | None:
    try:
        return files.read(path, "the file", 2**28)
    except InputError:
        return None


def _again(folder: Path) -> str:
    return shlex.join(["drawahead", "design", "--out", str(folder), "--resume"])
