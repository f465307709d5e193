"""Affine chains: a model is asked about states, values are Gaussian, and states move on linearly.

One chain for every kind of step; what a step does to a state, and how an answer becomes its law, is its `Moves`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from drawahead.chains.affine_paths import AffinePaths
from drawahead.chains.base import NARROW, Chain, Tally
from drawahead.chains.moves import Moves
from drawahead.errors import InputError
from drawahead.oracles.compiled import Compiled, described
from drawahead.oracles.condition import Condition, Given, check_rows, checked, of_samples, on_cpu
from drawahead.oracles.remote import RemoteDenoiser
from drawahead.randomness import Stream
from drawahead.validate import as_device, as_float64, as_shape, floating, law_precision, wholes

MakeMoves = Callable[[tuple[int, ...], torch.device, torch.dtype], Moves]


class AffineChain(Chain):
    """A chain on vectors. An answer has `shape`; a state, flat, is what `state_shape` and samples are made from."""

    noun: ClassVar[str]
    """What messages call the model, and chains their attribute that holds it."""

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
        self.moves = make_moves(self.shape, self._device, self.law_dtype)
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
    def replica(self) -> Self:
        return self

    @property
    def _asked(self) -> Any:
        return getattr(self, self.noun)

    @property
    def owner(self) -> Any:
        return self._asked if type(self._asked).__weakrefoffset__ else self

    @property
    def passes(self) -> int:
        return int(getattr(self._asked, "passes", 1))

    @property
    def size(self) -> int:
        """d, the number of entries of an answer."""
        return self.moves.size

    @property
    def state_shape(self) -> tuple[int, ...]:
        """What the model is shown."""
        return self.moves.state_shape

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of a sample, and of every state recorded."""
        return self.moves.sample_shape

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
        remote = {self.noun: RemoteDenoiser(self.passes)}
        return self.replace(**remote, device="cpu", condition=on_cpu(self.condition))

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
        own = {"around": self.around if start is None else None}
        own |= {"start_state": self._entries("start", start), "known": self._entries("known", known)}
        vars(chain).update(own | {"condition": checked(condition, self.device)})
        return chain

    def asks_the_same(self, other: object) -> bool:
        """Whether another chain's questions are this one's: of the same model, by the same steps."""
        return (
            isinstance(other, AffineChain)
            and self._asked is other._asked
            and (self.moves.key, self.dtype) == (other.moves.key, other.dtype)
        )

    def predict(self, x: Tensor, step: Tensor, given: Given) -> object:
        """What the model answers, as it is, at states (m, *state_shape), each at its own step (m,), with the rows of
        the condition that belong to them."""
        return self._asked(x, step, **given)

    def start(self, seed: int, samples: Tensor, tally: Tally) -> AffinePaths:
        rows, entries, moves = len(samples), math.prod(self.state_shape), self.moves
        stream = Stream.of_samples(seed, samples, self.law_dtype, self.device)
        x = moves.first(stream) if self.start_state is None else rows_of(self.start_state, samples)
        x = x if self.around is None else x + rows_of(self.around, samples)
        paths = AffinePaths(
            self,
            samples,
            torch.zeros(rows, dtype=torch.int64),
            torch.full((rows,), self.steps),
            stream,
            tally,
            x,
            x.new_zeros(rows, len(self.record), entries),
            stream,
            of_samples(self.condition, samples),
            None if self.known is None else rows_of(self.known, samples),
            x.new_zeros(rows, math.prod(moves.answer_shape)) if moves.looks_back else None,
        )
        paths.x = moves.begin(x, paths.aside)
        return paths

    def captured_parts(self) -> dict[str, Any]:
        return {self.noun: self._asked, "moves": self.moves, "dtype": self.dtype, "record": self.record}

    def deciding(self) -> dict[str, Any]:
        return {"start": self.start_state, "record": self.record, "law_dtype": self.law_dtype}

    def check(self, num_samples: int) -> None:
        for name, table in (("start", self.start_state), ("known", self.known), ("around", self.around)):
            if table is not None and 1 != len(table) < num_samples:
                raise InputError(f"{name} has {len(table)} rows, but {num_samples} samples are asked for")
        check_rows(self.condition, num_samples)

    def empty(self, num_samples: int) -> Tensor:
        kept = (len(self.record) + 1,) if self.record else ()
        return torch.zeros(num_samples, *kept, *self.moves.sample_shape, dtype=self.dtype)

    def _entries(self, name: str, value: Tensor | None) -> Tensor | None:
        """One state, or one for every sample, on the device (1 or num_samples, *state_shape)."""
        if value is None:
            return None
        wide, shape = self.law_dtype == torch.float64, self.state_shape
        given = as_float64(name, value, self.device if wide else "cpu")
        if given.shape[-len(shape) :] != shape or given.dim() - len(shape) not in (0, 1):
            raise InputError(f"{name} must have shape {shape} or (num_samples, *{shape}), not {given.shape}")
        return (given if wide else given.to(self.device, self.law_dtype)).reshape(-1, *shape)


def rows_of(table: Tensor, samples: Tensor) -> Tensor:
    """The row of each sample, flat, of a table with one row for each or one for all."""
    table = table.flatten(1)
    return table.expand(len(samples), -1) if len(table) == 1 else table[samples.to(table.device)]
