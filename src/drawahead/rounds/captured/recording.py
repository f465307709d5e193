"""Work that a GPU does again without being told each piece of it: CUDA graphs."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from drawahead.rounds.run import NotCaptured
from drawahead.rounds.threads import no_garbage_collection


class Recording(Protocol):
    """Work that can be done again: a CUDA graph."""

    def replay(self) -> None: ...

    def pool(self) -> Any:
        """Where its memory comes from, to be shared with others of which one is replayed at a time."""


def record(work: Callable[[Any], None], model: Any, device: torch.device, pool: Any = None) -> Recording | None:
    """Record what `work(model)` has a GPU do; None elsewhere, where it is done anew each time."""
    if device.type != "cuda":
        return None
    try:
        side = _side(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(2):  # whatever is made when it is first used is made now
                work(model)
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Graphs leave nothing behind that another might overwrite; an old one that is freed meanwhile, as a dropped
        # model's may be once it is found, would spoil this one.
        with uninterrupted(), no_garbage_collection(), torch.cuda.graph(graph, pool=pool):
            work(model)
    except RuntimeError as error:
        raise NotCaptured(str(error).splitlines()[0]) from error
    return graph


@functools.cache
def _side(device: torch.device) -> torch.cuda.Stream:
    """Where work is tried before it is recorded: always the same, for libraries keep memory for every stream."""
    return torch.cuda.Stream(device)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals wait until the end. Ctrl-C while a stream is being captured would leave it capturing for good, and every
    later use of the GPU would fail."""
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread alone
        yield
        return
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    waiting: list[tuple[int, Any]] = []
    for number in handlers:
        signal.signal(number, lambda number, frame: waiting.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in waiting:
            handlers[number](number, frame)
