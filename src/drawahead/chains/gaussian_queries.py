"""Questions about Gaussian paths and their answers: states out, predictions in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self, final

import torch
from torch import Tensor

from drawahead.chains.base import repeated
from drawahead.chains.moves import NOTHING, Aside
from drawahead.errors import AnswerError
from drawahead.laws import Gaussian
from drawahead.laws.gaussian import largest
from drawahead.oracles.condition import Given, of_rows
from drawahead.rounds.threads import Query, Thread

if TYPE_CHECKING:
    from drawahead.chains.affine import AffineChain


@final
@dataclass(frozen=True, eq=False)
class GaussianQuery(Query):
    """A table of states along paths (rows, columns), each at its own step. Columns from `count` on are padding."""

    oracle: AffineChain
    sample: Tensor  # (rows,) on the CPU
    state: Tensor  # (rows, columns, entries of a state)
    step: Tensor  # (rows, columns) on the device
    count: Tensor  # (rows,)
    given: Given = field(default_factory=dict)  # the condition, a row for each path, or for those that `owner` says
    owner: Tensor | None = None  # (rows,) which row of the condition each path has, if not its own
    aside: Aside = NOTHING
    heard: Callable[[GaussianAnswer], None] | None = None  # told the answer, where the next steps look back at it

    def __len__(self) -> int:
        return int(self.count.sum())

    @property
    def conditionings(self) -> int:
        return len(self)

    @property
    def cells(self) -> int:
        return len(self)

    @property
    def passes(self) -> int:
        return len(self) * self.oracle.passes

    @property
    def item_bytes(self) -> int:
        return 64 * self.oracle.size

    @cached_property
    def row(self) -> Tensor:
        """The row of each state that is not padding (m,)."""
        return repeated(self.count)

    @cached_property
    def _padded(self) -> bool:
        return bool((self.count < self.step.shape[1]).any())

    def packed(self, table: Tensor) -> Tensor:
        """What a table (rows, columns, ...) says about each state that is not padding (m, ...)."""
        if self._padded:
            first = self.count.cumsum(0) - self.count
            at = torch.arange(len(self.row)) + (torch.arange(len(first)) * self.step.shape[1] - first)[self.row]
            return table.flatten(0, 1)[at.to(table.device)]
        return table.flatten(0, 1)

    def _told(self, rows: Tensor) -> Tensor:
        """Where the condition of these rows is."""
        return rows if self.owner is None else self.owner[rows]

    @classmethod
    def merge(cls, queries: Sequence[Self]) -> Self:
        owners, shift = [], 0
        for query in queries:
            owners.append(query._told(query.row) + shift)
            shift += len(next(iter(query.given.values()), ()))
        given = {name: torch.cat([query.given[name] for query in queries]) for name in queries[0].given}
        sample = torch.cat([query.sample[query.row] for query in queries])
        state, step = (torch.cat([q.packed(getattr(q, name)) for q in queries]) for name in ("state", "step"))
        return cls.column(queries[0].oracle, sample, state, step, given, torch.cat(owners))

    @classmethod
    def column(
        cls, oracle: AffineChain, sample: Tensor, state: Tensor, step: Tensor, given: Given, owner: Tensor
    ) -> Self:
        """About states (m, ...) that lie on a path each: how they are handed on once nobody asks which path it was."""
        return cls(oracle, sample, state[:, None], step[:, None], torch.ones_like(sample), given, owner)

    def evaluate(self, start: int, stop: int) -> Tensor:
        chain, part = self.oracle, slice(start, stop)
        state, step = self.packed(self.state)[part], self.packed(self.step)[part]
        flat = predictions(chain, state, step, of_rows(self.given, self._told(self.row[part])) if self.given else {})
        bad = ~flat.isfinite().all(-1)
        if bool(bad.any()):
            i = int(bad.nonzero()[0, 0])
            raise AnswerError(
                f"the {chain.noun}'s prediction for sample {int(self.sample[self.row[start + i]])} at step "
                f"{int(step[i])} is not finite; check the model's output on this state"
            )
        return flat

    def take(self, start: int, stop: int) -> Self:
        part, row = slice(start, stop), self.row[start:stop]
        kept, owner = self._told(row).unique(return_inverse=True)
        state, step = self.packed(self.state)[part], self.packed(self.step)[part]
        return self.column(self.oracle, self.sample[row], state, step, of_rows(self.given, kept), owner)

    def is_for(self, oracle: object) -> bool:
        return self.oracle is oracle or self.oracle.asks_the_same(oracle)

    def on(self, oracle: AffineChain) -> Self:
        given = {name: table.to(oracle.device) for name, table in self.given.items()}
        state, step = self.state.to(oracle.device), self.step.to(oracle.device)
        return replace(self, oracle=oracle, state=state, step=step, given=given)

    def answer(self, cells: Tensor) -> GaussianAnswer:
        if not self._padded:
            return self._answered(cells.unflatten(0, self.step.shape))
        last = self.count[:, None] - 1  # padding repeats a path's last answer
        at = (self.count.cumsum(0) - self.count)[:, None] + torch.minimum(torch.arange(self.step.shape[1]), last)
        return self._answered(cells[at.to(cells.device)])

    def answer_all(self) -> tuple[GaussianAnswer, Tensor]:
        columns = self.step.shape[1]
        given = {name: table.repeat_interleave(columns, 0) for name, table in self.given.items()}
        flat = predictions(self.oracle, self.state.flatten(0, 1), self.step.flatten(), given)
        padding = torch.arange(columns, device=self.count.device) >= self.count[:, None]
        sound = (largest(flat) < torch.inf).view_as(padding) | padding
        # Nobody reads the padding, but what is added up may be multiplied by zero with it.
        own = flat.nan_to_num_(0.0, 0.0, 0.0).unflatten(0, padding.shape)
        return self._answered(own), sound.all().view(1)

    def _answered(self, own: Tensor) -> GaussianAnswer:
        answer = GaussianAnswer(self, own)
        if self.heard is not None:
            self.heard(answer)
        return answer


def predictions(chain: AffineChain, state: Tensor, step: Tensor, given: Given) -> Tensor:
    """What the model answers, flat (m, d) and adjusted, at flat states (m, ...), each at its own step (m,). An entry
    that is not finite never becomes so: clipped, it would look like an answer."""
    # Copies: a model may write into what it is given, and into what it has answered before.
    x = state.reshape(-1, *chain.state_shape).to(chain.dtype, copy=True)
    prediction = chain.predict(x, step.to(chain.device, copy=True), given)
    expected = (len(step), *chain.moves.answer_shape)
    if not isinstance(prediction, Tensor) or prediction.shape != expected:
        raise AnswerError(_shape_complaint(chain.noun, prediction, (len(step), *chain.state_shape), expected))
    flat = prediction.reshape(len(step), -1).to(chain.law_dtype, copy=True)
    adjusted = chain.moves.adjust(flat)
    return adjusted if adjusted is flat else torch.where(flat.isfinite(), adjusted, torch.nan)


def _shape_complaint(noun: str, prediction: object, states: tuple[int, ...], expected: tuple[int, ...]) -> str:
    if not isinstance(prediction, Tensor):
        return f"the {noun} must answer a tensor of shape {expected}, not {type(prediction).__name__}"
    got = tuple(prediction.shape)
    if len(got) == len(expected) > 1 and got[1] == 2 * expected[1]:
        return (
            f"the {noun} answers {got} for states {states}: twice the channels looks like a learned variance; use a "
            "schedule that has one, such as DDPM(learned_range=True), or return the prediction's channels alone"
        )
    return f"the {noun} must answer predictions of shape {expected}, not {got}"


@final
@dataclass(frozen=True, eq=False)
class GaussianAnswer:
    """Predictions along each path, flat."""

    query: GaussianQuery
    own: Tensor  # (rows, columns, entries of an answer)

    @cached_property
    def target(self) -> Gaussian:
        before = self.query.aside.before
        before = None if before is None else torch.cat([before[:, None], self.own[:, :-1]], dim=1)
        return self.query.oracle.moves.law(self.own, self.query.step, self.query.aside, before)

    def after(self, depth: Tensor, width: int) -> Thread:
        yield from ()  # a prediction drafts every later step: there is nothing more to read
        depth = depth.to(self.own.device)
        rows = torch.arange(len(depth), device=depth.device)
        answer = self.own[rows, depth][:, None].expand(-1, width, -1)
        step = self.query.step[rows, depth][:, None] + torch.arange(1, width + 1, device=depth.device)
        return self.query.oracle.moves.law(answer, step, self.query.aside, answer).without_thin()

    def leaning(self, draft: Gaussian) -> Gaussian:
        """Each answer with the slope of a secant: through it and the answer that the draft went by."""
        query, width = self.query, (self.query.count - 1).to(self.own.device)
        return query.oracle.moves.lean(self.target, query.state, query.step, draft, width, query.aside.free)
