"""Answer a round on this machine: merge, split into chunks that fit, call the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from torch import Tensor

from drawahead.executors.chunks import CHUNK_BYTES, Chunks, Notes
from drawahead.rounds.threads import Query


@final
class Local:
    """One process, one device. A round is split into chunks of at most `max_batch_size` items.

    Without a limit a chunk is as large as `chunk_bytes` of working memory allow. Splitting a round does not change the
    number of rounds. If the oracle runs out of memory, chunks are halved from then on.
    """

    def __init__(self, max_batch_size: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunks = Chunks(max_batch_size, chunk_bytes)
        self._notes = Notes()

    def __repr__(self) -> str:
        return f"Local(max_batch_size={self._chunks.max_batch_size}, chunk_bytes={self._chunks.chunk_bytes})"

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that occurred and were handled, in words."""
        return self._notes.texts

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        by_oracle: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            by_oracle.setdefault(id(query.oracle), []).append(i)
        answers: dict[int, Tensor] = {}
        for members in by_oracle.values():
            group = [queries[i] for i in members]
            parts = self._chunks.evaluate(merged(group)).split([query.cells for query in group])
            answers.update(zip(members, parts, strict=True))
        self._notes.tell("memory", self._chunks.note)
        return [answers[i] for i in range(len(queries))]


def merged(queries: Sequence[Query]) -> Query:
    """Queries for one oracle as one."""
    return type(queries[0]).merge(queries) if len(queries) > 1 else queries[0]
