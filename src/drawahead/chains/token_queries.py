"""Questions about token paths and their answers: masked sequences out, rows of log-probabilities in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self, final

import torch
from torch import Tensor

from drawahead.chains.base import repeated
from drawahead.chains.memory import Memory, recalled
from drawahead.engine.threads import Query, Thread
from drawahead.errors import AnswerError
from drawahead.laws import Categorical
from drawahead.models.condition import Given, of_rows
from drawahead.models.oracles import TokenOracle, reveal, told

_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}


def tolerance(dtype: torch.dtype) -> float:
    """How far the log of a row's sum may be from 0."""
    return _TOLERANCE.get(dtype, 2e-2)


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
    given: Given = field(default_factory=dict)  # the condition, a row for each path
    memory: tuple[Memory, ...] = ()  # of all paths, one part after another; or of none
    dtype: torch.dtype = torch.float64  # of the laws

    def __len__(self) -> int:
        return len(self.tokens) if self.oracle.one_pass else len(self.row)

    @property
    def conditionings(self) -> int:
        return len(self.row)

    @property
    def cells(self) -> int:
        return int(self._count.sum())

    @property
    def _count(self) -> Tensor:
        """Rows read at once from each conditioning (m,)."""
        return torch.ones_like(self.reach) if self.oracle.rereads else self.reach + 1

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
        return replace(
            queries[0],
            sample=torch.cat([query.sample for query in queries]),
            tokens=torch.cat([query.tokens for query in queries]),
            order=torch.cat([query.order for query in queries]),
            rank=torch.cat([query.rank for query in queries]),
            row=torch.cat(rows),
            prefix=torch.cat([query.prefix for query in queries]),
            reach=torch.cat([query.reach for query in queries]),
            given={name: torch.cat([query.given[name] for query in queries]) for name in queries[0].given},
            memory=tuple(part for query in queries for part in query.memory) if all(q.memory for q in queries) else (),
        )

    def evaluate(self, start: int, stop: int) -> Tensor:
        low, high = start, stop
        if self.oracle.one_pass:  # items are paths: find their conditionings
            start, stop = torch.searchsorted(self.row, torch.tensor([start, stop])).tolist()
        row, prefix, count = self.row[start:stop], self.prefix[start:stop], self._count[start:stop]
        context = repeated(count)  # (cells,)
        step = prefix[context] + torch.arange(len(context)) - (count.cumsum(0) - count)[context]
        cell_row, cell_prefix, position = self._cells(row[context], prefix[context], step)
        if self.oracle.one_pass:
            # Copies: an oracle may write into what it is given.
            tokens, rank = self.tokens[low:high].clone(), self.rank[low:high].clone()
            oracle = told(self.oracle, {name: table[low:high] for name, table in self.given.items()})
            if self.memory:
                rows = self._recalled(low, high, cell_row, cell_prefix, position)
            else:
                rows = oracle.chain_rows(tokens, rank, cell_row - low, cell_prefix, position.clone())
        else:
            masked = reveal(self.tokens, self.rank, row.to(position.device), prefix.to(position.device))
            oracle = told(self.oracle, of_rows(self.given, row))
            rows = oracle.rows_at(masked, context.to(position.device), position.clone())
        return self._normalised(rows, cell_row, cell_prefix, position)

    def _recalled(self, low: int, high: int, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        """`chain_rows` of cells on paths low ... high-1, which go on from what is kept of them."""
        parts, start = [], 0
        for memory in self.memory:
            first, last = max(low, start), min(high, start + len(memory.steps))
            if first < last:
                mine = (row >= first) & (row < last)
                there = memory.rows(first - start, last - start)
                parts.append(
                    self._recalled_of(there, slice(first, last), row[mine] - first, prefix[mine], position[mine])
                )
            start += len(memory.steps)
        return torch.cat(parts)

    def _recalled_of(self, memory: Memory, own: slice, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        tokens, length = self.tokens[own], (self.rank[own] >= 0).sum(1)
        count = torch.bincount(row, minlength=len(tokens))
        start = count.cumsum(0) - count
        column = torch.arange(int(count.max()), device=row.device)
        cell = start[:, None] + torch.minimum(column, count[:, None] - 1)  # a table: padding repeats a row's last cell
        needed = prefix[start + count - 1]
        first = torch.minimum(memory.steps.to(needed.device), needed)
        new = max(1, int((needed - first).max()))
        oracle = told(self.oracle, {name: table[own] for name, table in self.given.items()})
        path = tokens, self.order[own], length
        rows = recalled(oracle, memory.kept, path, first, new, (prefix[cell], position[cell]))
        memory.steps.copy_(needed)
        return rows[row, torch.arange(len(row), device=row.device) - start[row]]

    def reread(self, start: int, stop: int, prefix: Tensor, step: Tensor) -> Tensor:
        """More rows of one answered conditioning of each path start ... stop-1; `prefix` and `step` are (paths, w)."""
        row = torch.arange(start, stop)[:, None].expand_as(step)
        row, prefix, position = self._cells(row.reshape(-1), prefix.reshape(-1), step.reshape(-1))
        tokens, rank = self.tokens[start:stop].clone(), self.rank[start:stop].clone()
        oracle = told(self.oracle, {name: table[start:stop] for name, table in self.given.items()})
        rows = oracle.reread(tokens, rank, row - start, prefix.clone(), position.clone())
        return self._normalised(rows, row, prefix, position)

    def _cells(self, row: Tensor, prefix: Tensor, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Row, prefix and position of each cell, on the device."""
        row, prefix, step = (t.to(self.tokens.device) for t in (row, prefix, step))
        return row, prefix, self.order[row, step]

    def _normalised(self, rows: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        expected = (len(position), self.oracle.vocab_size)
        if not isinstance(rows, Tensor) or rows.shape != expected:
            got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise AnswerError(
                f"the oracle must answer {expected} (rows asked, vocabulary) log-probabilities, not {got}"
            )
        within = tolerance(rows.dtype)
        rows = rows.to(self.dtype)
        total = rows.logsumexp(-1)
        bad = ~(total.abs() <= max(within, tolerance(self.dtype)))
        if bool(bad.any()):
            c = int(bad.nonzero()[0, 0])
            raise AnswerError(
                f"the oracle's row for sample {int(self.sample[int(row[c])])}, step {int(prefix[c])}, position "
                f"{int(position[c])} is not a law: {_complaint(rows[c])}"
            )
        return rows - total[:, None]

    def take(self, start: int, stop: int) -> Self:
        if self.oracle.one_pass:
            return self.paths(start, stop)
        first = int(self.row[start])
        part = self.paths(first, int(self.row[stop - 1]) + 1)
        skipped = start - int(torch.searchsorted(self.row, first))  # conditionings of the first path
        kept = slice(skipped, skipped + stop - start)
        return replace(part, row=part.row[kept], prefix=part.prefix[kept], reach=part.reach[kept])

    def paths(self, start: int, stop: int) -> Self:
        """Paths start ... stop-1 with all that is asked about them."""
        low, high = torch.searchsorted(self.row, torch.tensor([start, stop])).tolist()
        return replace(
            self,
            sample=self.sample[start:stop],
            tokens=self.tokens[start:stop],
            order=self.order[start:stop],
            rank=self.rank[start:stop],
            row=self.row[low:high] - start,
            prefix=self.prefix[low:high],
            reach=self.reach[low:high],
            given={name: table[start:stop] for name, table in self.given.items()},
            memory=(),  # it stays here
        )

    def on(self, oracle: TokenOracle) -> Self:
        tokens, order, rank = (table.to(oracle.device) for table in (self.tokens, self.order, self.rank))
        given = {name: table.to(oracle.device) for name, table in self.given.items()}
        return replace(self, oracle=oracle, tokens=tokens, order=order, rank=rank, given=given, memory=())

    def answer(self, cells: Tensor) -> TokenAnswer:
        count = torch.bincount(self.row, minlength=len(self.tokens))
        return TokenAnswer(self, cells, count, count.cumsum(0) - count)


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
    """Rows along each path. Path r was asked about count[r] conditionings, which start at first[r]."""

    query: TokenQuery
    rows: Tensor  # (cells, q)
    count: Tensor  # (rows,)
    first: Tensor  # (rows,)

    @property
    def target(self) -> Categorical:
        index = torch.minimum(torch.arange(int(self.count.max())), self.count[:, None] - 1)
        return self._take(self._cell[self.first[:, None] + index])

    def after(self, depth: Tensor, width: int) -> Thread:
        context = self.first + depth
        # Padding repeats the last step that was in reach.
        ahead = torch.minimum(1 + torch.arange(width), self.query.reach[context][:, None])  # (rows, w)
        if not self.query.oracle.rereads:
            return self._take(self._cell[context][:, None] + ahead)
        if not ahead.numel():
            return Categorical(self.rows.new_zeros(*ahead.shape, self.rows.shape[-1]))
        prefix = self.query.prefix[context][:, None].expand_as(ahead)
        return (yield Reread(self.query, prefix, prefix + ahead))

    def leaning(self, draft: Categorical) -> Categorical:
        return self.target

    @property
    def _cell(self) -> Tensor:
        """Where the rows of each conditioning start (m,)."""
        count = self.query._count
        return count.cumsum(0) - count

    def _take(self, cell: Tensor) -> Categorical:
        return Categorical(self.rows[cell.to(self.rows.device)])


@final
@dataclass(frozen=True, eq=False)
class TokenTable:
    """The rows of a captured round: each depth's own (rows, w + 1, q), and those of later steps, either past the last
    own depth (rows, beyond, q) or past every depth (rows, w + 1, beyond, q)."""

    own: Tensor
    later: Tensor

    @property
    def target(self) -> Categorical:
        return Categorical(self.own)

    def after(self, depth: Tensor, width: int) -> Thread:
        yield from ()
        if self.later.dim() == 3:  # only past the last own depth, which is what a sampler that asks so wants
            return Categorical(self.later[:, :width])
        return Categorical(self.later[torch.arange(len(depth), device=depth.device), depth, :width])

    def leaning(self, draft: Categorical) -> Categorical:
        return self.target


@final
@dataclass(frozen=True, eq=False)
class Along:
    """All depths of all paths: what a captured round asks. Padding asks again what a row's last own depth asks, and a
    row that has ended asks about its last step."""

    tokens: Tensor  # (rows, n) with the guess filled in
    order: Tensor  # (rows, n)
    rank: Tensor  # (rows, n)
    position: Tensor  # (rows,)
    length: Tensor  # (rows,)
    last: Tensor  # (rows,) the prefix of the last own depth
    window: int
    given: Given  # the condition, a row for each path
    kept: dict[str, Tensor]  # what the oracle keeps of them
    dtype: torch.dtype  # of the laws

    def query_model(self, oracle: TokenOracle, beyond: int, last_only: bool) -> tuple[TokenTable, Tensor]:
        """See `Paths.query_model`."""
        last, ahead = self.last[:, None], torch.arange(1, beyond + 1, device=self.tokens.device)
        step = self.position[:, None] + torch.arange(self.window + 1, device=ahead.device)  # (rows, w + 1)
        prefix = torch.minimum(step, last)
        depth = torch.arange(self.window + 1, device=ahead.device).expand_as(prefix)
        if last_only:
            step = torch.cat([step, last + ahead], dim=1)
            final = (last - self.position[:, None]).clamp(min=0)  # the depth of the last prefix
            context = torch.cat([depth, final.expand(-1, beyond)], dim=1)
        else:
            step = torch.cat([prefix[..., None], prefix[..., None] + ahead], dim=2).flatten(1)
            context = depth[..., None].expand(-1, -1, beyond + 1).flatten(1)
        place = self.order.gather(1, torch.minimum(step, (self.length - 1).clamp(min=0)[:, None]))
        rows, sound = self._rows(oracle, prefix, context, place, last_only)
        if last_only:
            return TokenTable(rows[:, : self.window + 1], rows[:, self.window + 1 :]), sound
        rows = rows.unflatten(1, (self.window + 1, beyond + 1))
        return TokenTable(rows[:, :, 0], rows[:, :, 1:]), sound

    def _rows(
        self, oracle: TokenOracle, prefix: Tensor, context: Tensor, place: Tensor, last_only: bool
    ) -> tuple[Tensor, Tensor]:
        """The rows of places (rows, cells) at the depths `context`, normalised, and whether they were laws."""
        if oracle.one_pass:
            oracle = told(oracle, self.given)
            cells = prefix.gather(1, context), place
            if self.kept:  # but for the last step committed, which was not as it was guessed
                path, first = (self.tokens, self.order, self.length), (self.position - 1).clamp(min=0)
                rows = recalled(oracle, self.kept, path, first, self.window + 1, cells)
            else:
                rows = oracle.path_rows(self.tokens, self.rank.clone(), *cells, last_only)
        else:
            row = torch.arange(len(prefix), device=prefix.device)[:, None]
            masked = reveal(self.tokens, self.rank, row.expand_as(prefix).reshape(-1), prefix.reshape(-1))
            at = (row * prefix.shape[1] + context).reshape(-1)
            depths = prefix.shape[1]
            oracle = told(oracle, {name: table.repeat_interleave(depths, 0) for name, table in self.given.items()})
            rows = oracle.rows_at(masked, at, place.reshape(-1))
        expected = (place.numel(), oracle.vocab_size)
        if not isinstance(rows, Tensor) or rows.numel() != place.numel() * oracle.vocab_size:
            got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise AnswerError(
                f"the oracle must answer {expected} (rows asked, vocabulary) log-probabilities, not {got}"
            )
        within = max(tolerance(rows.dtype), tolerance(self.dtype))
        rows = rows.view(*place.shape, oracle.vocab_size).to(self.dtype)
        total = rows.exp().sum(-1, keepdim=True).log()  # of log-probabilities, or not within bounds anyway
        return rows - total, (total.abs() <= within).all().view(1)


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
