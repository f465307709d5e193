"""The files of a job: written so that each is there as a whole or not at all, read without trust."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from drawahead.errors import InputError

BLANK = "0" * 64
"""Where the sha256 of a file comes to stand, in that file."""
NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_DIGEST = re.compile("[0-9a-f]{64}")
_TEMPORARY = ".tmp"


def write(path: Path, data: bytes) -> None:
    """Write a file: under a temporary name beside it, to the disk, then renamed, so that it survives a loss of power. A
    crash leaves the old one; what could not be written as a whole is removed."""
    temporary = path.with_name(temporary_name(path.name))
    temporary.unlink(missing_ok=True)  # what waits there under this name may be a link to something else
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o644), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # on a full disk this gives room back
        raise
    if os.name == "posix":  # elsewhere folders cannot be synced
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def temporary_name(name: str) -> str:
    """What a file is called before it is whole."""
    return f".{name}{_TEMPORARY}"


def is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(_TEMPORARY)


def is_folder(path: Path) -> bool:
    """Whether this is a folder itself, not a link to one."""
    return path.is_dir() and not path.is_symlink()


def refuse_links(folder: Path, *names: str) -> None:
    """Refuse a folder in which one of these is a link: what is written there would be written elsewhere."""
    for name in names:
        if (folder / name).is_symlink():
            raise InputError(f"{folder / name} is a link, which a job does not follow: put what it leads to there")


@contextmanager
def opened(path: Path, what: str) -> Iterator[tuple[BinaryIO, int]]:
    """A plain file and its size, to read; never what a link leads to."""
    if "\0" in str(path):
        raise InputError(f"{what} {str(path)!r} is not readable: no name holds a zero byte")
    try:
        with open(os.open(path, os.O_RDONLY | NO_LINKS | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{what} {path} is not a plain file")
            yield file, found.st_size
    except OSError as error:
        raise InputError(f"{what} {path} is not readable: {error.strerror or error}") from None


def read(path: Path, what: str, most: int) -> bytes:
    """The whole of a file that has so many bytes at most."""
    with opened(path, what) as (file, size):
        if size > most:
            raise InputError(f"{what} {path} has {size} bytes, more than {most}")
        return file.read(min(size, most) + 1)  # `most` may come from a manifest: no room is made for it


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def seal(data: bytes) -> bytes:
    """A file with its own sha256 in the place of the first blank one: whole, it is its own record."""
    return data.replace(BLANK.encode(), sha256(data).encode(), 1)


def is_sealed(data: bytes, digest: object) -> bool:
    """Whether a file that tells this sha256 has it: every byte counts."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return False
    before, _, after = data.partition(digest.encode())
    return sha256(before + BLANK.encode() + after) == digest
