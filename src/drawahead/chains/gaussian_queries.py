"""Questions about Gaussian paths and their answers: states out, predictions in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self, final

import torch
from torch import Tensor

from drawahead.chains.aside import NOTHING, Aside
from drawahead.engine.threads import Query, Thread
from drawahead.errors import AnswerError
from drawahead.laws import Gaussian
from drawahead.models.condition import Given, of_rows

if TYPE_CHECKING:
    from drawahead.chains.vectors import VectorChain


@final
@dataclass(frozen=True, eq=False)
class GaussianQuery(Query):
    """States along paths, each at its own step."""

    oracle: VectorChain
    sample: Tensor  # (m,) on the CPU
    state: Tensor  # (m, entries of a state)
    step: Tensor  # (m,) on the CPU
    given: Given  # the condition, a row for each path
    owner: Tensor  # (m,) whose row each state has; empty without a condition
    first: Tensor  # (rows,) where the states of each path start; this and what follows is of no use once merged
    count: Tensor  # (rows,) how many there are
    most: int
    aside: Aside = NOTHING
    heard: Callable[[GaussianAnswer], None] | None = None  # told the answer, where the next steps look back at it

    def __len__(self) -> int:
        return len(self.step)

    @property
    def conditionings(self) -> int:
        return len(self.step)

    @property
    def cells(self) -> int:
        return len(self.step)

    @property
    def passes(self) -> int:
        return len(self.step) * self.oracle.passes

    @property
    def item_bytes(self) -> int:
        return 64 * self.oracle.size

    @classmethod
    def merge(cls, queries: Sequence[Self]) -> Self:
        owners, shift = [], 0
        for query in queries:
            owners.append(query.owner + shift)
            shift += len(next(iter(query.given.values()), query.owner))
        return replace(
            queries[0],
            sample=torch.cat([query.sample for query in queries]),
            state=torch.cat([query.state for query in queries]),
            step=torch.cat([query.step for query in queries]),
            given={name: torch.cat([query.given[name] for query in queries]) for name in queries[0].given},
            owner=torch.cat(owners),
        )

    def evaluate(self, start: int, stop: int) -> Tensor:
        chain = self.oracle
        given = of_rows(self.given, self.owner[start:stop])
        flat = predictions(chain, self.state[start:stop], self.step[start:stop], given)
        bad = ~flat.isfinite().all(-1)
        if bool(bad.any()):
            i = start + int(bad.nonzero()[0, 0])
            raise AnswerError(
                f"the {chain.noun}'s prediction for sample {int(self.sample[i])} at step {int(self.step[i])} "
                "is not finite; check the model's output on this state"
            )
        return flat

    def take(self, start: int, stop: int) -> Self:
        part = slice(start, stop)
        sample, state, step = self.sample[part], self.state[part], self.step[part]
        none = self.count[:0]
        kept, owner = self.owner[part].unique(return_inverse=True)
        return GaussianQuery(self.oracle, sample, state, step, of_rows(self.given, kept), owner, none, none, most=0)

    def on(self, oracle: VectorChain) -> Self:
        given = {name: table.to(oracle.device) for name, table in self.given.items()}
        return replace(self, oracle=oracle, state=self.state.to(oracle.device), given=given)

    def answer(self, cells: Tensor) -> GaussianAnswer:
        answer = GaussianAnswer(self, cells)
        if self.heard is not None:
            self.heard(answer)
        return answer


def predictions(chain: VectorChain, state: Tensor, step: Tensor, given: Given) -> Tensor:
    """What the model answers, flat (m, d) and adjusted, at flat states (m, ...), each at its own step (m,)."""
    # Copies: a model may write into what it is given, and into what it has answered before.
    x = state.reshape(-1, *chain.state_shape).to(chain.dtype, copy=True)
    prediction = chain.predict(x, step.to(chain.device, copy=True), given)
    expected = (len(step), *chain.answer_shape)
    if not isinstance(prediction, Tensor) or prediction.shape != expected:
        raise AnswerError(_shape_complaint(chain.noun, prediction, (len(step), *chain.state_shape), expected))
    return chain.adjust(prediction.reshape(len(step), -1).to(chain.law_dtype, copy=True))


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
    predictions: Tensor  # (m, d)

    @cached_property
    def target(self) -> Gaussian:
        at, answers = self._own, self.own
        before = None
        if self.query.aside.before is not None:
            before = torch.cat([self.query.aside.before[:, None], answers[:, :-1]], dim=1)
        step = self.query.step[at].to(answers.device)
        return self.query.oracle.law(answers, step, self.query.aside, before)

    def after(self, depth: Tensor, width: int) -> Thread:
        at = (self.query.first + depth)[:, None]
        ahead = 1 + torch.arange(width, device=at.device)
        yield from ()  # a prediction drafts every later step: there is nothing more to read
        device = self.predictions.device
        answer = self.predictions[at.expand(-1, width).to(device)]
        step = (self.query.step[at] + ahead).to(device)
        return self.query.oracle.law(answer, step, self.query.aside, answer).without_thin()

    def leaning(self, draft: Gaussian) -> Gaussian:
        """Each answer with the slope of a secant: through it and the answer that the draft went by."""
        at, device = self._own, self.predictions.device
        states, step = self.query.state[at.to(device)], self.query.step[at].to(device)
        width = (self.query.count - 1).to(device)
        return self.query.oracle.lean(self.target, states, step, draft, width, self.query.aside.free)

    @cached_property
    def own(self) -> Tensor:
        """The answers along each path (rows, most, entries of an answer)."""
        return self.predictions[self._own.to(self.predictions.device)]

    @cached_property
    def _own(self) -> Tensor:
        """Which state each depth of a path is (rows, most); past a path's last, the last."""
        query = self.query
        column = torch.arange(query.most, device=query.count.device)
        return query.first[:, None] + torch.minimum(column, query.count[:, None] - 1)


