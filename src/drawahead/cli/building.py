"""Work that may take long, announced and left at once by Ctrl-C; and what will not fit into memory, refused before."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from drawahead.errors import DrawaheadError, InputError
from drawahead.words import counted

if TYPE_CHECKING:
    from drawahead.chains import Chain

Built = TypeVar("Built")
_QUICK = 1.0  # seconds after which progress is shown
_LOOK = 0.1
_PATIENCE = 0.5  # seconds for what is finished to come back after Ctrl-C
_COPIES = 3  # of its numbers that are there at once while a target is made, or samples are drawn
_LITTLE = 2**26  # bytes that are always there
_under_way: set[threading.Event] = set()


def apart(work: Callable[[], Built], stop: threading.Event | None = None, look: Callable[[], object] = bool) -> Built:
    """What `work` returns. It runs in a thread: one call into a library may take minutes, and Ctrl-C would wait for it.

    stop: set by Ctrl-C; work that sees it may return early. look: called now and then.
    """
    made: list[Built] = []
    failed: list[BaseException] = []
    done = threading.Event()  # an interrupted join of a thread may take it for dead

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:
            failed.append(error)
        finally:
            _under_way.discard(done)
            done.set()

    _under_way.add(done)
    threading.Thread(target=run, daemon=True).start()
    try:
        while not done.wait(_LOOK):
            look()
    except KeyboardInterrupt:
        if stop is None:
            raise
        stop.set()
        if not done.wait(_PATIENCE):
            raise
    if failed:
        raise failed[0]
    return made[0]


def unfinished() -> bool:
    """Whether work that nobody waits for any more is still under way."""
    return bool(_under_way)


def check_room(chain: Chain, num: int, remedy: str, copies: int = _COPIES) -> None:
    """Refuse more samples than memory holds."""
    try:
        needed = copies * num * chain.empty(1).nbytes
    except (RuntimeError, TypeError, MemoryError):
        raise InputError(f"a single sample of {chain!r} is more than memory holds") from None
    if needed < _LITTLE:
        return
    from drawahead.oracles.needs import check_memory

    check_memory(f"{counted(num, 'sample')} of this target need", needed, remedy)


def built(what: str, make: Callable[[], Built], seconds: float) -> Built:
    """What `make` returns, with a line that shows how far it is. `seconds`: about how long it may take."""
    from drawahead.show.progress import bar, clock

    began = time.monotonic()
    with bar() as show:

        def look() -> None:
            taken = time.monotonic() - began
            if taken > _QUICK:
                show(taken / max(seconds, taken), [f"setting up {what}", f"{clock(taken)} of about {clock(seconds)}"])

        return apart(make, look=look)


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
