"""What a sampler sees of a chain: paths under way, questions about them, answers as one-step laws."""

from __future__ import annotations

import abc
import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from drawahead.chains.chain import Chain as Chain
from drawahead.laws import Law
from drawahead.oracles.condition import CONDITION, Conditions, of_rows
from drawahead.oracles.tokens import HIDDEN
from drawahead.randomness import Stream
from drawahead.rounds.threads import Query


def repeated(count: Tensor) -> Tensor:
    """0 count[0] times, 1 count[1] times and so on, on the CPU. Where torch has several threads, its own
    repeat_interleave wakes all of them for it, which takes a thousand times longer."""
    return torch.from_numpy(np.repeat(np.arange(len(count)), count.numpy()))


NARROW = "laws are worked out in float32"
"""What reports say of chains that do so."""


@dataclass
class Tally:
    """What the samplers of one run have done so far; the report is made from it."""

    committed: int = 0
    drafted: int = 0
    accepted: int = 0
    candidates: int = 0
    hurried: bool = False
    """Whether drafts are to be taken as they are from now on."""
    unverified: int = 0
    """Steps that were committed so."""


class Ahead(NamedTuple):
    """For how many steps the answers of a captured round must be able to serve as drafts: a number for all rows."""

    steps: int
    last_only: bool
    """Whether that holds for the last of a row's own depths alone."""


class Answer(Protocol):
    """The laws a round found along each path."""

    @property
    def target(self) -> Law:
        """Column i: the law of the step at depth first + i, given the path up to it. (rows, most conditionings)."""

    def after(self, depth: Tensor, width: int) -> Law:
        """Drafts for the `width` steps that follow the step at index `depth` (rows,) of the asked ones, made from the
        answer at that index (rows, width)."""

    def newest(self, column: Tensor, width: Tensor, beyond: int, draft: Law | None) -> Law:
        """Drafts for the steps at `column` (rows, w) of the asked ones: each step's own answer in the first columns, up
        to `width` (rows,), and the one there, which must reach `beyond` steps, for all behind it. `draft` (rows, most
        conditionings - 1) is what this round went by, if drafts are to lean: where both have been asked about a step,
        they tell how its answer changes with the state."""


class Ends(abc.ABC):
    """Where token samples end that may end early."""

    @abc.abstractmethod
    def __call__(self, tokens: Tensor, before: Tensor, now: Tensor, most: int, condition: Conditions) -> Tensor:
        """The length (r,) at which each path of tokens (r, n) ends, if it does so on its way from `before` to `now`
        (r,) steps, at most `most` further; n where it goes on. With the rows of the condition."""

    def shortened(
        self, length: Tensor, tokens: Tensor, before: Tensor, now: Tensor, most: int, condition: Conditions
    ) -> Tensor:
        """The lengths (r,) of paths, as they are now; control may be on the CPU."""
        end = self(tokens, before.to(tokens.device), now.to(tokens.device), most, condition)
        return torch.minimum(length, end.to(length.device))

    def cut(self, tokens: Tensor, length: Tensor) -> Tensor:
        """Tokens (r, n) with HIDDEN behind their lengths (r,)."""
        return tokens.masked_fill(torch.arange(tokens.shape[1], device=tokens.device) >= length[:, None], HIDDEN)


_CONTROL = ("sample", "position", "length")


