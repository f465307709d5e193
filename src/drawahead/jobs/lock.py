"""One process a folder: a lock that is gone when the process is, however it ended."""

from __future__ import annotations

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


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    """Keep other processes out of this folder. If one is in it already, that is an InputError. -> a token for `held`.

    The lock is the system's own (flock), so it ends with the process: kill -9 leaves none behind. Where there is no
    flock, the file itself is the lock, and one whose process is gone from this machine is taken over.
    """
    token = secrets.token_hex(16)
    try:
        import fcntl
    except ImportError:
        with _by_file(folder / NAME, token):
            yield token
        return
    handle = _opened(folder / NAME)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(folder / NAME) from None
        with _as_lock(folder / NAME):
            os.ftruncate(handle, 0)
            os.write(handle, _mark(token))
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
    """Whether some process draws into this folder; where there is no flock, whether one said so."""
    try:
        import fcntl

        handle = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except ImportError:
        return (folder / NAME).exists()
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _opened(path: Path) -> int:
    """The lock's file: a plain one of this folder alone, for it is overwritten."""
    with _as_lock(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise InputError(f"{path} cannot be the lock of a job: it is a link, or no plain file")
    return handle


@contextmanager
def _by_file(path: Path, token: str) -> Iterator[None]:
    owner = _owner(path)
    if owner.get("host") == socket.gethostname() and not _alive(owner.get("pid")):
        path.unlink(missing_ok=True)
    try:
        with _as_lock(path), open(path, "xb") as file:
            file.write(_mark(token))
    except FileExistsError:
        raise _in_use(path) from None
    try:
        yield
    finally:
        if _owner(path).get("token") == token:
            path.unlink(missing_ok=True)


@contextmanager
def _as_lock(path: Path) -> Iterator[None]:
    """Say what went wrong with the file, such as a full disk."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be the lock of a job: {error.strerror or error}") from None


def _mark(token: str) -> bytes:
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "token": token}).encode() + b"\n"


def _owner(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(files.read(path, "the lock", _MOST_BYTES))
    except (InputError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True


def _in_use(path: Path) -> InputError:
    owner = _owner(path)
    who = printable(f"process {owner.get('pid')} on {owner.get('host')}") if owner else "another process"
    return InputError(f"{path.parent} is in use by {who}: wait for it to end, or name another folder")
