"""What auto-regressive inference asks of a model: the mean of the part under way, given those before."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from drawahead.ardiffusion.parts import Parts


class Conditionals(Protocol):
    """A law on data in parts, as conditional means. A trained `ARModel` is one, the exact `GaussianParts` another."""

    @property
    def parts(self) -> Parts:
        """How the data are cut."""

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        """E[Y_j | Y_0 ... Y_{j-1}, signal Y_j + noise g] for each row's own part j (m, d).

        `state` (m, K, d) holds finished parts in the places before `part` (m,) and signal Y_j + noise g in its own;
        what the places after it hold is not to be read. `signal` and `noise` are (m,), noise above 0.
        """
