"""How much an oracle is given at a time, and what happens when that is too much."""

from __future__ import annotations

import warnings
from typing import final

import torch
from torch import Tensor

from drawahead.errors import AnswerError
from drawahead.rounds.threads import Query
from drawahead.validate import whole

CHUNK_BYTES = 128 * 2**20
_COMPLAINTS = ("out of memory", "can't allocate memory", "DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED")


@final
class Chunks:
    """Evaluates a query chunk by chunk: at most `max_batch_size` items, or as many as `chunk_bytes` allow.

    A chunk that does not fit into memory is halved until it does. That is remembered: later chunks are no larger.
    """

    def __init__(self, max_batch_size: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.max_batch_size = None if max_batch_size is None else whole("max_batch_size", max_batch_size, 1)
        self.chunk_bytes = whole("chunk_bytes", chunk_bytes, 1)
        self.note = ""
        """What was learnt about memory, in words; empty if everything has fitted."""
        self._fits: int | None = None
        self._too_many = 0

    def evaluate(self, query: Query) -> Tensor:
        parts: list[Tensor] = []
        start, failed = 0, False
        while start < len(query):
            stop = min(start + self._size(query), len(query))
            part = _attempt(query, start, stop)
            if part is None:
                failed, self._too_many, self._fits = True, max(self._too_many, stop - start), (stop - start) // 2
                _free()
                continue
            if failed:
                self.note = (
                    f"the oracle ran out of memory with {self._too_many} items at a time; from now on it is given at "
                    f"most {self._fits}. To begin with that, give max_batch_size={self._fits}"
                )
                failed = False
            parts.append(part)
            start = stop
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _size(self, query: Query) -> int:
        size = self.max_batch_size or max(1, self.chunk_bytes // max(1, query.item_bytes))
        return size if self._fits is None else min(size, self._fits)


def _attempt(query: Query, start: int, stop: int) -> Tensor | None:
    """The evaluation of these items; None if they are too many for the memory there is."""
    try:
        return query.evaluate(start, stop)
    except Exception as error:
        if not out_of_memory(error):
            raise
        if stop - start > 1:
            return None  # out here, so that nothing holds on to what was allocated
        raise AnswerError(
            "the oracle ran out of memory with a single item: free memory on its device, use a smaller or a "
            f"half-precision model, or a device with more memory ({(str(error) or repr(error)).splitlines()[0]})"
        ) from error


def out_of_memory(error: BaseException) -> bool:
    """Whether this error says that there was not enough memory, on whatever device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(complaint in str(error) for complaint in _COMPLAINTS)


def _free() -> None:
    """Give back what the allocator keeps: in pieces it may be too small for the next attempt."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@final
class Notes:
    """What went wrong and was dealt with, in words. A user is told of each kind once, by a warning."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def tell(self, kind: str, text: str) -> None:
        """Keep `text` as the newest word on this kind of trouble."""
        if text and self._texts.get(kind) != text:
            if kind not in self._texts:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            self._texts[kind] = text

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._texts.values())
