"""Targets that take long to set up: announced, with a line that shows how far, and stopped by Ctrl-C at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Built = TypeVar("Built")
_QUICK = 1.0  # seconds of which nobody is told
_LOOK = 0.1
_NAME = "drawahead-setup"


def built(what: str, make: Callable[[], Built], seconds: float) -> Built:
    """What `make` returns. It runs in a thread: one call into a library may take minutes, and Ctrl-C would wait for it.

    seconds: how long it may take, about.
    """
    from drawahead.progress import bar, clock

    found: list[Built] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(make())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name=_NAME, daemon=True)
    began = time.monotonic()
    thread.start()
    with bar() as show:
        while thread.is_alive():
            thread.join(_LOOK)
            taken = time.monotonic() - began
            if taken > _QUICK:
                show(taken / max(seconds, taken), [f"setting up {what}", f"{clock(taken)} of about {clock(seconds)}"])
    if failed:
        raise failed[0]
    return found[0]


def unfinished() -> bool:
    """Whether something is still being set up that nobody waits for any more."""
    return any(thread.name == _NAME for thread in threading.enumerate())
