"""Questions about token paths and their answers: masked sequences out, rows of log-probabilities in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.base import Ahead, repeated
from drawahead.errors import AnswerError
from drawahead.laws import Categorical
from drawahead.oracles.condition import Conditions, joined, of_rows, on_device, rows_of
from drawahead.oracles.memory import Memory, recalled
from drawahead.oracles.tokens import TokenOracle, complaint, reveal, tolerance, with_condition
from drawahead.randomness import Purpose, Stream
from drawahead.rounds.threads import Query

_GOLDEN = 0.6180339887498949
_BY_ROW = ("sample", "tokens", "order", "rank", "length", "prefix", "count")


@final
@dataclass(frozen=True, eq=False)
class TokenQuery(Query):
    """A table of conditionings (rows, columns): in column i the first `prefix` + i steps of a path are known, and the
    rows of its next step and of `reach` more are wanted. Columns from `count` on are padding."""

    oracle: TokenOracle
    sample: Tensor  # (rows,)
    tokens: Tensor  # (rows, n) on the device, guesses filled in
    order: Tensor  # (rows, n) positions step by step
    rank: Tensor  # (rows, n) its inverse; -1 for evidence
    length: Tensor  # (rows,) steps
    prefix: Tensor  # (rows,)
    count: Tensor  # (rows,)
    columns: int
    reach: Tensor | Ahead  # (rows, columns)
    condition: Conditions = field(default_factory=dict)  # the condition, a row for each path
    memory: tuple[Memory, ...] = ()  # of all paths, one part after another; or of none
    dtype: torch.dtype = torch.float64  # of the laws

    def __len__(self) -> int:
        return len(self.tokens) if self.oracle.one_pass else self.conditionings

    @property
    def conditionings(self) -> int:
        return int(self.count.sum())

    @property
    def cells(self) -> int:
        return int(self._read.sum())

    @property
    def item_bytes(self) -> int:
        n, q = self.oracle.length, self.oracle.vocab_size
        one = int(getattr(self.oracle, "bytes_per_query", 8 * n * q)) + 16 * n
        return one + 24 * q * self.cells // max(1, len(self))

    @cached_property
    def _read(self) -> Tensor:
        """How many rows are read at once (rows, columns); none of padding."""
        assert isinstance(self.reach, Tensor)
        own = torch.arange(self.columns) < self.count[:, None]
        return (self.reach + 1) * own

    @cached_property
    def _packed(self) -> tuple[Tensor, Tensor, Tensor]:
        """The table without its padding (m,), on the CPU: row, prefix, and how many rows are read at once."""
        row = repeated(self.count)
        depth = torch.arange(len(row)) - self._first[row]
        return row, self.prefix[row] + depth, self._read[row, depth]

    @property
    def _first(self) -> Tensor:
        """Where each path begins among them (rows,)."""
        return self.count.cumsum(0) - self.count

    @classmethod
    def merge(cls, queries: Sequence[Self]) -> Self:
        columns = max(query.columns for query in queries)
        tables = [
            pad(query.reach, (0, columns - query.columns)) for query in queries if isinstance(query.reach, Tensor)
        ]
        merged: dict[str, Any] = {name: torch.cat([getattr(query, name) for query in queries]) for name in _BY_ROW}
        return replace(
            queries[0],
            **merged,
            columns=columns,
            reach=torch.cat(tables),
            condition=joined([query.condition for query in queries]),
            memory=tuple(part for query in queries for part in query.memory) if all(q.memory for q in queries) else (),
        )

    def evaluate(self, start: int, stop: int) -> Tensor:
        low, high = start, stop
        rows, prefixes, read = self._packed
        if self.oracle.one_pass:  # items are paths: find their conditionings
            start, stop = torch.searchsorted(rows, torch.tensor([start, stop])).tolist()
        row, prefix, count = rows[start:stop], prefixes[start:stop], read[start:stop]
        context = repeated(count)  # (cells,)
        step = prefix[context] + torch.arange(len(context)) - (count.cumsum(0) - count)[context]
        cell_row, cell_prefix, position = self.cells_at(row[context], prefix[context], step)
        if not self.oracle.one_pass:
            row, prefix, context = (table.to(position.device) for table in (row, prefix, context))
            answered = self._shown_rows(row, prefix, context, position.clone())
        elif self.memory:
            answered = self._recalled(low, high, cell_row, cell_prefix, position)
        else:  # copies: an oracle may write into what it is given
            tokens, rank = self.tokens[low:high].clone(), self.rank[low:high].clone()
            cells = cell_row - low, cell_prefix, position.clone()
            answered = self.oracle_of(slice(low, high)).chain_rows(tokens, rank, *cells)
        return self.normalised(answered, cell_row, cell_prefix, position)

    def _shown_rows(self, row: Tensor, prefix: Tensor, context: Tensor, position: Tensor) -> Tensor:
        """The rows of cells (c,), each a position in one of the masked sequences (m,) that paths and prefixes make."""
        oracle = with_condition(self.oracle, of_rows(self.condition, row)) if self.condition else self.oracle
        return oracle.rows_at(reveal(self.tokens, self.rank, row, prefix), context, position)

    def _recalled(self, low: int, high: int, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        """`chain_rows` of cells on paths low ... high-1, which go on from what is kept of them."""
        parts, start = [], 0
        for memory in self.memory:
            first, last = max(low, start), min(high, start + len(memory.steps))
            if first < last:
                mine, own = (row >= first) & (row < last), slice(first, last)
                path = self.tokens[own], self.order[own], self.length[own].to(row.device)
                there, cells = (
                    memory.rows(first - start, last - start),
                    (row[mine] - first, prefix[mine], position[mine]),
                )
                parts.append(there.chain_rows(self.oracle_of(own), path, *cells))
            start += len(memory.steps)
        return torch.cat(parts)

    def oracle_of(self, part: slice) -> TokenOracle:
        """The oracle, told the condition of these paths."""
        return with_condition(self.oracle, {name: table[part] for name, table in self.condition.items()})

    def cells_at(self, row: Tensor, prefix: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Row, prefix and position of each cell, on the device."""
        row, prefix, step = (t.to(self.tokens.device) for t in (row, prefix, step))
        return row, prefix, self.order[row, step]

    def normalised(self, rows: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        within = self._tolerance(rows, position)
        rows = rows.to(self.dtype)
        total = rows.logsumexp(-1)
        bad = ~(total.abs() <= within)
        if bool(bad.any()):
            c = int(bad.nonzero()[0, 0])
            raise AnswerError(
                f"the oracle's row for sample {int(self.sample[int(row[c])])}, step {int(prefix[c])}, position "
                f"{int(position[c])} is not a law: {complaint(rows[c])}"
            )
        return rows - total[:, None]

    def _tolerance(self, rows: object, position: Tensor) -> float:
        """How far the log of the sum of these rows, one for each position, may be from 0."""
        expected = (*position.shape, self.oracle.vocab_size)
        if not isinstance(rows, Tensor) or rows.shape != expected:
            got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise AnswerError(
                f"the oracle must answer {expected} (rows asked, vocabulary) log-probabilities, not {got}"
            )
        return max(tolerance(rows.dtype), tolerance(self.dtype))

    def take(self, start: int, stop: int) -> Self:
        if self.oracle.one_pass:
            return self.paths(start, stop)
        row, begin = self._packed[0], self._first
        paths = slice(int(row[start]), int(row[stop - 1]) + 1)
        part = self.paths(paths.start, paths.stop)
        low = (start - begin[paths]).clamp(min=0)  # conditionings of the first path that are left out
        high = torch.minimum(part.count, stop - begin[paths])
        column = (torch.arange(self.columns) + low[:, None]).clamp(max=self.columns - 1)
        assert isinstance(part.reach, Tensor)
        return replace(part, prefix=part.prefix + low, count=high - low, reach=part.reach.gather(1, column))

    def paths(self, start: int, stop: int) -> Self:
        """Paths start ... stop-1 with all that is asked about them."""
        part: dict[str, Any] = {name: getattr(self, name)[start:stop] for name in (*_BY_ROW, "reach")}
        condition = {name: table[start:stop] for name, table in self.condition.items()}
        return replace(self, **part, condition=condition, memory=())  # which stays here

    def on(self, oracle: TokenOracle) -> Self:
        tokens, order, rank = (table.to(oracle.device) for table in (self.tokens, self.order, self.rank))
        condition = on_device(self.condition, oracle.device)
        return replace(self, oracle=oracle, tokens=tokens, order=order, rank=rank, condition=condition, memory=())

    def answer(self, cells: Tensor) -> TokenAnswer:
        before = self._read.flatten().cumsum(0).view_as(self._read) - self._read
        first = before.gather(1, torch.minimum(torch.arange(self.columns), self.count[:, None] - 1))  # or a path's last
        return TokenAnswer(self, cells[first.to(cells.device)], cells, first, first)

    def answer_all(self) -> tuple[TokenAnswer, Tensor]:
        """Padding asks again what a row's last own column asks, and a row that has ended asks about its last step."""
        assert isinstance(self.reach, Ahead)
        beyond, columns = self.reach.steps, self.columns
        device = self.tokens.device
        column, ahead = torch.arange(columns, device=device), torch.arange(1, beyond + 1, device=device)
        end = (self.length - 1).clamp(min=0)[:, None]
        last = torch.minimum((self.prefix + self.count - 1)[:, None], end)
        step = self.prefix[:, None] + column
        prefix = torch.minimum(step, last)  # (rows, columns)
        if self.reach.last_only:
            step = torch.cat([step, last + ahead], dim=1)
            final = (last - self.prefix[:, None]).clamp(min=0)  # the column of the last prefix
            context = torch.cat([column.expand_as(prefix), final.expand(-1, beyond)], dim=1)
        else:
            step = torch.cat([prefix[..., None], prefix[..., None] + ahead], dim=2).flatten(1)
            context = column[:, None].expand(len(prefix), -1, beyond + 1).flatten(1)
        place = self.order.gather(1, torch.minimum(step, end))  # (rows, cells of each)
        rows = self._all_rows(prefix, context, place)
        if isinstance(rows, Tensor) and rows.numel() == place.numel() * self.oracle.vocab_size:
            rows = rows.view(*place.shape, self.oracle.vocab_size)
        within = self._tolerance(rows, place)
        rows = rows.to(self.dtype)
        total = rows.exp().sum(-1, keepdim=True).log()  # of log-probabilities, or not within bounds anyway
        rows = rows - total
        each = 0 if self.reach.last_only else beyond + 1  # cells from one column's later rows to the next one's
        start = torch.arange(len(rows), device=device)[:, None] * rows.shape[1]
        cell = start + column * (each or 1)
        first = cell if each else (start + columns - 1).expand(-1, columns)
        answer = TokenAnswer(self, rows[:, :: each or 1][:, :columns], rows.flatten(0, 1), cell, first)
        return answer, (~(total.abs() <= within)).any().view(1)

    def _all_rows(self, prefix: Tensor, context: Tensor, place: Tensor) -> Tensor:
        """The rows of places (rows, cells), each at a column `context` of the prefixes (rows, columns)."""
        if not self.oracle.one_pass:
            row = torch.arange(len(prefix), device=prefix.device)[:, None]
            at = (row * prefix.shape[1] + context).reshape(-1)
            return self._shown_rows(row.expand_as(prefix).reshape(-1), prefix.reshape(-1), at, place.reshape(-1))
        oracle, cells = self.oracle_of(slice(None)), (prefix.gather(1, context), place)
        if not self.memory:
            assert isinstance(self.reach, Ahead)
            return oracle.path_rows(self.tokens, self.rank.clone(), *cells, self.reach.last_only)
        # Kept is all but the last step committed, which was not as it was guessed.
        path, first = (self.tokens, self.order, self.length), (self.prefix - 1).clamp(min=0)
        return recalled(oracle, self.memory[0].kept, path, first, self.columns, cells)


@final
@dataclass(frozen=True, eq=False)
class TokenAnswer:
    """Rows along each path: of the next step in every column, and of later ones."""

    query: TokenQuery
    own: Tensor  # (rows, columns, q)
    cells: Tensor  # (cells, q)
    cell: Tensor  # (rows, columns) that of each column's next step
    first: Tensor  # (rows, columns) the one before its later ones

    @property
    def target(self) -> Categorical:
        return Categorical(self.own)

    def after(self, depth: Tensor, width: int) -> Categorical:
        row, ahead = torch.arange(len(depth), device=depth.device), torch.arange(1, width + 1, device=depth.device)
        if isinstance(self.query.reach, Tensor):  # padding repeats the last step that was in reach
            ahead = torch.minimum(ahead, self.query.reach[row, depth][:, None])  # (rows, w)
        return Categorical(self.cells[(self.first[row, depth][:, None] + ahead).to(self.cells.device)])

    def newest(self, column: Tensor, width: Tensor, beyond: int, draft: Categorical | None) -> Categorical:
        row, depth = torch.arange(len(column), device=column.device)[:, None], torch.minimum(column, width[:, None])
        ahead, reach = column - depth, self.query.reach
        ahead = torch.minimum(ahead, reach[row, depth]) if isinstance(reach, Tensor) else ahead.clamp(max=beyond)
        at = torch.where(ahead > 0, self.first[row, depth] + ahead, self.cell[row, depth])
        return Categorical(self.cells[at.to(self.cells.device)])


def order_keys(order: Tensor | str | None, source: Stream, samples: Tensor, n: int, rates: Tensor | None) -> Tensor:
    """Numbers whose order is that of the positions of these samples (rows, n), in float64: two must hardly ever be
    equal. `rates` are those of `TokenOracle.order_rates`."""
    home, rows = source.keys.device, len(samples)
    if order is None:
        key = source.uniform(Purpose.ORDER, torch.arange(n, device=home).expand(rows, n))
        # Waiting times: a position of twice the rate waits half as long.
        return key if rates is None else -torch.log1p(-key) / rates.to(home)
    if isinstance(order, str):
        shift = source.uniform(Purpose.ORDER, torch.zeros(rows, 1, dtype=torch.int64, device=home))
        return (shift + _GOLDEN * torch.arange(n, dtype=torch.float64, device=home)) % 1.0
    return rows_of(order.view(-1, n), samples).argsort(-1).to(home, torch.float64)
