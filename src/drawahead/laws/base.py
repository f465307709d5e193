"""One-step laws: what a step of a chain is drawn from, for a batch of rows by a window of steps.

Each law class knows the same few operations, and the samplers use nothing else: draw from noise, the log ratio of
target to draft, the residual (weight * target - draft)_+, and a coupling of target and draft on the same noise.
The class of `self` and of `draft` is always the same.
"""

from __future__ import annotations

import abc
from typing import ClassVar, Self

from torch import Tensor

from drawahead.randomness import Purpose, Stream


class Law(abc.ABC):
    """A (rows, window) table of one-step laws. `noise` always comes from `self.noise`."""

    couples_alone: ClassVar[bool]
    """Whether `couple` needs no uniforms beside the noise."""

    @abc.abstractmethod
    def noise(self, stream: Stream, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0) -> Tensor:
        """The noise that `draw` needs at these addresses; `step` is (rows, window)."""

    @abc.abstractmethod
    def draw(self, noise: Tensor) -> Tensor:
        """A value of each law, a deterministic function of its noise."""

    @abc.abstractmethod
    def log_ratio(self, draft: Self, value: Tensor) -> Tensor:
        """log(self / draft) at `value` -> (rows, window)."""

    @abc.abstractmethod
    def residual_mass(self, draft: Self, log_weight: Tensor) -> Tensor:
        """The mass of (weight * self - draft)_+ -> (rows, window)."""

    @abc.abstractmethod
    def draw_residual(self, draft: Self, log_weight: Tensor, noise: Tensor) -> Tensor:
        """A value of the normalised (weight * self - draft)_+. Where that mass is zero, a value of self."""

    @abc.abstractmethod
    def couple(self, draft: Self, guess: Tensor, noise: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """A value with law self made from the noise that gave `guess = draft.draw(noise)`; and where both agree."""

    @abc.abstractmethod
    def refined(
        self, draft: Self, guess: Tensor, noise: Tensor, uniform: Tensor, width: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A window of guesses (rows, w, ...) coupled to these laws (rows, w + 1) -> values (rows, w + 1, ...), drawn
        outright from column `width` (rows,) on, and how many guesses are kept from the first on (rows,)."""

    @abc.abstractmethod
    def gap(self, draft: Self) -> Tensor:
        """How far apart self and draft are, for methods that tolerate some -> (rows, window)."""

    @abc.abstractmethod
    def __getitem__(self, index: tuple[Tensor, Tensor]) -> Self:
        """The laws at (row, column) index tensors, which broadcast to the shape wanted."""

    @abc.abstractmethod
    def first(self, width: int) -> Self:
        """The laws of the first `width` columns."""

    @abc.abstractmethod
    def join(self, other: Self) -> Self:
        """Both tables side by side along the window."""

    def tensors(self) -> dict[str, Tensor]:
        """All that it is made of, by name, one row for each of its own."""
        return {name: table for name, table in vars(self).items() if table is not None}

    def made_of(self, tensors: dict[str, Tensor]) -> Self:
        """Laws made of these tensors."""
        return type(self)(**tensors)

    @abc.abstractmethod
    def padded(self, width: int, leaning: bool) -> Self:
        """A table for as many rows with `width` columns, in memory of its own, of laws that nothing is drawn from."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """(rows, window)."""
