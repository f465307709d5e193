"""What an affine chain asks and how answers become laws: states out, predictions in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self, final

import torch
from torch import Tensor

from drawahead.chains.base import repeated
from drawahead.doors import kernels
from drawahead.errors import AnswerError
from drawahead.laws import Gaussian
from drawahead.laws.gaussian import largest
from drawahead.oracles.condition import Conditions, joined, of_rows, on_device
from drawahead.randomness import Stream
from drawahead.rounds.threads import Query

if TYPE_CHECKING:
    from drawahead.chains.affine import AffineChain, AffinePaths


@final
@dataclass(frozen=True, eq=False)
class Aside:
    """What laws and states depend on beside answers and values: a row for each path, None where there is nothing."""

    known: Tensor | None = None  # (rows, d) entries that are overwritten, NaN where there are none
    copies: Stream | None = None  # of noise that no answer has a part in
    before: Tensor | None = None  # (rows, entries of an answer) the answer at the state before the committed one
    blocked: bool = False  # whether states are worked out in blocks: where every operation is a kernel of its own

    @property
    def free(self) -> Tensor | None:
        """Which entries are not overwritten (rows, d); None where all are free."""
        return None if self.known is None else self.known.isnan()


NOTHING = Aside()
CUDA = "drawahead.chains.moves_cuda"
"""The kernels of affine chains."""


@final
@dataclass(frozen=True, eq=False)
class GaussianQuery(Query):
    """A table of states along paths (rows, columns), each at its own step. Columns from `count` on are padding."""

    oracle: AffineChain
    sample: Tensor  # (rows,) on the CPU
    state: Tensor  # (rows, columns, entries of a state)
    step: Tensor  # (rows, columns) on the device
    count: Tensor  # (rows,)
    condition: Conditions = field(default_factory=dict)  # a row for each path, or for those that `owner` says
    owner: Tensor | None = None  # (rows,) which row of the condition each path has, if not its own
    aside: Aside = NOTHING
    asker: AffinePaths | None = None  # the paths, where their next steps look back at the answer

    def __len__(self) -> int:
        return int(self.count.sum())

    conditionings = cells = property(__len__)

    @property
    def passes(self) -> int:
        return len(self) * self.oracle.passes

    @property
    def item_bytes(self) -> int:
        return 64 * self.oracle.moves.size

    @cached_property
    def row(self) -> Tensor:
        """The row of each state that is not padding (m,)."""
        return repeated(self.count)

    @cached_property
    def _padded(self) -> bool:
        return bool((self.count < self.step.shape[1]).any())

    def packed(self, table: Tensor) -> Tensor:
        """What a table (rows, columns, ...) says about each state that is not padding (m, ...)."""
        if not self._padded:
            return table.flatten(0, 1)
        used = (torch.arange(self.step.shape[1]) < self.count[:, None]).flatten().nonzero()[:, 0]
        return table.flatten(0, 1)[used.to(table.device)]

    def _owner(self, rows: Tensor) -> Tensor:
        """Where the condition of these rows is."""
        return rows if self.owner is None else self.owner[rows]

    @classmethod
    def merge(cls, queries: Sequence[Self]) -> Self:
        rows = [len(next(iter(query.condition.values()), ())) for query in queries]
        owner = torch.cat([query._owner(query.row) + sum(rows[:i]) for i, query in enumerate(queries)])
        condition = joined([query.condition for query in queries])
        sample = torch.cat([query.sample[query.row] for query in queries])
        state, step = (torch.cat([q.packed(getattr(q, name)) for q in queries]) for name in ("state", "step"))
        return cls.column(queries[0].oracle, sample, state, step, condition, owner)

    @classmethod
    def column(
        cls, oracle: AffineChain, sample: Tensor, state: Tensor, step: Tensor, condition: Conditions, owner: Tensor
    ) -> Self:
        """About states (m, ...) that lie on a path each: how they are handed on once nobody asks which path it was."""
        return cls(oracle, sample, state[:, None], step[:, None], torch.ones_like(sample), condition, owner)

    def evaluate(self, start: int, stop: int) -> Tensor:
        chain, part = self.oracle, slice(start, stop)
        state, step = self.packed(self.state)[part], self.packed(self.step)[part]
        flat = predictions(chain, state, step, of_rows(self.condition, self._owner(self.row[part])))
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
        kept, owner = self._owner(row).unique(return_inverse=True)
        state, step = self.packed(self.state)[part], self.packed(self.step)[part]
        return self.column(self.oracle, self.sample[row], state, step, of_rows(self.condition, kept), owner)

    def is_for(self, oracle: object) -> bool:
        return self.oracle is oracle or self.oracle.question == getattr(oracle, "question", None)

    def on(self, oracle: AffineChain) -> Self:
        condition = on_device(self.condition, oracle.device)
        state, step = self.state.to(oracle.device), self.step.to(oracle.device)
        return replace(self, oracle=oracle, state=state, step=step, condition=condition)

    def answer(self, cells: Tensor) -> GaussianAnswer:
        if not self._padded:
            return self._answered(cells.unflatten(0, self.step.shape))
        last = self.count[:, None] - 1  # padding repeats a path's last answer
        at = (self.count.cumsum(0) - self.count)[:, None] + torch.minimum(torch.arange(self.step.shape[1]), last)
        return self._answered(cells[at.to(cells.device)])

    def answer_all(self) -> tuple[GaussianAnswer, Tensor]:
        columns = self.step.shape[1]
        condition = {name: table.repeat_interleave(columns, 0) for name, table in self.condition.items()}
        flat = predictions(self.oracle, self.state.flatten(0, 1), self.step.flatten(), condition).contiguous()
        # Nobody reads the padding, but what is added up may be multiplied by zero with it.
        if (kernel := kernels(CUDA, flat.device.type)) is not None:
            bad = kernel.settled(flat, self.count, columns)
        else:
            used = torch.arange(columns, device=self.count.device) < self.count[:, None]
            bad = (~(largest(flat) < torch.inf).view_as(used) & used).any().view(1)
            flat.nan_to_num_(0.0, 0.0, 0.0)
        return self._answered(flat.unflatten(0, (-1, columns))), bad

    def _answered(self, own: Tensor) -> GaussianAnswer:
        if self.asker is not None:
            self.asker.answers = own
        return GaussianAnswer(self, own)


def predictions(chain: AffineChain, state: Tensor, step: Tensor, condition: Conditions) -> Tensor:
    """What the model answers, flat (m, d) and adjusted, at flat states (m, ...), each at its own step (m,). An entry
    that is not finite never becomes so: clipped, it would look like an answer."""
    # Copies: a model may write into what it is given, and into what it has answered before.
    x = state.reshape(-1, *chain.state_shape).to(chain.dtype, copy=True)
    prediction = chain.predict(x, step.to(chain.device, copy=True), condition)
    expected = (len(step), *chain.moves.answer_shape)
    if not isinstance(prediction, Tensor) or prediction.shape != expected:
        raise AnswerError(_shape_complaint(chain.noun, prediction, (len(step), *chain.state_shape), expected))
    flat = prediction.reshape(len(step), -1).to(chain.law_dtype, copy=True)
    adjusted = chain.moves.adjust(flat)
    return adjusted if adjusted is flat else torch.add(adjusted, flat, alpha=0)  # NaN where it was not finite


def _shape_complaint(noun: str, prediction: object, states: tuple[int, ...], expected: tuple[int, ...]) -> str:
    got = tuple(prediction.shape) if isinstance(prediction, Tensor) else type(prediction).__name__
    if isinstance(got, tuple) and len(got) == len(expected) > 1 and got[1] == 2 * expected[1]:
        words = f"the {noun} answers {got} for states {states}: twice the channels looks like a learned variance; use"
        return f"{words} a schedule that has one, such as DDPM(learned_range=True), or return its first half alone"
    what = "predictions" if isinstance(got, tuple) else "a tensor"
    return f"the {noun} must answer {what} of shape {expected}, not {got}"


@final
@dataclass(frozen=True, eq=False)
class GaussianAnswer:
    """Predictions along each path, flat."""

    query: GaussianQuery
    own: Tensor  # (rows, columns, entries of an answer)

    @cached_property
    def target(self) -> Gaussian:
        before = None if self.query.aside.before is None else self._before
        return self.query.oracle.moves.law(self.own, self.query.step, self.query.aside, before)

    @cached_property
    def _before(self) -> Tensor:
        """The answers at the states before (rows, columns, entries of an answer), where steps look back."""
        assert self.query.aside.before is not None
        return torch.cat([self.query.aside.before[:, None], self.own[:, :-1]], dim=1)

    def after(self, depth: Tensor, width: int) -> Gaussian:
        depth = depth.to(self.own.device)
        rows = torch.arange(len(depth), device=depth.device)
        answer = self.own[rows, depth][:, None].expand(-1, width, -1)
        step = self.query.step[rows, depth][:, None] + torch.arange(1, width + 1, device=depth.device)
        return self.query.oracle.moves.law(answer, step, self.query.aside, answer).without_thin()

    def newest(self, column: Tensor, width: Tensor, beyond: int, draft: Gaussian | None) -> Gaussian:
        """A draft that leans has the slope of a secant: through its answer, and the one that the last draft went by."""
        query, moves = self.query, self.query.oracle.moves
        column, width = column.to(self.own.device), width.to(self.own.device)
        rows, depth = torch.arange(len(column), device=column.device)[:, None], torch.minimum(column, width[:, None])
        own, step, before = self.own[rows, depth], query.step[:, :1] + column, None
        if moves.looks_back:
            before = torch.where((column <= width[:, None])[..., None], self._before[rows, depth], own)
        law = moves.law(own, step, query.aside, before).without_thin()
        leaning = draft and moves.lean(self.target, query.state, query.step, draft, width, query.aside)
        if leaning is None or leaning.slope is None or leaning.anchor is None:
            return law
        slope = leaning.slope[rows, depth].masked_fill(column > width[:, None], torch.nan)
        return replace(law, slope=slope, anchor=leaning.anchor[rows, depth])
