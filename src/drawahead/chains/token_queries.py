"""Questions about token paths and their answers: masked sequences out, rows of log-probabilities in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, final

import torch
from torch import Tensor

from drawahead.errors import AnswerError
from drawahead.laws import Categorical
from drawahead.oracles import TokenOracle, reveal
from drawahead.rounds import Query

_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # on the log of a row's sum; 2e-2 for half precision


@final
@dataclass(frozen=True, eq=False)
class TokenQuery(Query):
    """Conditionings along paths: for each, the first `prefix` steps known, and `reach` + 1 steps' rows wanted."""

    oracle: TokenOracle
    sample: Tensor  # (rows,)
    tokens: Tensor  # (rows, n) on the device, guesses filled in
    order: Tensor  # (rows, n) positions step by step
    rank: Tensor  # (rows, n) its inverse; -1 for evidence
    row: Tensor  # (m,) sorted; this and the next two on the CPU
    prefix: Tensor  # (m,)
    reach: Tensor  # (m,)

    def __len__(self) -> int:
        return len(self.tokens) if self.oracle.one_pass else len(self.row)

    @property
    def conditionings(self) -> int:
        return len(self.row)

    @property
    def cells(self) -> int:
        return int(self.reach.sum()) + len(self.reach)

    @property
    def item_bytes(self) -> int:
        n, q = self.oracle.length, self.oracle.vocab_size
        one = int(getattr(self.oracle, "bytes_per_query", 8 * n * q)) + 16 * n
        return one + 24 * q * self.cells // max(1, len(self))

    @classmethod
    def merge(cls, queries: Sequence[Self]) -> Self:
        shift = 0
        rows = []
        for query in queries:
            rows.append(query.row + shift)
            shift += len(query.tokens)
        names = ("sample", "tokens", "order", "rank", "prefix", "reach")
        merged = {name: torch.cat([getattr(query, name) for query in queries]) for name in names}
        return replace(queries[0], row=torch.cat(rows), **merged)

    def evaluate(self, start: int, stop: int) -> Tensor:
        low = start
        if self.oracle.one_pass:  # items are paths: find their conditionings
            start, stop = torch.searchsorted(self.row, torch.tensor([start, stop])).tolist()
        row, prefix, count = self.row[start:stop], self.prefix[start:stop], self.reach[start:stop] + 1
        context = torch.repeat_interleave(torch.arange(len(row)), count)  # (cells,)
        ahead = torch.arange(len(context)) - (count.cumsum(0) - count)[context]
        step = prefix[context] + ahead
        device = self.tokens.device
        rows, prefixes, contexts, steps = (t.to(device) for t in (row, prefix, context, step))
        position = self.order[rows[contexts], steps]
        if self.oracle.one_pass:
            high = int(row[-1]) + 1
            answer = self.oracle.chain_rows(
                self.tokens[low:high], self.rank[low:high], rows[contexts] - low, prefixes[contexts], position
            )
        else:
            answer = self.oracle.rows_at(reveal(self.tokens, self.rank, rows, prefixes), contexts, position)
        return self._normalised(answer, row[context], prefix[context], position)

    def _normalised(self, rows: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        expected = (len(position), self.oracle.vocab_size)
        if not isinstance(rows, Tensor) or rows.shape != expected:
            got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise AnswerError(f"the oracle must answer {expected} (rows asked, vocabulary) log-probabilities, not {got}")
        total = rows.to(torch.float64).logsumexp(-1)
        bad = ~(total.abs() <= _TOLERANCE.get(rows.dtype, 2e-2))
        if bool(bad.any()):
            c = int(bad.nonzero()[0, 0])
            raise AnswerError(
                f"the oracle's row for sample {int(self.sample[row[c]])}, step {int(prefix[c])}, position "
                f"{int(position[c])} is not a law: {_complaint(rows[c])}"
            )
        return rows.to(torch.float64) - total[:, None]

    def answer(self, cells: Tensor) -> TokenAnswer:
        count = torch.bincount(self.row, minlength=len(self.tokens))
        cell = self.reach.cumsum(0) - self.reach + torch.arange(len(self.reach))
        return TokenAnswer(cells, count, count.cumsum(0) - count, cell, self.reach)


def _complaint(row: Tensor) -> str:
    if bool(row.isnan().any()):
        return "it contains NaN; check the model's output on this input"
    mass = float(row.double().exp().sum())
    if abs(float(row.double().sum()) - 1) < 1e-3 and bool((row >= 0).all()):
        return "it looks like probabilities; return their logarithms"
    return f"its probabilities sum to {mass:.6g}; return log-probabilities (apply log_softmax to logits)"


@final
@dataclass(frozen=True, eq=False)
class TokenAnswer:
    """Rows along each path, flat. Path r's conditionings start at first[r]; conditioning c's rows at cell[c]."""

    cells: Tensor  # (cells, q)
    count: Tensor  # (rows,)
    first: Tensor  # (rows,)
    cell: Tensor  # (m,)
    reach: Tensor  # (m,)

    @property
    def target(self) -> Categorical:
        index = torch.minimum(torch.arange(int(self.count.max())), self.count[:, None] - 1)
        return Categorical(self.cells[self.cell[self.first[:, None] + index].to(self.cells.device)])

    def after(self, depth: Tensor, width: Tensor) -> Categorical:
        context = self.first + depth
        ahead = 1 + torch.arange(int(width.max()))
        index = torch.minimum(ahead, self.reach[context][:, None])
        return Categorical(self.cells[(self.cell[context][:, None] + index).to(self.cells.device)])