@final
@dataclass(frozen=True, eq=False)
class GaussianTable:
    """Predictions of a captured round: at every depth of every path, padding included."""

    chain: VectorChain
    states: Tensor  # (rows, w + 1, entries of a state)
    step: Tensor  # (rows, w + 1)
    own: Tensor  # (rows, w + 1, entries of an answer)
    width: Tensor  # (rows,) drafted steps
    aside: Aside

    @cached_property
    def target(self) -> Gaussian:
        before = self.aside.before
        before = None if before is None else torch.cat([before[:, None], self.own[:, :-1]], dim=1)
        return self.chain.law(self.own, self.step, self.aside, before)

    def after(self, depth: Tensor, width: int) -> Thread:
        yield from ()  # a prediction drafts every later step: there is nothing more to read
        rows = torch.arange(len(depth), device=depth.device)
        answer = self.own[rows, depth][:, None].expand(-1, width, -1)
        step = self.step[rows, depth][:, None] + torch.arange(1, width + 1, device=depth.device)
        return self.chain.law(answer, step, self.aside, answer).without_thin()

    def leaning(self, draft: Gaussian) -> Gaussian:
        return self.chain.lean(self.target, self.states, self.step, draft, self.width, self.aside.free)


def leaning(
    target: Gaussian,
    states: Tensor,
    draft: Gaussian,
    slopes: tuple[Tensor, Tensor],
    width: Tensor,
    free: Tensor | None = None,
) -> Gaussian:
    """`target` (rows, w + 1), answered at `states`, with slopes from `draft` (rows, w), the answers before.

    For slopes see `Gaussian.secants`. Only a row's own `width` (rows,) columns lean: what lies behind them in the table
    is another row's business. Rows in which entries are overwritten do not lean: their states are not the draft's own.
    """
    drafted = draft.shape[1]
    slope = torch.zeros_like(target.scale)
    if draft.slope is not None and draft.anchor is not None:
        slope[:, :drafted] = target.first(drafted).secants(states[:, :drafted], draft, slopes, width)
    if free is not None:
        slope.masked_fill_(~free.all(-1, keepdim=True), 0.0)
    return Gaussian(target.mean, target.scale, slope, states)
