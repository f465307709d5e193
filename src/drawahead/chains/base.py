"""What a sampler sees of a chain: paths under way, questions about them, answers as one-step laws."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from drawahead.engine.threads import Query, Thread
from drawahead.errors import InputError
from drawahead.laws import Law
from drawahead.randomness import Stream


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


class Answer(Protocol):
    """The laws a round found along each path."""

    @property
    def target(self) -> Law:
        """Column i: the law of the step at depth first + i, given the path up to it. (rows, most conditionings)."""

    def after(self, depth: Tensor, width: int) -> Thread:
        """Drafts for the `width` steps that follow the step at index `depth` (rows,) of the asked ones, made from the
        answer at that index. A generator that returns a law (rows, width), and may read more of the answer on the way,
        which costs no round."""

    def leaning(self, draft: Law) -> Law:
        """`target` as drafts for the same steps next time, where they may start from other states. `draft` (rows, most
        conditionings - 1) is what this round went by: where both have been asked, they tell how answers change."""


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
    _numbered: tuple[Tensor, Tensor] | None = None  # a position, and the steps from there on

    def __len__(self) -> int:
        return len(self.position)

    @property
    @abc.abstractmethod
    def device(self) -> torch.device:
        """Where values and laws live."""

    @property
    def room(self) -> Tensor:
        """How many steps may be drafted from here (rows,): a step must follow them that is drawn from its target."""
        return self.room_at(self.position)

    def room_at(self, position: Tensor) -> Tensor:
        """How many steps may be drafted from `position` (rows,)."""
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

    def remember(self, width: int) -> None:  # noqa: B027
        """Have the model keep what it can of these paths, where that saves work in windows of `width` at most. Only for
        paths that are asked about a guess in every round, and whose guesses are committed as they are, all but the last
        step."""

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
    def ask(self, guess: Tensor | None, count: Tensor, reach: Tensor, first: int = 0) -> Query:
        """Ask about `count` (rows,) consecutive depths of each path, from depth `first` on.

        Depth i is the path after i values of `guess` (rows, w, ...) beyond the committed ones (None: no guess). `reach`
        (rows, max count) says for how many steps beyond its own each answer must be able to serve as a draft.
        """

    @abc.abstractmethod
    def query_model(self, guess: Tensor, width: Tensor, beyond: int, last_only: bool) -> tuple[Any, Tensor]:
        """Ask the model, at once, about every depth 0 ... w of `guess` (rows, w, ...), of which `width` (rows,) are a
        row's own. The answers can draft `beyond` steps past the last own depth, or past any (not `last_only`).

        -> the answer, and whether all that it says about own depths are laws: one flag (1,) on the device. Nothing is
        read back, and shapes depend on nothing but shapes: this is what a captured round asks.
        """

    @abc.abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All that differs from sample to sample, by name, one row for each (rows, ...)."""

    @abc.abstractmethod
    def made_of(self, tensors: dict[str, Tensor]) -> Self:
        """Paths made of these tensors, of which no row is taken to be finished."""

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

    @abc.abstractmethod
    def select(self, rows: Tensor) -> None:
        """Keep only these rows."""

    @abc.abstractmethod
    def result(self, rows: Tensor | slice) -> Tensor:
        """The finished values of these rows."""

    def __post_init__(self) -> None:
        self.finished: list[tuple[Tensor, Tensor, Tensor]] = []  # numbers, lengths, values
        self._retire()

    def commit(self, values: Tensor, count: Tensor, guess: Tensor | None = None) -> Tensor:
        """Advance for good; retire the rows that are complete. -> the rows that go on, as indices into the old ones."""
        self.advance(values, count, guess)
        self.tally.committed += int(count.sum())
        return self._retire()

    def _retire(self) -> Tensor:
        done = self.position >= self.length
        live = (~done).nonzero()[:, 0]
        if len(live) < len(done):
            rows = done.nonzero()[:, 0]
            self.finished.append((self.sample[rows], self.length[rows], self.result(rows.to(self.device))))
            self.select(live)
        return live


class Chain(abc.ABC):
    """Something drawn step by step, each step from a one-step law given the steps before."""

    settings: ClassVar[frozenset[str]] = frozenset()
    """Arguments of the constructor. One that is set later is checked and takes effect as if it had been given there."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.settings and self.__dict__.get("built"):
            vars(self).update(vars(self.replace(**{name: value})))
        else:
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        if not self.__dict__.get("built"):  # a subclass that is not ready, or has no constructor of ours
            return f"<{type(self).__name__}>"
        return f"<{type(self).__name__}: {self.steps} steps, {self._drawn()}>"

    def _repr_html_(self) -> str:
        from drawahead.pages.notebook import of_chain  # pages look at everything: they come last

        return of_chain(self)

    def _drawn(self) -> str:
        """What it draws, in a word."""
        return f"vectors of shape {tuple(getattr(self, 'shape', ()))}"

    def replace(self, **changes: Any) -> Self:
        """The same chain, but for these arguments of the constructor."""
        raise InputError(f"a {type(self).__name__} cannot be made anew: it has no settings")

    def compiled(self) -> Self:
        """The same chain, with its model through `torch.compile`: quicker once it is compiled, equal up to rounding.

        Keep the chain: what was compiled goes with it.
        """
        raise InputError(f"the model of a {type(self).__name__} cannot be compiled: leave .compiled() out")

    @property
    def note(self) -> str:
        """What reports say about the model."""
        return ""

    @property
    @abc.abstractmethod
    def steps(self) -> int:
        """N: the most steps a sample takes."""

    @property
    def model(self) -> Any:
        """What its paths ask: a token oracle, or the chain itself where it knows more than its model does."""
        return self

    @property
    def owner(self) -> Any:
        """What captured rounds of this chain go with."""
        return self.model

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return torch.device("cpu")

    @property
    def one_pass(self) -> bool:
        """Whether asking about a whole path costs no more than asking about one step of it."""
        return False

    @property
    def passes(self) -> int:
        """How many states the model works on to answer one question."""
        return 1

    @property
    def row_bytes(self) -> int:
        """About how much memory one step of a sample takes in a captured round."""
        return 8

    @abc.abstractmethod
    def start(self, seed: int, samples: Tensor, tally: Tally) -> Paths:
        """Fresh paths for the samples with these numbers."""

    def captured_parts(self) -> dict[str, Any]:
        """What a captured round of this chain depends on beside its samples: the model, and the chain's settings."""
        return vars(self)

    @abc.abstractmethod
    def check(self, num_samples: int) -> None:
        """Refuse, before anything is drawn, a number of samples this chain cannot give."""

    @abc.abstractmethod
    def empty(self, num_samples: int) -> Tensor:
        """Room for the values of so many samples, on the CPU."""
