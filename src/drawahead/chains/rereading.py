"""More of an answer that was given before, for oracles that give it cheaply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, final

import torch
from torch import Tensor

from drawahead.laws import Categorical
from drawahead.oracles.tokens import TokenOracle
from drawahead.rounds.threads import Query

if TYPE_CHECKING:
    from drawahead.chains.token_queries import TokenQuery


@final
@dataclass(frozen=True, eq=False)
class Reread(Query):
    """More rows of one conditioning of each path, for oracles that give them cheaply."""

    query: TokenQuery
    prefix: Tensor  # (rows, w)
    step: Tensor  # (rows, w)
    at_once = True

    @property
    def oracle(self) -> TokenOracle:  # type: ignore[override]
        return self.query.oracle

    def __len__(self) -> int:
        return len(self.step)

    @property
    def conditionings(self) -> int:
        return 0

    @property
    def cells(self) -> int:
        return self.step.numel()

    @property
    def item_bytes(self) -> int:
        return self.query.item_bytes + 24 * self.oracle.vocab_size * self.step.shape[1]

    @classmethod
    def merge(cls, queries: Sequence[Self]) -> Self:
        raise AssertionError("what is read at once is read alone")

    def evaluate(self, start: int, stop: int) -> Tensor:
        query, part = self.query, slice(start, stop)
        row = torch.arange(start, stop)[:, None].expand_as(self.step[part])
        row, prefix, position = query.cells_at(row.flatten(), self.prefix[part].flatten(), self.step[part].flatten())
        tokens, rank = query.tokens[part].clone(), query.rank[part].clone()
        rows = query.oracle_of(part).reread(tokens, rank, row - start, prefix.clone(), position.clone())
        return query.normalised(rows, row, prefix, position)

    def take(self, start: int, stop: int) -> Self:
        part = self.query.paths(start, stop)
        return replace(self, query=part, prefix=self.prefix[start:stop], step=self.step[start:stop])

    def on(self, oracle: TokenOracle) -> Self:
        return replace(self, query=self.query.on(oracle))

    def answer(self, cells: Tensor) -> Categorical:
        return Categorical(cells.view(*self.step.shape, cells.shape[-1]))
