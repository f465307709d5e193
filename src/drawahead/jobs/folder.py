"""The folder of a job: made, looked into, and refused if it holds something else."""

from __future__ import annotations

from pathlib import Path

from drawahead.errors import InputError
from drawahead.jobs import files, lock, manifest


def make(folder: Path) -> None:
    """The folder, if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be a folder for samples: {error.strerror or error}") from None


def check(folder: Path, resume: bool) -> None:
    """Refuse a folder that holds something else, or a job that is not to be gone on with."""
    if (folder / manifest.NAME).exists():
        if not resume:
            raise InputError(f"{folder} holds a job already: resume it, or name another folder")
        return
    ours = {lock.NAME, manifest.SHARDS}
    if any(path.name not in ours and not files.is_temporary(path) for path in folder.iterdir()):
        raise InputError(f"{folder} is not empty, and holds no job: name another folder")
    if any((folder / manifest.SHARDS).glob("[!.]*")):
        raise InputError(f"{folder} holds shards but no manifest: name another folder")
