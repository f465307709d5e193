"""A model's own rounding, measured: the same queries repeated, alone and among copies of themselves.

A network answers slightly differently in a batch of another shape. That is no fault, and it differs from model to
model: so it is measured, on batches that hold one query many times, where nothing else can matter. How far an answer
depends on the *other* queries of a batch shows beside that: the same query, in the same place of a batch of the same
size, once among others and once among copies of itself. Those answers should be the same, and may differ by a few times
the rounding at most: a model may work on batches in parts that depend on their contents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from drawahead.chains.affine_queries import NOTHING, GaussianQuery
from drawahead.chains.token_queries import TokenQuery
from drawahead.executors.local import Local
from drawahead.rounds.threads import Query

# A few units in the last place, or what another order of the same sums comes to; in half precision the unit itself.
_FLOOR = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}
# Float64 leaves room for formulas that cancel, float32 for networks whose products are done in TensorFloat-32.
_CEILING = {torch.float64: 1e-4, torch.float32: 3e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}


def seen(work: Callable[[], object]) -> torch.dtype:
    """The lowest precision of any number made while this works, also inside compiled and scripted models."""
    with _Watching() as watching:
        work()
    return max(watching.dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float64)


class _Watching(TorchDispatchMode):
    """Notes the dtype of every tensor of floats that is made."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # what notes is never compiled; to make sure of it, torch would load its compiler, for seconds

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.dtypes.update(
            leaf.dtype for leaf in tree_leaves(out) if isinstance(leaf, Tensor) and leaf.is_floating_point()
        )
        return out


TIMES = 10
"""How much larger a difference may be than the measured rounding: the largest of a few is seldom the largest."""
ASKED = 6  # queries of a round that are repeated
_ROUNDS = frozenset(round(2 ** (k / 2)) - 1 for k in range(60))  # 0, 1, 2, 3, 5, 7, 10, ...: early ones, and late ones


@final
@dataclass(frozen=True)
class Gap:
    """How far answers are apart that should be the same."""

    size: float = 0.0
    """Of tokens, the total variation of rows; of vectors, relative to the step (its noise, or what the answer adds)."""
    law: float = 0.0
    """The total variation between the laws of the step that they lead to."""
    shift: float = 0.0
    """Of vectors: how many standard deviations the means of an entry are apart."""

    def __or__(self, other: Gap) -> Gap:
        """The larger of both."""
        return Gap(max(self.size, other.size), max(self.law, other.law), max(self.shift, other.shift))


@final
@dataclass(frozen=True)
class Rounding:
    """The measured rounding, and the differences that it allows."""

    precision: torch.dtype = torch.float64
    """The lowest one that the model was seen to work in, whatever the dtype of its answers."""
    again: Gap = Gap()
    """The same query twice, in the same batch."""
    shape: Gap = Gap()
    """The same query alone and among copies of itself."""
    mixed: Gap = Gap()
    """The same query alone and among others."""
    leak: Gap = Gap()
    """The same query among others and among copies of itself, in the same place."""

    @property
    def works_in(self) -> str:
        return str(self.precision).removeprefix("torch.")

    @property
    def unit(self) -> float:
        """The relative distance of neighbouring numbers."""
        return float(torch.finfo(self.precision).eps)

    @property
    def allowed_again(self) -> float:
        """Answers that differ by more are different, whatever was measured: rounding does not go so far."""
        return _CEILING.get(self.precision, _CEILING[torch.bfloat16])

    @property
    def allowed_in_place(self) -> float:
        """Between answers in batches of one shape, which differ in what should not matter."""
        return self._allowed(self.again)

    @property
    def allowed(self) -> float:
        """Between answers in batches of different shapes."""
        return self._allowed(self.again | self.shape)

    def _allowed(self, rounding: Gap) -> float:
        """A few units in the last place, even where no rounding was measured."""
        return min(TIMES * rounding.size + _FLOOR.get(self.precision, _FLOOR[torch.bfloat16]), self.allowed_again)

    @property
    def all(self) -> Gap:
        """How far answers may be apart from run to run."""
        return self.again | self.shape | self.mixed | self.leak