class Paths(abc.ABC):
    """A batch of samples under way. Rows leave as they finish; `rows` below is the number still live.

    Control lives on the CPU (`sample`, `position`, `length`), values and noise on the oracle's device.
    """

    sample: Tensor
    """The number of each row's sample (rows,)."""
    position: Tensor
    """How many steps each row has committed (rows,)."""
    length: Tensor
    """How many steps each row has in all (rows,)."""
    stream: Stream
    """Each row's noise."""
    tally: Tally
    condition: Conditions
    """The rows of the condition."""
    tables: ClassVar[tuple[str, ...]]
    """Attributes with a row for each sample, on the device; None where there is nothing of the kind."""
    streams: ClassVar[tuple[str, ...]] = ("stream",)
    _numbered: tuple[Tensor, Tensor] | None = None  # a position, and the steps from there on

    def __len__(self) -> int:
        return len(self.position)

    @property
    @abc.abstractmethod
    def device(self) -> torch.device:
        """Where values and laws live."""

    def room_at(self, position: Tensor) -> Tensor:
        """How many steps may be drafted from `position` (rows,): one must follow them that is drawn from its target."""
        return self.length - position - 1

    @property
    def stretch(self) -> Tensor:
        """How many steps from here are random, one after another (rows,); 1 where the next one is not."""
        return self.length - self.position

    def steps(self, width: int) -> Tensor:
        """The next `width` step numbers of each row, on the device (rows, width)."""
        position, known = self._numbered or (None, None)
        if known is None or position is not self.position or known.shape[1] < width:
            known = (self.position[:, None] + torch.arange(width, device=self.position.device)).to(self.device)
            self._numbered = self.position, known
        return known[:, :width]

    @property
    def one_pass(self) -> bool:
        """Whether asking about a whole path costs no more than asking about one step of it."""
        return False

    def remember(self, width: int | None) -> None:  # noqa: B027
        """Have the model keep what it can of these paths, where that saves work in windows of `width` at most (None:
        wherever it can). Only for paths that are asked about a guess in every round, and whose guesses are committed as
        they are, all but the last step."""

    @property
    def remembers(self) -> bool:
        """Whether the model keeps something of these paths."""
        return False

    @property
    def windows_only(self) -> str:
        """What about its steps only samplers that draw in windows can take; empty if there is nothing."""
        return ""

    @abc.abstractmethod
    def no_draft(self) -> Law:
        """A table of laws with an empty window (rows, 0)."""

    def follow(self, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        """The values of a draft along its own path, and the laws they were really drawn from."""
        return draft.draw(noise), draft

    @abc.abstractmethod
    def ask(self, guess: Tensor | None, count: Tensor, reach: Tensor | Ahead, first: int = 0) -> Query:
        """Ask about `count` (rows,) consecutive depths of each path, from depth `first` on: a table (rows, most), in
        which what lies behind a row's own depths is padding.

        Depth i is the path after i values of `guess` (rows, w, ...) beyond the committed ones (None: no guess). `reach`
        (rows, most) says for how many steps beyond its own each answer must be able to serve as a draft; captured
        rounds say it by an `Ahead`, and of all depths from the first on.
        """

    def tensors(self) -> dict[str, Tensor]:
        """All that differs from sample to sample, by name, one row for each (rows, ...)."""
        own = {name: getattr(self, name) for name in (*_CONTROL, *self.tables)}
        own |= {name: getattr(self, name).keys for name in self.streams}
        own |= {f"{CONDITION}{name}": table for name, table in self.condition.items()}
        return {name: table for name, table in own.items() if table is not None}

    def made_of(self, tensors: dict[str, Tensor]) -> Self:
        """Paths made of these tensors, of which no row is taken to be finished."""
        paths = copy.copy(self)
        paths.condition = {}
        for name, tensor in tensors.items():
            if name.startswith(CONDITION):
                paths.condition[name.removeprefix(CONDITION)] = tensor
            else:
                setattr(paths, name, Stream(tensor, self.stream.dtype) if name in self.streams else tensor)
        return paths

    @abc.abstractmethod
    def bound(self, tensors: dict[str, Tensor], model: Any) -> Self:
        """Paths made of these tensors, for a chain's `model`, with control on the device too."""

    @abc.abstractmethod
    def advance(self, values: Tensor, count: Tensor, guess: Tensor | None = None) -> None:
        """Move each path on by its first `count` (rows,) values. If a `guess` is given that was asked about before, all
        but the last of these values are its own."""

    @abc.abstractmethod
    def branch(self, stream: Stream) -> Self:
        """An independent copy that draws from another stream."""

    def select(self, rows: Tensor) -> None:
        """Keep only these rows."""
        for name in _CONTROL:
            setattr(self, name, getattr(self, name)[rows])
        rows = rows.to(self.device)
        for name in (*self.tables, *self.streams):
            part = getattr(self, name)
            setattr(self, name, None if part is None else part[rows])
        self.condition = of_rows(self.condition, rows) if self.condition else {}

    @abc.abstractmethod
    def result(self, rows: Tensor | slice) -> Tensor:
        """The finished values of these rows."""

    def __post_init__(self) -> None:
        self.finished: list[tuple[Tensor, Tensor, Tensor]] = []  # numbers, lengths, values
        self._retire()

    def commit(self, values: Tensor, count: Tensor, guess: Tensor | None = None) -> Tensor:
        """Advance for good; retire the rows that are complete. -> the rows that go on, as indices into the old ones."""
        before = self.position
        self.advance(values, count, guess)
        self.tally.committed += int((self.position - before).sum())
        return self._retire()

    def _retire(self) -> Tensor:
        done = self.position >= self.length
        live = (~done).nonzero()[:, 0]
        if len(live) < len(done):
            rows = done.nonzero()[:, 0]
            self.finished.append((self.sample[rows], self.length[rows], self.result(rows.to(self.device))))
            self.select(live)
        return live
