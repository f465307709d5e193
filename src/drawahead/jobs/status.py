"""How far a job is, for whoever looks at its folder while it is drawn: a small file, rewritten every few seconds.

Nothing depends on it. What is finished is in the manifest and the journal alone.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from drawahead import validate
from drawahead.errors import InputError
from drawahead.jobs import files

NAME = "status.json"
_EVERY = 2.0  # seconds
_MOST_BYTES = 100_000
_KEYS = ("pid", "host", "since", "at", "earlier", "done", "workers", "error")


@final
class Status:
    """Writes the file."""

    def __init__(self, folder: Path, earlier: int) -> None:
        self._path = folder / NAME
        self._fixed = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time(), "earlier": earlier}
        self._last = -_EVERY

    def tell(self, done: int, workers: dict[str, Any], error: str, *, last: bool) -> None:
        """So many samples are finished. It is written now and then; the last word is why it ended, if not well."""
        if last and not error:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            return
        if not last and time.monotonic() - self._last < _EVERY:
            return
        self._last = time.monotonic()
        now = {"at": time.time(), "done": done, "workers": workers, "error": error[:1000]}
        temporary = self._path.with_name(f".{NAME}.tmp")
        with suppress(OSError):  # on a full disk there is worse to tell
            temporary.unlink(missing_ok=True)
            temporary.write_text(json.dumps(self._fixed | now) + "\n")
            temporary.replace(self._path)


@final
@dataclass(frozen=True)
class Standing:
    """What the file told."""

    pid: int
    host: str
    since: float
    """When the process that draws, or drew last, began; seconds as `time.time` has them."""
    at: float
    """When this was written."""
    earlier: int
    """Samples finished before it began."""
    done: int
    workers: dict[str, Any]
    """How many are asked for, ready, and were replaced; empty where the job is drawn in one process."""
    error: str
    """Why it ended; empty while it draws."""

    @property
    def rate(self) -> float:
        """Samples per second, since it began."""
        return max(0, self.done - self.earlier) / max(self.at - self.since, 1e-3)


def read(folder: Path) -> Standing | None:
    """What is told about the job in a folder, if something is."""
    if not (folder / NAME).exists():
        return None
    found = validate.keys("it", validate.parsed("it", files.read(folder / NAME, "the status", _MOST_BYTES)), *_KEYS)
    for key, kind in (("since", float), ("at", float), ("workers", dict)):
        if not isinstance(found[key], kind):
            raise InputError(f"the status {folder / NAME}: {key} is not what it should be")
    counts = {key: validate.count(key, found[key]) for key in ("pid", "earlier", "done")}
    texts = {key: validate.text(key, found[key], 1000) for key in ("host", "error")}
    return Standing(**{**found, **counts, **texts})
