"""Targets that take long to set up: announced, with a line that shows how far, and stopped by Ctrl-C at once."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from drawahead.errors import DrawaheadError

Built = TypeVar("Built")
_QUICK = 1.0  # seconds of which nobody is told
_LOOK = 0.1
_COPIES = 3  # of its numbers that are there at once while a target is made
_NAME = "drawahead-setup"


def built(what: str, make: Callable[[], Built], seconds: float) -> Built:
    """What `make` returns. It runs in a thread: one call into a library may take minutes, and Ctrl-C would wait for it.

    seconds: how long it may take, about.
    """
    from drawahead.show.progress import bar, clock

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


def scaled(what: str, make: Callable[[int], Built], size: int, usual: int) -> Built:
    """What `make` returns for a size. Of one far beyond the usual, memory and time are told from smaller ones first:
    what will not fit is refused, and what takes long is announced."""
    from drawahead.oracles.needs import Needs

    if size <= 4 * usual:
        return make(size)
    try:
        (few, quick), (some, slow) = (_weighed(make, number * usual) for number in (2, 4))
    except DrawaheadError:  # not every target has every size: it will say so itself
        return make(size)
    times = size / (4 * usual)
    held = some * times ** max(1.0, math.log2(some / few) if few else 1.0)
    Needs(int(_COPIES * held), 0).check(what)
    return built(what, lambda: make(size), slow * times ** max(1.0, math.log2(slow / quick)))


def _weighed(make: Callable[[int], object], size: int) -> tuple[int, float]:
    """The bytes of the numbers that something of this size holds, and the seconds that it takes to make."""
    began = time.perf_counter()
    made = make(size)
    seconds = time.perf_counter() - began
    held, todo, seen = 0, [made], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        held += getattr(one, "nbytes", 0)  # tensors and arrays have it
        todo += list(vars(one).values()) if hasattr(one, "__dict__") and not isinstance(one, type) else []
        todo += list(one) if isinstance(one, list | tuple) else list(one.values()) if isinstance(one, dict) else []
    return held, max(seconds, 1e-6)


def unfinished() -> bool:
    """Whether something is still being set up that nobody waits for any more."""
    return any(thread.name == _NAME for thread in threading.enumerate())
