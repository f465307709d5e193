"""What all chains of Gaussian steps share: a model asked about states, values that are Gaussian, states that follow.

A chain says what a model is shown and how an answer becomes a law; its paths say which states values lead to.
"""

from __future__ import annotations

import abc
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from drawahead.chains.aside import NOTHING, Aside
from drawahead.chains.base import NARROW, Chain, Paths, Tally, repeated
from drawahead.chains.gaussian_queries import GaussianAnswer, GaussianQuery, GaussianTable, predictions
from drawahead.errors import InputError
from drawahead.laws import Gaussian
from drawahead.laws.gaussian import largest
from drawahead.models.compiled import Compiled, described
from drawahead.models.condition import GIVEN, Condition, Given, check_rows, checked, of_rows
from drawahead.randomness import Stream
from drawahead.validate import as_device, as_float64, as_shape, floating, law_precision, wholes


class VectorChain(Chain):
    """A chain on vectors. An answer has `shape`; a state, flat, is what `state_shape` and samples are made from."""

    noun: ClassVar[str]
    """What messages call the model, and chains their attribute that holds it."""
    per_sample: ClassVar[frozenset[str]] = frozenset({"start_state", "known", "around", "condition"})
    """Attributes that hold something for each sample."""
    start_state: Tensor | None
    """The first state, where it is given (1 or num_samples, entries of a state)."""

    def __init__(
        self,
        shape: Sequence[int],
        record: Sequence[int],
        dtype: torch.dtype | None,
        device: torch.device | str,
        deterministic: Tensor,
        condition: Condition,
        law_dtype: torch.dtype | None,
    ) -> None:
        """`deterministic` (N,) says which steps have no noise."""
        self.shape = as_shape("shape", shape)
        self.dtype = torch.float32 if dtype is None else floating("dtype", dtype)
        self._device = as_device("device", device)
        self.law_dtype = law_precision(law_dtype, self._device)
        self.condition = checked(condition, self._device)
        self._steps = len(deterministic)
        self.record = wholes("record", record)
        if any(not 0 < step < self.steps for step in self.record):
            raise InputError(f"record must list numbers of steps between 1 and {self.steps - 1}, not {self.record}")
        first = torch.where(deterministic.cpu(), torch.arange(self.steps), self.steps)
        ahead = torch.cat([first.flip(0).cummin(0).values.flip(0), torch.tensor([self.steps])])
        self.deterministic_within = bool(deterministic[:-1].any())  # at a step before the last
        self._ahead = {place.type: ahead.to(place) for place in (torch.device("cpu"), self.device)}

    @property
    def steps(self) -> int:
        return self._steps

    @property
    def model(self) -> VectorChain:
        return self

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def _wide(self) -> bool:
        return self.law_dtype == torch.float64

    @property
    def row_bytes(self) -> int:
        return 8 * math.prod(self.state_shape)

    @property
    def size(self) -> int:
        """d, the number of entries of an answer."""
        return math.prod(self.shape)

    @property
    def state_shape(self) -> tuple[int, ...]:
        """What the model is shown."""
        return self.shape

    @property
    def answer_shape(self) -> tuple[int, ...]:
        """What the model answers."""
        return self.shape

    @property
    def looks_back(self) -> bool:
        """Whether a step's law depends on the answer at the state before its own, too."""
        return False

    @property
    def windows_only(self) -> str:
        """What about its steps only samplers that draw in windows can take; empty if there is nothing."""
        return ""

    @property
    def subspace_basis(self) -> Tensor | None:
        """Orthonormal columns that span the subspace of states (d, dimensions); None where they are not held in one."""
        return None

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of a sample, and of every state recorded."""
        return self.shape

    def compiled(self) -> Self:
        return self.replace(**{self.noun: Compiled(getattr(self, self.noun))})

    @property
    def note(self) -> str:
        model = getattr(self, self.noun)
        words = [described([model])] if isinstance(model, Compiled) else []
        return "; ".join(words + ([] if self._wide else [NARROW]))

    def next_deterministic(self, device: torch.device) -> Tensor:
        """By step (N + 1,): the first deterministic step at or after it; N if there is none."""
        return self._ahead[device.type]

    @abc.abstractmethod
    def predict(self, x: Tensor, step: Tensor, given: Given) -> object:
        """What the model answers, as it is, at states (m, *state_shape), each at its own step (m,), with the rows of
        the condition that belong to them."""

    def adjust(self, prediction: Tensor) -> Tensor:
        """What is done to flat answers (m, d) before they are used; part of the law."""
        return prediction

    @abc.abstractmethod
    def law(self, answer: Tensor, step: Tensor, aside: Aside, before: Tensor | None = None) -> Gaussian:
        """The laws of the values at `step` (rows, w), from flat answers (rows, w, ...) and those at the states before,
        where steps look back. Without them it is as if the model had answered the same there."""

    def lean(
        self, target: Gaussian, states: Tensor, step: Tensor, draft: Gaussian, width: Tensor, free: Tensor | None
    ) -> Gaussian:
        """`target` (rows, w + 1), answered at `states` and `step`, as it leans; `width` (rows,) of its columns had a
        draft. See `Answer.leaning`."""
        return target

    @abc.abstractmethod
    def outcome(self, recorded: Tensor, last: Tensor) -> Tensor:
        """What a sample holds, from the flat states recorded (rows, len(record), ...) and the last one (rows, ...)."""

    def captured_parts(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name not in self.per_sample}

    def check(self, num_samples: int) -> None:
        self.enough("start", self.start_state, num_samples)
        check_rows(self.condition, num_samples)

    def enough(self, name: str, given: Tensor | None, num_samples: int) -> None:
        if given is not None and 1 != len(given) < num_samples:
            raise InputError(f"{name} has {len(given)} rows, but {num_samples} samples are asked for")

    def empty(self, num_samples: int) -> Tensor:
        kept = (len(self.record) + 1,) if self.record else ()
        return torch.zeros(num_samples, *kept, *self.sample_shape, dtype=self.dtype)

    def entries(self, name: str, value: Tensor) -> Tensor:
        """One state, or one for every sample, flat and on the device (1 or num_samples, ...)."""
        given, shape = as_float64(name, value, self.device if self._wide else "cpu"), self.state_shape
        if given.shape[-len(shape) :] != shape or given.dim() - len(shape) not in (0, 1):
            raise InputError(f"{name} must have shape {shape} or (num_samples, *{shape}), not {given.shape}")
        given = given if self._wide else given.to(self.device, self.law_dtype)
        return given.reshape(-1, math.prod(shape))


def rows_of(table: Tensor, samples: Tensor) -> Tensor:
    """The row of each sample, of a table with one row for each or one for all."""
    return table.expand(len(samples), -1) if len(table) == 1 else table[samples.to(table.device)]


@dataclass(eq=False)
class VectorPaths(Paths):
    """Vectors under way."""

    chain: VectorChain
    sample: Tensor
    position: Tensor
    length: Tensor
    stream: Stream
    tally: Tally
    x: Tensor  # (rows, entries of a state) the committed state
    recorded: Tensor  # (rows, len(record), entries of a state)
    copies: Stream  # of noise that no answer has a part in: a branch meets the same as its parent
    given: Given = field(default_factory=dict)  # the rows of the condition
    before: Tensor | None = None  # (rows, entries of an answer) the answer at the state before, where steps look back
    answer: GaussianAnswer | GaussianTable | None = None  # the last one, where steps look back
    followed: tuple[Tensor, Tensor] | None = None  # the last guess, and the states it leads to
    blocked: bool = False  # whether states are worked out in blocks: where every operation is a kernel of its own

    @property
    def device(self) -> torch.device:
        return self.chain.device

    def room_at(self, position: Tensor) -> Tensor:
        if not self.chain.deterministic_within:
            return super().room_at(position)
        ahead = self.chain.next_deterministic(position.device)[position.clamp(max=self.chain.steps)]
        return torch.minimum(self.length - 1, ahead) - position

    @property
    def stretch(self) -> Tensor:
        return (self.chain.next_deterministic(self.position.device)[self.position] - self.position).clamp(min=1)

    @property
    def free(self) -> Tensor | None:
        """Which entries are not overwritten (rows, d); None where all are free."""
        return None

    def no_draft(self) -> Gaussian:
        size = math.prod(self.chain.answer_shape)
        nothing = torch.zeros(len(self), 0, size, dtype=self.chain.law_dtype, device=self.device)
        return self.chain.law(nothing, self.steps(0), NOTHING).without_thin()

    @property
    def windows_only(self) -> str:
        return self.chain.windows_only

    @property
    def aside(self) -> Aside:
        """What laws depend on beside answers."""
        return Aside(self.free, self.copies, self.before)

    def _hear(self, answer: GaussianAnswer | GaussianTable) -> None:
        self.answer = answer

    @abc.abstractmethod
    def states(self, values: Tensor) -> Tensor:
        """The states after 0, 1, ... of the values (rows, w, ...) -> (rows, w + 1, entries of a state)."""

    @abc.abstractmethod
    def onward(self, state: Tensor, value: Tensor, step: Tensor) -> Tensor:
        """The states (rows, ...) that values (rows, ...) at `step` (rows,) lead to from states (rows, ...)."""

    def ask(self, guess: Tensor | None, count: Tensor, reach: Tensor, first: int = 0) -> GaussianQuery:
        states = self.x[:, None] if guess is None else self.states(guess)
        self.followed = None if guess is None else (guess, states)
        row = repeated(count)
        start = count.cumsum(0) - count
        depth = first + torch.arange(len(row)) - start[row]
        at = (row * states.shape[1] + depth).to(self.device)
        step = self.position[row] + depth
        most = int(count.max())
        state, owner = states.flatten(0, 1)[at], row if self.given else row[:0]
        heard = self._hear if self.chain.looks_back else None
        return GaussianQuery(
            self.chain, self.sample[row], state, step, self.given, owner, start, count, most, self.aside, heard
        )

    def query_model(self, guess: Tensor, width: Tensor, beyond: int, last_only: bool) -> tuple[GaussianTable, Tensor]:
        states = self.states(guess)
        self.followed = guess, states
        depths = states.shape[1]
        step = self.steps(depths).clamp(max=self.chain.steps - 1)
        given = {name: table.repeat_interleave(depths, 0) for name, table in self.given.items()}
        predicted = predictions(self.chain, states.flatten(0, 1), step.flatten(), given)
        padding = torch.arange(depths, device=self.device) > width[:, None]
        finite = (largest(predicted) < torch.inf).view_as(padding)
        sound = finite | padding | (self.position >= self.length)[:, None]
        # Nobody reads the padding, but what is added up may be multiplied by zero with it.
        own = predicted.nan_to_num_(0.0, 0.0, 0.0).unflatten(0, padding.shape)
        answer = GaussianTable(self.chain, states, step, own, width, self.aside)
        if self.chain.looks_back:
            self._hear(answer)
        return answer, sound.all().view(1)

    def tensors(self) -> dict[str, Tensor]:
        own = {"sample": self.sample, "position": self.position, "length": self.length, "x": self.x}
        own |= {"recorded": self.recorded, "stream": self.stream.keys, "copies": self.copies.keys}
        own |= {} if self.before is None else {"before": self.before}
        return own | {f"{GIVEN}{name}": table for name, table in self.given.items()}

    def bound(self, tensors: dict[str, Tensor], model: VectorChain) -> Self:
        paths = self.made_of(tensors)
        paths.chain, paths.blocked = model, True
        return paths

    def made_of(self, tensors: dict[str, Tensor]) -> Self:
        paths = copy.copy(self)
        paths.followed, paths.answer = None, None
        paths.given = {name.removeprefix(GIVEN): table for name, table in tensors.items() if name.startswith(GIVEN)}
        for name, tensor in tensors.items():
            if not name.startswith(GIVEN):
                streams = name in ("stream", "copies")
                setattr(paths, name, Stream(tensor, self.stream.dtype) if streams else tensor)
        return paths

    def advance(self, values: Tensor, count: Tensor, guess: Tensor | None = None) -> None:
        at = count.to(self.device)
        rows = torch.arange(len(self), device=self.device)
        if guess is not None and self.followed is not None and self.followed[0] is guess:
            # From the very state that was asked about: rolled again from the start, rounding might have grown.
            states, last = self.followed[1], (at - 1).clamp(min=0)
            x = self.onward(states[rows, last], values[rows, last], self.position.to(self.device) + last)
            x = torch.where(at[:, None] > 0, x, self.x)
        else:
            states = self.states(values if self.blocked else values[:, : int(count.max())])
            x = states[rows, at]
        for column, step in enumerate(self.chain.record):
            ahead = (step - self.position).to(self.device)
            passed = (ahead > 0) & (ahead <= at)
            there = torch.where((ahead == at)[:, None], x, states[rows, ahead.clamp(0, states.shape[1] - 1)])
            self.recorded[:, column] = torch.where(passed[:, None], there, self.recorded[:, column])
        if self.before is not None and self.answer is not None:
            last = self.answer.own[rows, (at - 1).clamp(min=0)]
            self.before = torch.where(at[:, None] > 0, last, self.before)
        self.x, self.followed, self.answer = x, None, None
        self.position = self.position + count

    def branch(self, stream: Stream) -> Self:
        return replace(self, stream=stream, recorded=self.recorded.clone())

    def select(self, rows: Tensor) -> None:
        self.sample, self.position, self.length = self.sample[rows], self.position[rows], self.length[rows]
        rows = rows.to(self.device)
        self.stream, self.copies = self.stream[rows], self.copies[rows]
        self.x, self.recorded, self.given = self.x[rows], self.recorded[rows], of_rows(self.given, rows)
        self.before = None if self.before is None else self.before[rows]

    def result(self, rows: Tensor | slice) -> Tensor:
        kept = self.chain.outcome(self.recorded[rows], self.x[rows])
        return kept.reshape(len(kept), *self.chain.empty(1).shape[1:]).to("cpu", self.chain.dtype)
