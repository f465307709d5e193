"""Affine chains: a model is asked about states, values are Gaussian, and states move on linearly.

One chain for every kind of step; what a step does to a state, and how an answer becomes its law, is its `Moves`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor

from drawahead.chains.affine_queries import NOTHING, Aside, GaussianQuery
from drawahead.chains.base import NARROW, Ahead, Chain, Paths, Tally
from drawahead.chains.moves import Moves
from drawahead.errors import InputError
from drawahead.laws import Gaussian, Law
from drawahead.oracles.compiled import Compiled, described
from drawahead.oracles.condition import Condition, Conditions, check_rows, checked, of_samples, on_device, rows_of
from drawahead.oracles.remote import RemoteDenoiser
from drawahead.randomness import Stream
from drawahead.validate import as_device, as_float64, as_shape, floating, law_precision, wholes

MakeMoves = Callable[[tuple[int, ...], torch.device, torch.dtype], Moves]


class AffineChain(Chain):
    """A chain on vectors. An answer has `shape`; a state, flat, is what `state_shape` and samples are made from."""

    noun: ClassVar[str]
    """What messages call the model, and chains their attribute that holds it."""
    answers_paths = False

    def __init__(
        self,
        make_moves: MakeMoves,
        shape: Sequence[int],
        start: Tensor | None,
        record: Sequence[int],
        dtype: torch.dtype | None,
        device: torch.device | str,
        condition: Condition,
        law_dtype: torch.dtype | None,
        known: Tensor | None = None,
        around: Tensor | None = None,
    ) -> None:
        """`make_moves(shape, device, law_dtype)` works the steps out."""
        self.shape = as_shape("shape", shape)
        self.dtype = torch.float32 if dtype is None else floating("dtype", dtype)
        self._device = as_device("device", device)
        self.law_dtype = law_precision(law_dtype, self._device)
        self.condition = checked(condition, self._device)
        self.moves = moves = make_moves(self.shape, self._device, self.law_dtype)
        self.size, self.state_shape, self.sample_shape = moves.size, moves.state_shape, moves.sample_shape
        self.record = wholes("record", record)
        if any(not 0 < step < self.steps for step in self.record):
            raise InputError(f"record must list numbers of steps between 1 and {self.steps - 1}, not {self.record}")
        self.start_state = self._entries("start", start)
        self.known = self._entries("known", known)
        self.around = self._entries("around", around)

    @property
    def steps(self) -> int:
        return self.moves.steps

    @property
    def plan(self) -> Any:
        """The coefficients of every step."""
        return self.moves.plan

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def model(self) -> Self:
        return self

    @property
    def _asked(self) -> Any:
        return getattr(self, self.noun)

    @property
    def passes(self) -> int:
        return int(getattr(self._asked, "passes", 1))

    @property
    def row_bytes(self) -> int:
        return 8 * math.prod(self.state_shape)

    @property
    def note(self) -> str:
        words = [described([self._asked])] if isinstance(self._asked, Compiled) else []
        return "; ".join(words + ([] if self.law_dtype == torch.float64 else [NARROW]))

    def compiled(self) -> Self:
        return self.replace(**{self.noun: Compiled(self._asked)})

    def without_model(self) -> Self:
        return self.replace(
            **{self.noun: RemoteDenoiser(self.passes)}, device="cpu", condition=on_device(self.condition, "cpu")
        )

    def replace(self, **changes: Any) -> Self:
        """The same chain, but for these arguments of the constructor."""
        chain = super().replace(**changes)
        if chain.moves.key == self.moves.key:  # then captured rounds may serve both
            vars(chain).update(moves=self.moves, shape=self.shape)
        return chain

    def for_samples(
        self, *, start: Tensor | None = None, known: Tensor | None = None, condition: Condition = None
    ) -> Self:
        """The same chain for other samples: what `replace` gives for these, but nothing else is worked out anew. Where
        a start is given, the first state is that, and `around` has no part in it."""
        chain = copy.copy(self)
        own = {"start_state": self._entries("start", start), "known": self._entries("known", known)}
        own |= {"around": self.around if start is None else None}
        vars(chain).update(own, condition=checked(condition, self.device))
        return chain

    @property
    def question(self) -> tuple[Any, ...]:
        """What its questions are about: chains of which this is equal ask the same model, by the same steps."""
        return id(self._asked), self.moves.key, self.dtype

    def predict(self, x: Tensor, step: Tensor, condition: Conditions) -> object:
        """What the model answers, as it is, at states (m, *state_shape), each at its own step (m,), with the rows of
        the condition that belong to them."""
        return self._asked(x, step, **condition)

    def start(self, seed: int, samples: Tensor, tally: Tally) -> AffinePaths:
        condition = of_samples(self.condition, samples) if self.condition else {}
        return self.begun(self.stream(seed, samples, self.device), samples, condition, tally)

    def stream(self, seed: int, samples: Tensor, device: torch.device) -> Stream:
        return Stream.of_samples(seed, samples, self.law_dtype, device)

    @property
    def alike(self) -> Hashable:
        own = any(table is not None for table in (self.start_state, self.known, self.around))
        return None if own or type(self).start is not AffineChain.start else ()

    def begun(self, stream: Stream, samples: Tensor, condition: Conditions, tally: Tally) -> AffinePaths:
        rows, moves = len(samples), self.moves
        x = moves.first(stream) if self.start_state is None else rows_of(self.start_state, samples).flatten(1)
        x = x if self.around is None else x + rows_of(self.around, samples).flatten(1)
        position, length = torch.zeros(rows, dtype=torch.int64), torch.full((rows,), self.steps)
        recorded = x.new_zeros(rows, len(self.record), x.shape[1])
        known = None if self.known is None else rows_of(self.known, samples).flatten(1)
        before = x.new_zeros(rows, math.prod(moves.answer_shape)) if moves.looks_back else None
        drawn = samples, position, length, stream, tally
        paths = AffinePaths(self, *drawn, x, recorded, stream, condition, known, before)
        paths.x = moves.begin(x, paths.aside)
        return paths

    def captured_parts(self) -> dict[str, Any]:
        return {self.noun: self._asked, "moves": self.moves, "dtype": self.dtype, "record": self.record}

    def deciding(self) -> dict[str, Any]:
        return {"start": self.start_state, "record": self.record, "law_dtype": self.law_dtype}

    def check(self, num_samples: int) -> None:
        tables = {"start": self.start_state, "known": self.known, "around": self.around}
        if self.condition or any(table is not None for table in tables.values()):
            check_rows(self.condition, num_samples, **tables)

    def empty(self, num_samples: int) -> Tensor:
        kept = (len(self.record) + 1,) if self.record else ()
        return torch.zeros(num_samples, *kept, *self.sample_shape, dtype=self.dtype)

    def _entries(self, name: str, value: Tensor | None) -> Tensor | None:
        """One state, or one for every sample, on the device (1 or num_samples, *state_shape)."""
        if value is None:
            return None
        wide, shape = self.law_dtype == torch.float64, self.state_shape
        table = as_float64(name, value, self.device if wide else "cpu")
        if table.shape not in (shape, (*table.shape[:1], *shape)):
            raise InputError(f"{name} must have shape {shape} or (num_samples, *{shape}), not {table.shape}")
        return table.to(self.device, self.law_dtype).reshape(-1, *shape)


@final
@dataclass(eq=False)
class AffinePaths(Paths):
    """Samples of an affine chain under way."""

    tables: ClassVar[tuple[str, ...]] = ("x", "recorded", "before", "known")
    streams: ClassVar[tuple[str, ...]] = ("stream", "copies")
    chain: AffineChain
    sample: Tensor
    position: Tensor
    length: Tensor
    stream: Stream
    tally: Tally
    x: Tensor  # (rows, entries of a state) the committed state
    recorded: Tensor  # (rows, len(record), entries of a state)
    copies: Stream  # of noise that no answer has a part in: a branch meets the same as its parent
    condition: Conditions = field(default_factory=dict)  # the rows of the condition
    known: Tensor | None = None  # (rows, d) entries that are overwritten, NaN where there are none
    before: Tensor | None = None  # (rows, entries of an answer) the answer at the state before, where steps look back
    answers: Tensor | None = None  # (rows, columns, entries of an answer) the last ones, where steps look back
    followed: tuple[Tensor, Tensor] | None = None  # the last guess, and the states it leads to
    blocked: bool = False  # whether states are worked out in blocks: where every operation is a kernel of its own

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def moves(self) -> Moves:
        return self.chain.moves

    def room_at(self, position: Tensor) -> Tensor:
        if not self.moves.deterministic_within:
            return super().room_at(position)
        ahead = self.moves.next_deterministic[position.device.type][position.clamp(max=self.moves.steps)]
        return torch.minimum(self.length - 1, ahead) - position

    @property
    def stretch(self) -> Tensor:
        ahead = self.moves.next_deterministic[self.position.device.type]
        return (ahead[self.position] - self.position).clamp(min=1)

    @property
    def windows_only(self) -> str:
        return self.moves.windows_only

    @property
    def aside(self) -> Aside:
        """What laws and states depend on beside answers and values."""
        return Aside(self.known, self.copies, self.before, self.blocked)

    def no_draft(self) -> Gaussian:
        nothing = self.x.new_zeros(len(self), 0, math.prod(self.moves.answer_shape))
        return self.moves.law(nothing, self.steps(0), NOTHING).without_thin()

    def states(self, values: Tensor) -> Tensor:
        """The states after 0, 1, ... of the values (rows, w, ...) -> (rows, w + 1, entries of a state)."""
        if self.followed is not None and self.followed[0] is values:
            return self.followed[1]
        return self.moves.roll(self.x, values, self.steps(values.shape[1] + 1), self.aside)

    def follow(self, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        if not isinstance(draft, Gaussian) or draft.slope is None:
            return super().follow(draft, noise)
        guess, mean, states = self.moves.follow(self.x, draft, noise, self.steps(noise.shape[1]), self.aside)
        self.followed = None if states is None else (guess, states)
        return guess, Gaussian(mean, draft.scale)

    def ask(self, guess: Tensor | None, count: Tensor, reach: Tensor | Ahead, first: int = 0) -> GaussianQuery:
        states = self.x[:, None] if guess is None else self.states(guess)
        self.followed = None if guess is None else (guess, states)
        last = first + reach.shape[1] if isinstance(reach, Tensor) else states.shape[1]
        step = self.steps(last)[:, first:].clamp(max=self.moves.steps - 1)
        asker = self if self.moves.looks_back else None
        path = self.chain, self.sample, states[:, first:last], step, count
        return GaussianQuery(*path, self.condition, None, self.aside, asker)

    def bound(self, tensors: dict[str, Tensor], model: AffineChain) -> AffinePaths:
        paths = self.made_of(tensors)
        paths.chain, paths.blocked = model, True
        return paths

    def made_of(self, tensors: dict[str, Tensor]) -> AffinePaths:
        paths = super().made_of(tensors)
        paths.followed, paths.answers = None, None
        return paths

    def advance(self, values: Tensor, count: Tensor, guess: Tensor | None = None) -> None:
        at = count.to(self.device)
        rows = torch.arange(len(self), device=self.device)
        if guess is not None and self.followed is not None and self.followed[0] is guess:
            states = self.followed[1]
            x = self.moves.reached(self.x, states, values, self.position.to(self.device), at, self.aside)
        else:
            states = self.states(values if self.blocked else values[:, : int(count.max())])
            x = states[rows, at]
        for column, recorded in enumerate(self.chain.record):
            ahead = (recorded - self.position).to(self.device)
            passed = (ahead > 0) & (ahead <= at)
            there = torch.where((ahead == at)[:, None], x, states[rows, ahead.clamp(0, states.shape[1] - 1)])
            self.recorded[:, column] = torch.where(passed[:, None], there, self.recorded[:, column])
        if self.before is not None and self.answers is not None:
            last = self.answers[rows, (at - 1).clamp(min=0)]
            self.before = torch.where(at[:, None] > 0, last, self.before)
        self.x, self.followed, self.answers = x, None, None
        self.position = self.position + count

    def branch(self, stream: Stream) -> AffinePaths:
        return replace(self, stream=stream, recorded=self.recorded.clone())

    def result(self, rows: Tensor | slice) -> Tensor:
        kept = self.moves.outcome(self.recorded[rows], self.x[rows])
        return kept.reshape(len(kept), *self.chain.empty(1).shape[1:]).to("cpu", self.chain.dtype)
