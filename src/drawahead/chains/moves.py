"""How the states of an affine chain move: what a kind of step is, and all that knows of it.

A chain, its paths, its questions and answers are the same for every kind of step. A new kind is a new `Moves`.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from drawahead.laws import Gaussian
from drawahead.randomness import Stream


@final
@dataclass(frozen=True, eq=False)
class Aside:
    """What laws and states depend on beside answers and values: a row for each path, None where there is nothing."""

    known: Tensor | None = None  # (rows, d) entries that are overwritten, NaN where there are none
    copies: Stream | None = None  # of noise that no answer has a part in
    before: Tensor | None = None  # (rows, entries of an answer) the answer at the state before the committed one
    blocked: bool = False  # whether states are worked out in blocks: where every operation is a kernel of its own

    @cached_property
    def free(self) -> Tensor | None:
        """Which entries are not overwritten (rows, d); None where all are free."""
        return None if self.known is None else self.known.isnan()


NOTHING = Aside()


class Moves(abc.ABC):
    """The steps of a plan, worked out where the model lives.

    States, answers and values are flat. `step` (rows, w) and `taken` (rows, w) may lie beyond the last step: padding.
    """

    plan: Any
    size: int
    """d, the number of entries of the vector that an answer tells."""
    state_shape: tuple[int, ...]
    """What the model is shown."""
    answer_shape: tuple[int, ...]
    """What the model answers."""
    sample_shape: tuple[int, ...]
    """Of a sample, and of every state recorded."""
    looks_back: bool = False
    """Whether a step's law depends on the answer at the state before its own, too."""
    windows_only: str = ""
    """What about the steps only samplers that draw in windows can take; empty if there is nothing."""
    basis: Tensor | None = None
    """Orthonormal columns that span the subspace of states (d, dimensions); None where they are not held in one."""

    def _place(self, deterministic: Tensor) -> None:
        """Note which steps (N,) have no noise."""
        self.steps = steps = len(deterministic)
        first = torch.where(deterministic.cpu(), torch.arange(steps), steps)
        ahead = torch.cat([first.flip(0).cummin(0).values.flip(0), torch.tensor([steps])])
        self.deterministic_within = bool(deterministic[:-1].any())  # at a step before the last
        self._ahead = {place.type: ahead.to(place) for place in (torch.device("cpu"), deterministic.device)}

    @property
    @abc.abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What they are worked out from, by identity: two with equal keys say the same."""

    def captured_parts(self) -> dict[str, Any]:
        """What a captured round depends on: its tables, where they lie, and what they were worked out from."""
        return {"key": self.key} | {name: part for name, part in vars(self).items() if isinstance(part, Tensor)}

    def next_deterministic(self, device: torch.device) -> Tensor:
        """By step (N + 1,): the first deterministic step at or after it; N if there is none."""
        return self._ahead[device.type]

    @abc.abstractmethod
    def first(self, stream: Stream) -> Tensor:
        """The first states (rows, ...), drawn."""

    @abc.abstractmethod
    def begin(self, x: Tensor, aside: Aside) -> Tensor:
        """What first states (rows, ...) become before any step is taken."""

    def adjust(self, prediction: Tensor) -> Tensor:
        """What is done to flat answers (m, ...) before they are used; part of the law."""
        return prediction

    @abc.abstractmethod
    def law(self, answer: Tensor, step: Tensor, aside: Aside, before: Tensor | None = None) -> Gaussian:
        """The laws of the values at `step` (rows, w), from answers (rows, w, ...) and those at the states before, where
        steps look back. Without them it is as if the model had answered the same there."""

    def deviations(self, answer: Tensor, step: Tensor) -> Tensor | None:
        """The standard deviations (rows, w, d) that answers (rows, w, ...) say the steps have; None where a plan says
        them."""
        return None

    @abc.abstractmethod
    def lean(
        self, target: Gaussian, states: Tensor, step: Tensor, draft: Gaussian, width: Tensor, free: Any
    ) -> Gaussian:
        """`target` (rows, w + 1), answered at `states` and `step`, as it leans; `width` (rows,) of its columns had a
        draft, and entries that are not `free` are overwritten. See `Answer.leaning`."""

    @abc.abstractmethod
    def roll(self, x: Tensor, values: Tensor, taken: Tensor, aside: Aside) -> Tensor:
        """The states after 0, 1, ... of the values (rows, w, ...) from x (rows, ...), once `taken` (rows, w + 1) steps
        are. -> (rows, w + 1, ...)."""

    @abc.abstractmethod
    def follow(
        self, x: Tensor, draft: Gaussian, noise: Tensor, step: Tensor, aside: Aside
    ) -> tuple[Tensor, Tensor | None]:
        """The means (rows, w, ...) of a draft that leans, read at the states of its own path from x on; and those
        states (rows, w + 1, ...), unless entries of them are overwritten."""

    @abc.abstractmethod
    def onward(self, state: Tensor, value: Tensor, step: Tensor, aside: Aside) -> Tensor:
        """The states (rows, ...) that values (rows, ...) at `step` (rows,) lead to from states (rows, ...)."""

    @abc.abstractmethod
    def mixing(self, step: int) -> tuple[Tensor, Tensor]:
        """How lanes move with a step's value, and with its noise (lanes, noises)."""

    @abc.abstractmethod
    def outcome(self, recorded: Tensor, last: Tensor) -> Tensor:
        """What a sample holds, from the states recorded (rows, len(record), ...) and the last one (rows, ...)."""


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
