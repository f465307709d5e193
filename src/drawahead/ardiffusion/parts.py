"""How data are cut into parts, and what inference asks of a model of them."""

from __future__ import annotations

import math
from typing import Protocol, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import as_shape
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class Parts:
    """Data of this `shape`, cut into equal parts: as many along each axis as `grid` says, in reading order.

    `Parts((64,), (4,))` cuts a vector into four; `Parts((16, 16), (2, 2))` an image into patches, `(16, 1)` into rows.
    """

    shape: tuple[int, ...]
    grid: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("shape", "grid"):
            object.__setattr__(self, name, as_shape(name, getattr(self, name)))
        if len(self.shape) != len(self.grid):
            raise InputError(f"shape and grid must be of one length, not {self.shape} and {self.grid}")
        for size, number in zip(self.shape, self.grid, strict=True):
            if size % number:
                raise InputError(f"grid {self.grid} does not divide shape {self.shape} into equal parts")

    @staticmethod
    def undivided(shape: tuple[int, ...]) -> Parts:
        """One part: the data as they are."""
        return Parts(shape, (1,) * len(shape))

    @staticmethod
    def rows(height: int, width: int) -> Parts:
        """The rows of an image, from the top."""
        return Parts((height, width), (height, 1))

    @property
    def number(self) -> int:
        """K, how many there are."""
        return math.prod(self.grid)

    @property
    def size(self) -> int:
        """d, the entries of one of them."""
        return math.prod(self.shape) // self.number

    def split(self, data: Tensor) -> Tensor:
        """Data (m, *shape) -> parts (m, K, d)."""
        if data.shape[1:] != self.shape:
            raise InputError(f"data must have shape (number, *{self.shape}), not {tuple(data.shape)}")
        return data.flatten(1)[:, self._places()]

    def join(self, parts: Tensor) -> Tensor:
        """Parts (m, K, d) -> data (m, *shape)."""
        if parts.shape[1:] != (self.number, self.size):
            raise InputError(f"parts must have shape (number, {self.number}, {self.size}), not {tuple(parts.shape)}")
        return parts.flatten(1)[:, self._places().flatten().argsort()].view(-1, *self.shape)

    def _places(self) -> Tensor:
        """Where each entry of each part lies in the data (K, d)."""
        places = torch.arange(math.prod(self.shape)).view(self.shape)
        for axis, (size, number) in enumerate(zip(self.shape, self.grid, strict=True)):
            places = places.unfold(axis, size // number, size // number)
        return places.reshape(self.number, self.size)


class Conditionals(Protocol):
    """A distribution of data in parts, as conditional means: a trained `ARModel`, or the exact `GaussianParts`."""

    @property
    def parts(self) -> Parts:
        """How the data are cut."""

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        """E[Y_j | Y_0 ... Y_{j-1}, signal Y_j + noise g] for each row's own part j (m, d).

        `state` (m, K, d) holds finished parts in the places before `part` (m,) and signal Y_j + noise g in its own;
        the places after it must not be read. `signal` and `noise` are (m,), noise above 0.
        """
