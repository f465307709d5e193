"""What a target needs until it can be asked, told before it is built: memory, and time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from drawahead.errors import InputError

_COPIES = 5
"""Matrices of the size of the inverse that are there at once while a matching is set up; measured: 4.3 to 5.1."""
_INVERSES = 3
"""Inversions' worth of work in setting up a matching: the inverse itself, and making it more accurate."""
_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_USED = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
_TIMED = 400  # lines of the matrix whose inversion is timed


@final
@dataclass(frozen=True)
class Needs:
    """The memory and the work of setting a target up."""

    bytes: int
    lines: int
    """Of the matrix that is inverted."""

    def check(self, what: str) -> None:
        """Refuse what does not fit into the memory that is free."""
        remedy = "ask for a smaller one, or use a machine with more memory"
        check_memory(f"{what} needs", self.bytes, remedy, " to be set up")

    def seconds(self) -> float:
        """About how long it takes here: the inversion of a small matrix is timed."""
        small = np.eye(_TIMED) + np.arange(_TIMED**2).reshape(_TIMED, _TIMED) / _TIMED**3
        taken = []
        for _ in range(3):  # the best: the first is slow, and others may be disturbed
            began = time.perf_counter()
            np.linalg.inv(small)
            taken.append(time.perf_counter() - began)
        return float(_INVERSES * min(taken) * (self.lines / _TIMED) ** 3)


def of_matching(vertices: int, *, two_colours: bool = True) -> Needs:
    """Of perfect matchings of a graph with so many vertices: the inverse has a line for every other one, or for all."""
    lines = -(-vertices // 2) if two_colours else vertices
    return Needs(_COPIES * 8 * lines**2, lines)


def check_memory(what: str, needed: int, remedy: str, use: str = "") -> None:
    """Refuse what needs more bytes than are free."""
    free = free_memory()
    if free is not None and needed > free:
        raise InputError(
            f"{what} about {needed / 2**30:.1f} GiB of memory{use}, and {free / 2**30:.1f} GiB are free: {remedy}"
        )


def free_memory() -> int | None:
    """Bytes that this process may still take; None where the system does not say."""
    lines = _text("/proc/meminfo").splitlines()
    room = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    for most, used in zip(_GROUPS, _USED, strict=True):
        limit, taken = _text(most).strip(), _text(used).strip()
        if limit.isdecimal() and taken.isdecimal():
            room.append(max(0, int(limit) - int(taken)))
    return min(room, default=None)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
