"""One process a folder: a lock that is gone when the process is, however it ended."""

from __future__ import annotations

import importlib
import json
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drawahead.errors import InputError, JobError
from drawahead.jobs import files
from drawahead.words import printable

NAME = "lock"
_MOST_BYTES = 1000
_OPEN = files.NO_LINKS | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    """Keep other processes out of this folder. If one is in it already, that is an InputError. -> a token for `held`.

    The lock is the system's own, so it ends with the process: kill -9 leaves none behind.
    """
    token = secrets.token_hex(16)
    handle = _acquired(folder / NAME, token)
    try:
        check(folder, token)  # or it was deleted before it was locked
        yield token
    finally:
        os.close(handle)


def held(folder: Path, token: str) -> bool:
    """Whether this is, seen from wherever this runs, the folder that was locked with this token."""
    return _owner(folder / NAME).get("token") == token


def check(folder: Path, token: str) -> None:
    """Refuse to write where this process has no lock any more: the folder was deleted, and perhaps made anew."""
    if not held(folder, token):
        raise JobError(
            f"{folder} was deleted or replaced while this job drew into it: the job stops, and nothing more is written",
            folder,
        )


def in_use(folder: Path) -> bool:
    """Whether some process draws into this folder."""
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | _OPEN)
    except OSError:
        return False
    try:
        return not _free(handle, shared=True)
    finally:
        os.close(handle)


def _acquired(path: Path, token: str) -> int:
    """The lock's file, locked and marked: a plain file of this folder alone, for it is overwritten."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | _OPEN, 0o644)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise InputError(f"{path} cannot be the lock of a job: it is a link, or no plain file")
            if not _free(handle):
                owner = _owner(path)
                who = printable(f"process {owner.get('pid')} on {owner.get('host')}") if owner else "another process"
                raise InputError(f"{path.parent} is in use by {who}: wait for it to end, or name another folder")
            mark = {"pid": os.getpid(), "host": socket.gethostname(), "token": token}
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps(mark).encode() + b"\n")
        except BaseException:
            os.close(handle)
            raise
    except OSError as error:
        raise InputError(f"{path} cannot be the lock of a job: {error.strerror or error}") from None
    return handle


def _free(handle: int, *, shared: bool = False) -> bool:
    """Lock an open file, with others or alone, unless another process has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows, where nobody else can read a byte that is locked: it is one far behind the last
        msvcrt = importlib.import_module("msvcrt")
        os.lseek(handle, _MOST_BYTES, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        os.lseek(handle, 0, os.SEEK_SET)
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(files.read(path, "the lock", _MOST_BYTES))
    except (InputError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
