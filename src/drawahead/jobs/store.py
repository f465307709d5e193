"""The folder of a job, of samples or of designs: a manifest, and a file for each part that is finished.

Whole files are their own record: each carries its sha256, and parts the identity of their job. Files come under
temporary names and are renamed, so a part is there as a whole or not at all, and nothing else tells which are finished.
Files of earlier versions carry no sha256; the manifest holds those, as `records`.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from drawahead import validate
from drawahead.errors import InputError
from drawahead.jobs import files, lock

SEAL = "sha256"
STATUS = "status.json"
_MOST_BYTES = 2**30
_EVERY = 2.0  # seconds
_STATUS_BYTES = 100_000
_FIXED = {"pid": int, "host": str, "since": float, "earlier": int}
_STATUS = _FIXED | {"at": float, "done": int, "workers": dict, "error": str}


@final
@dataclass(frozen=True)
class Layout:
    """What is where in the folder of a job of some kind."""

    kind: str
    manifest: str
    parts: str
    """The folder of finished parts."""
    others: tuple[str, ...] = ()
    """What else is the job's own."""


@final
@dataclass(frozen=True)
class Store:
    """The folder of a job, ours to write into while its lock is held."""

    folder: Path
    layout: Layout
    token: str
    """Of the lock."""

    @staticmethod
    @contextmanager
    def opened(folder: Path, layout: Layout, *, resume: bool) -> Iterator[Store]:
        """Lock a folder, and make it if need be. One that holds something else, links, or a job that is not to be
        resumed is refused."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder} cannot be the folder of a job: {error.strerror or error}") from None
        with lock.locked(folder) as token:
            store = Store(folder, layout, token)
            store._check(resume)
            yield store

    @property
    def begun(self) -> bool:
        """Whether there is a job already."""
        return (self.folder / self.layout.manifest).exists()

    @property
    def held(self) -> bool:
        """Whether the folder is still the one that was locked."""
        return lock.held(self.folder, self.token)

    def part(self, name: str) -> Path:
        """Where a finished part is."""
        return self.folder / self.layout.parts / name

    def write(self, path: Path, data: bytes) -> None:
        """Write a file of the folder, unless the folder was replaced meanwhile."""
        lock.check(self.folder, self.token)
        files.write(path, data)

    def write_manifest(self, found: Mapping[str, Any]) -> None:
        """Write the manifest, with its own sha256."""
        self.write(self.folder / self.layout.manifest, sealed_json(found, indent=1))

    def make(self, *folders: str) -> None:
        """Make folders of the job, and remove what a crash left half-written."""
        lock.check(self.folder, self.token)
        for place in [self.folder / name for name in folders]:
            with suppress(FileExistsError):
                place.mkdir()
            if not place.is_dir():
                raise InputError(f"{place} is not a folder")
        for place in [self.folder / name for name in ("", *folders)]:
            for path in filter(files.is_temporary, place.iterdir()):
                path.unlink()

    def _check(self, resume: bool) -> None:
        folder, layout = self.folder, self.layout
        files.refuse_links(folder, layout.manifest, layout.parts, *layout.others)
        if self.begun:
            if not resume:
                raise InputError(
                    f"{folder} holds a {layout.kind} already: resume it (--resume, or resume=True), or name another "
                    "folder"
                )
            return
        ours = {lock.NAME, layout.parts, *layout.others}
        if any(path.name not in ours and not files.is_temporary(path) for path in folder.iterdir()):
            raise InputError(f"{folder} is not empty, and holds no {layout.kind}: name another folder")
        if any((folder / layout.parts).glob("[!.]*")):
            raise InputError(f"{folder} holds {layout.parts} but no manifest: name another folder")


def sealed_json(found: Mapping[str, Any], indent: int | None = None) -> bytes:
    """An object as JSON, with the sha256 of the whole file first."""
    return files.seal(json.dumps({SEAL: files.BLANK, **found}, indent=indent).encode() + b"\n")


def read_json(path: Path, what: str, most: int = _MOST_BYTES) -> tuple[dict[str, Any], bytes]:
    """The JSON object in a file, and its bytes. Whether its sha256 agrees is for `check_seal`."""
    data = files.read(path, what, most)
    found = validate.parsed("it", data)
    if not isinstance(found, dict):
        raise InputError("it is not readable: a JSON object was expected")
    return found, data


def check_seal(found: dict[str, Any], data: bytes) -> None:
    """Refuse an object that is not what its sha256 tells; take that out."""
    if not files.is_sealed(data, found.pop(SEAL, None)):
        raise InputError("it is damaged or was edited: its sha256 does not match; restore it")


@final
class Status:
    """How far a job is, for whoever looks while it is drawn: a small file, rewritten every few seconds. Nothing depends
    on it."""

    def __init__(self, folder: Path, earlier: int) -> None:
        """earlier: samples finished before this process began."""
        self._path = folder / STATUS
        self._fixed = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time(), "earlier": earlier}
        self._last = -_EVERY

    def tell(self, done: int, workers: dict[str, Any], error: str = "") -> None:
        """So many samples are finished. It is written now and then, and at once if this is why the job ended."""
        if not error and time.monotonic() - self._last < _EVERY:
            return
        self._last = time.monotonic()
        now = {"at": time.time(), "done": done, "workers": workers, "error": error[:1000]}
        temporary = self._path.with_name(files.temporary_name(STATUS))
        with suppress(OSError):  # on a full disk there is worse to tell
            temporary.unlink(missing_ok=True)
            temporary.write_text(json.dumps(self._fixed | now) + "\n")
            temporary.replace(self._path)

    def end(self) -> None:
        """All went well: there is nothing to tell any more."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def told(folder: Path) -> dict[str, Any]:
    """What the status of a job tells; nothing if it is not there or damaged: whoever draws writes another."""
    try:
        found, _ = read_json(folder / STATUS, "the status", _STATUS_BYTES)
    except InputError:
        return {}
    right = found.keys() == _STATUS.keys() and all(type(found[key]) is kind for key, kind in _STATUS.items())
    return found if right else {}
