"""Work that a GPU does again without being told each piece of it: CUDA graphs."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, final

import torch


class NotCaptured(Exception):
    """The model does something that a graph cannot hold."""


class Recording(Protocol):
    """Work that can be done again."""

    @property
    def pool(self) -> Any:
        """Where its memory comes from, to be shared with others of which one is replayed at a time."""

    def replay(self) -> None:
        """Do it again."""


@final
@dataclass(frozen=True)
class _Graph:
    graph: Any

    @property
    def pool(self) -> Any:
        return self.graph.pool()

    def replay(self) -> None:
        self.graph.replay()


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
        # Graphs leave nothing behind that another might overwrite.
        with _no_garbage_collection(), torch.cuda.graph(graph, pool=pool):
            work(model)
    except RuntimeError as error:
        raise NotCaptured(str(error).splitlines()[0]) from error
    return _Graph(graph)


@functools.cache
def _side(device: torch.device) -> torch.cuda.Stream:
    """Where work is tried before it is recorded: always the same, for libraries keep memory for every stream."""
    return torch.cuda.Stream(device)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """An old graph that is freed while another is captured spoils it; a dropped model's may wait to be found."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
