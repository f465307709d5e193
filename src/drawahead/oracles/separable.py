"""Laws that fall apart: what an oracle offers so that independent parts of a sample can be drawn side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from drawahead.oracles.tokens import TokenOracle


class Piece(Protocol):
    """A part of a law that is independent of all others, given what is known, for a batch of samples."""

    @property
    def number(self) -> int:
        """Which part: no other part of the same sample has this number."""

    @property
    def oracle(self) -> TokenOracle:
        """The law of the part's separator: of the positions without which it falls apart."""

    @property
    def evidence(self) -> Tensor:
        """What each sample shows the oracle (rows, length), HIDDEN where a token is to be drawn."""

    @property
    def level(self) -> Tensor:
        """When each position (length,) is best drawn: the lowest level first. Those of the first levels should depend
        on each other little."""

    def settle(self, rows: Tensor, tokens: Tensor) -> Settled:
        """What is known once the separators of these rows are drawn, their tokens (len(rows), length)."""


class Settled(NamedTuple):
    """What became known of some samples, and what is left of them: pieces with a row for each of these samples.

    Sample row[c] has token[c] at position[c]; all (c,)."""

    row: Tensor
    position: Tensor
    token: Tensor
    pieces: Sequence[Piece]


@runtime_checkable
class Separable(Protocol):
    """An oracle whose law falls into pieces."""

    def pieces(self, tokens: Tensor) -> Settled:
        """The pieces of samples of which `tokens` (rows, n) are known, HIDDEN elsewhere; and what follows from them."""
