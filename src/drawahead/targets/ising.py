"""The Ising model on a grid, by the transfer matrix taken site by site (Kramers and Wannier, 1941)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.validate import number, whole

if TYPE_CHECKING:
    from drawahead.show import View

MAX_WIDTH = 16
"""The frontier has 2^width states; a query of a square grid holds 5 MB at 12, and 137 MB at 16."""

SPIN = torch.tensor([-1.0, 1.0], dtype=torch.float64)


@final
class Ising(TokenOracle):
    """P(s) proportional to exp(coupling sum_<ij> s_i s_j + field sum_i s_i), s = 2x - 1, free boundary.

    Position r * cols + c is the site in row r and column c. Sites are taken line by line, lines along the shorter
    side. A message lives on the frontier, the last site taken in each slot of a line; slot c is one binary digit
    of its state. Messages are logarithms: neither large couplings nor long grids underflow.
    """

    rereads = True

    def __init__(self, rows: int, cols: int, coupling: float = 0.4, field: float = 0.0) -> None:
        self.width = min(whole("rows", rows, 1), whole("cols", cols, 1))
        if self.width > MAX_WIDTH:
            raise InputError(
                f"the shorter side of rows x cols must be at most {MAX_WIDTH}, not {self.width}: use a smaller grid"
            )
        self.length, self.vocab_size, self.columns = rows * cols, 2, cols
        self.coupling, self.field = number("coupling", coupling), number("field", field)
        site = torch.arange(rows * cols).view(rows, cols)
        self.sites: list[int] = (site if cols <= rows else site.T).flatten().tolist()  # in the order they are taken
        self.bytes_per_query = 8 * (self.length + 6) * 2**self.width

    @classmethod
    def grid(cls, rows: int, cols: int, coupling: float = 0.4, field: float = 0.0) -> Ising:
        """The same as the constructor, by the name of the graph."""
        return cls(rows, cols, coupling, field)

    def view(self) -> View:
        from drawahead.show import Grids

        return Grids(self.columns, 2)

    def rows(self, tokens: Tensor) -> Tensor:
        m = len(tokens)
        contradicted = (tokens != HIDDEN)[..., None] & (tokens[..., None] != torch.arange(2))
        weight = torch.where(contradicted, -torch.inf, self.field * SPIN)  # (m, n, 2)
        message = torch.zeros(m, 2**self.width, dtype=torch.float64)  # above the first line: free
        before = []  # the message that includes sites 0 ... t
        for t, site in enumerate(self.sites):
            message = _scaled(self._cross(message, t) + self._local(weight[:, site], t))
            before.append(message.flatten(1))
        answer = torch.empty(m, self.length, 2, dtype=torch.float64)
        message = torch.zeros(m, 2**self.width, dtype=torch.float64)  # the sum over sites t + 1 ... n
        for t, site in reversed(list(enumerate(self.sites))):
            both = self._slotted(before.pop() + message, t)  # (m, a, 2, b)
            answer[:, site] = both.logsumexp((1, 3)).log_softmax(1)
            message = self._slotted(message, t) + self._local(weight[:, site], t)
            message = _scaled(self._cross(message.flatten(1), t)).flatten(1)
        return answer

    def _slotted(self, message: Tensor, t: int) -> Tensor:
        """The frontier with the slot of site t apart: (m, 2^w) -> (m, a, 2, b), a the slots before it, b after."""
        slot = t % self.width
        return message.view(len(message), 2**slot, 2, 2 ** (self.width - 1 - slot))

    def _cross(self, message: Tensor, t: int) -> Tensor:
        """Sum over one spin of the bond between site t and the site before it in its slot. Symmetric in the two."""
        bond = self.coupling * SPIN[:, None] if t >= self.width else torch.zeros(2, 1, dtype=torch.float64)
        down, up = self._slotted(message, t).chunk(2, dim=2)  # (m, a, 1, b) each
        return torch.logaddexp(down - bond, up + bond)

    def _local(self, weight: Tensor, t: int) -> Tensor:
        """Field and evidence of site t (m, 2), and its bond to the previous slot -> (m, a or 1, 2, 1)."""
        local = weight[:, None, :, None]
        slot = t % self.width
        if slot == 0:
            return local
        previous = SPIN.repeat(2 ** (slot - 1))  # (a,): the last digit of a
        return local + self.coupling * (previous[:, None] * SPIN)[:, :, None]


def _scaled(message: Tensor) -> Tensor:
    """(m, a, 2, b), shifted so that the largest entry is 0: the scale cancels, precision stays."""
    return message - message.amax((1, 2, 3), keepdim=True)
