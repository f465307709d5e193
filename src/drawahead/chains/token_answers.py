"""Answers about token paths: rows of log-probabilities, and more of them where they are cheap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, final

import torch
from torch import Tensor

from drawahead.laws import Categorical
from drawahead.oracles.tokens import TokenOracle
from drawahead.rounds.threads import Query, Thread

if TYPE_CHECKING:
    from drawahead.chains.token_queries import TokenQuery


@final
@dataclass(frozen=True, eq=False)
class TokenAnswer:
    """Rows along each path: of the next step in every column, and of later ones."""

    query: TokenQuery
    own: Tensor  # (rows, columns, q)
    cells: Tensor  # (cells, q)
    first: Tensor | None  # (rows, columns) the cell before the later ones of each column; None if they are read again

    @property
    def target(self) -> Categorical:
        return Categorical(self.own)

    def after(self, depth: Tensor, width: int) -> Thread:
        row, ahead = torch.arange(len(depth), device=depth.device), torch.arange(1, width + 1, device=depth.device)
        if isinstance(self.query.reach, Tensor):  # padding repeats the last step that was in reach
            ahead = torch.minimum(ahead, self.query.reach[row, depth][:, None])  # (rows, w)
        if self.first is not None:
            return Categorical(self.cells[(self.first[row, depth][:, None] + ahead).to(self.cells.device)])
        if not ahead.numel():
            return Categorical(self.cells.new_zeros(*ahead.shape, self.cells.shape[-1]))
        prefix = (self.query.prefix + depth)[:, None].expand_as(ahead)
        return (yield Reread(self.query, prefix, prefix + ahead))

    def leaning(self, draft: Categorical) -> Categorical:
        return self.target


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
        return self.query.reread(start, stop, self.prefix[start:stop], self.step[start:stop])

    def take(self, start: int, stop: int) -> Self:
        part = self.query.paths(start, stop)
        return replace(self, query=part, prefix=self.prefix[start:stop], step=self.step[start:stop])

    def on(self, oracle: TokenOracle) -> Self:
        return replace(self, query=self.query.on(oracle))

    def answer(self, cells: Tensor) -> Categorical:
        return Categorical(cells.view(*self.step.shape, cells.shape[-1]))