@final
class AskingAgain:
    """An executor that repeats some of its queries: all together, alone, and among copies."""

    def __init__(self, max_batch_size: int | None = None) -> None:
        self.shown = Rounding()
        self._local = Local(max_batch_size)
        self._round = 0
        self._watched = False

    def _note(self, **differences: Gap) -> None:
        larger = {name: getattr(self.shown, name) | difference for name, difference in differences.items()}
        self.shown = replace(self.shown, **larger)

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        first = self._local.answer(queries)
        if self._round in _ROUNDS and queries:
            at = max(range(len(queries)), key=lambda i: len(queries[i]))
            self._note(again=compared(queries[at], self._local.answer(queries)[at], first[at]))
            self._look(queries[at], first[at])
        self._round += 1
        return first

    def _look(self, query: Query, among_others: Tensor) -> None:
        if not isinstance(query, TokenQuery | GaussianQuery):  # cannot be taken apart, or be copied
            alone = query.evaluate(0, 1)
            self._note(leak=compared(query, alone, among_others[: len(alone)]))
            return
        for item in torch.linspace(0, len(query) - 1, min(ASKED, len(query))).round().long().unique().tolist():
            one = query.take(item, item + 1)
            if not self._watched:
                self.shown, self._watched = replace(self.shown, precision=seen(partial(one.evaluate, 0, 1))), True
            alone = one.evaluate(0, 1)
            begin = query.take(0, item).cells if item else 0
            mixed = among_others[begin : begin + len(alone)]
            self._note(again=compared(one, one.evaluate(0, 1), alone), mixed=compared(one, alone, mixed))
            for size in sorted({2, len(query)} - {1}):
                copies = self._copies(one, size)
                self._note(shape=compared(one, alone, copies[0]) | compared(one, alone, copies[-1]))
                if size == len(query):
                    self._note(leak=compared(one, copies[item], mixed))

    def _copies(self, one: Query, size: int) -> Tensor:
        """The answers to a query in a batch of so many copies of it (copies, cells, ...)."""
        answers = self._local.answer([type(one).merge([one] * size)])[0]
        return answers.view(size, one.cells, -1)


def compared(query: Query, one: Tensor, other: Tensor) -> Gap:
    """Of two evaluations of a query, the largest difference."""
    if not len(one):
        return Gap()
    if isinstance(query, GaussianQuery):
        return _steps_apart(query, one, other)
    apart = distance(one, other)
    return Gap(apart, apart)


def distance(one: Tensor, other: Tensor) -> float:
    """The largest total variation between rows of log-probabilities."""
    gap = (one.double().exp() - other.double().exp()).abs().sum(-1) / 2
    return float(gap.nan_to_num(nan=torch.inf).max()) if gap.numel() else 0.0


def _steps_apart(query: GaussianQuery, one: Tensor, other: Tensor) -> Gap:
    step = query.packed(query.step).to(one.device)[:, None]
    this, that = (query.oracle.moves.law(answer[:, None], step, NOTHING) for answer in (one, other))
    noisy, noise = this.scale[:, 0] > 0, (that.scale[..., None] if that.thin is None else that.thin).flatten(1)
    apart = root_mean_square(this.mean - that.mean)
    size = torch.maximum(root_mean_square(noise), root_mean_square(that.mean))
    # A step without noise may add next to nothing: then it is the state that tells what is small.
    size = torch.where(noisy, size, size.maximum(1e-3 * root_mean_square(query.packed(query.state))))
    relative = torch.where(apart > 0, apart / size.clamp(min=1e-300), 0.0)
    # Of two Gaussians whose means are d standard deviations apart: 2 Phi(d / 2) - 1.
    moved = (this.mean - that.mean).flatten(1) / noise.clamp(min=1e-300)
    variation = torch.erf(torch.linalg.vector_norm(moved, dim=1) / math.sqrt(8))
    spreads = [query.oracle.moves.deviations(answer[:, None], step) for answer in (one, other)]
    if spreads[0] is not None and spreads[1] is not None:
        wider, ratio = _spreads_apart(spreads[0].flatten(1), spreads[1].flatten(1))
        relative = torch.where(noisy, relative.maximum(wider), relative)
        variation = (variation + 1.5 * ratio).clamp(max=1.0)
    variation, farthest = (torch.where(noisy, value, 0.0) for value in (variation, moved.abs().amax(1)))
    return Gap(float(relative.max()), float(variation.max()), float(farthest.max()))


def _spreads_apart(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Of standard deviations (rows, d): how far they are apart, relative to the larger ones; and the root of the sum of
    squares of what the ratios of variances differ from 1 by. Gaussians with these are no further apart, in total
    variation, than 1.5 times that (Devroye, Mehrabian, Reddad 2018)."""
    most = torch.maximum(one, other).clamp(min=1e-300)
    apart = root_mean_square((one - other) / most)
    ratio = torch.where(one == other, 0.0, (one / other.clamp(min=1e-300)).square() - 1)
    return apart, torch.linalg.vector_norm(ratio, dim=1)


def root_mean_square(table: Tensor) -> Tensor:
    """Of each row."""
    return table.flatten(1).square().mean(1).sqrt()
