"""Answer a round on this machine: merge, split into chunks that fit, call the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from drawahead.errors import whole
from drawahead.rounds import Query


@final
@dataclass(frozen=True)
class Local:
    """One process, one oracle. A round is split into chunks of at most `max_batch_size` items.

    Without a limit a chunk is as large as `chunk_bytes` of working memory allow. Chunks never change the number of
    rounds: they are parts of one.
    """

    max_batch_size: int | None = None
    chunk_bytes: int = 128 * 2**20

    def __post_init__(self) -> None:
        if self.max_batch_size is not None:
            whole("max_batch_size", self.max_batch_size, 1)

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        by_oracle: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            by_oracle.setdefault(id(query.oracle), []).append(i)
        answers: dict[int, Tensor] = {}
        for members in by_oracle.values():
            group = [queries[i] for i in members]
            merged = type(group[0]).merge(group) if len(group) > 1 else group[0]
            parts = self._evaluate(merged).split([query.cells for query in group])
            answers.update(zip(members, parts, strict=True))
        return [answers[i] for i in range(len(queries))]

    def _evaluate(self, query: Query) -> Tensor:
        size = self.max_batch_size or max(1, self.chunk_bytes // max(1, query.item_bytes))
        parts = [query.evaluate(i, min(i + size, len(query))) for i in range(0, len(query), size)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)
