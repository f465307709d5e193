"""The transfer matrix of one query of a wide grid: a known site has one state, so it takes no room on the frontier.

When half of the sites are known, a frontier of 16 sites has about 2^8 states instead of 2^16. Queries know different
sites, so each is answered alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.oracles.tokens import HIDDEN

if TYPE_CHECKING:
    from drawahead.targets.ising import Ising

_SPINS = {0: torch.tensor([-1.0]).double(), 1: torch.tensor([1.0]).double()}
_BOTH = torch.tensor([-1.0, 1.0]).double()


@final
@dataclass(frozen=True)
class _Move:
    """Site t takes the place of the site before it in its slot."""

    spins: Tensor  # that the new site may have
    left: int  # states of the slots before it
    right: int  # and of those after it
    bond: Tensor  # (new, old): of the two sites
    local: Tensor  # (left, new, 1): field, and bond to the slot before

    def onward(self, message: Tensor) -> Tensor:
        """Sum over the old spin: (left * old * right) -> (left, new, right)."""
        old = message.view(self.left, -1, self.right)
        parts = [old[:, i : i + 1] + self.bond[:, i : i + 1] for i in range(old.shape[1])]
        return _summed(parts) + self.local

    def back(self, message: Tensor) -> Tensor:
        """Sum over the new spin: (left * new * right) -> (left, old, right)."""
        new = message.view(self.left, -1, self.right) + self.local
        return _summed([new[:, i : i + 1] + self.bond[i, :, None] for i in range(new.shape[1])])


def _summed(parts: list[Tensor]) -> Tensor:
    """The log of the sum of one or two numbers, given their logs."""
    return parts[0] if len(parts) == 1 else torch.logaddexp(*parts)


def narrowed_rows(grid: Ising, tokens: Tensor) -> Tensor:
    """What `Ising.rows` answers to one sequence (n,): (n, 2)."""
    moves = _moves(grid, tokens)
    message, before = torch.zeros(1, dtype=torch.float64), []
    for move in moves:
        message = move.onward(message).flatten()
        message = message - message.max()
        before.append(message)
    answer = torch.where(tokens[:, None] == torch.arange(2), 0.0, -torch.inf).double()
    message = torch.zeros_like(message)
    for move, site in zip(reversed(moves), reversed(grid.sites), strict=True):
        if len(move.spins) == 2:
            both = (before[-1] + message).view(move.left, 2, move.right)
            answer[site] = both.logsumexp((0, 2)).log_softmax(0)
        before.pop()
        message = move.back(message).flatten()
        message = message - message.max()
    return answer


def _moves(grid: Ising, tokens: Tensor) -> list[_Move]:
    known = tokens.tolist()
    frontier = [torch.zeros(1, dtype=torch.float64)] * grid.width  # above the first line: nothing
    moves = []
    for t, site in enumerate(grid.sites):
        slot = t % grid.width
        spins = _BOTH if known[site] == HIDDEN else _SPINS[known[site]]
        sizes = list(map(len, frontier))
        left = prod(sizes[:slot])
        local = (grid.field * spins).expand(left, -1)
        if slot:
            beside = frontier[slot - 1].repeat(left // sizes[slot - 1])
            local = local + grid.coupling * beside[:, None] * spins
        bond = grid.coupling * spins[:, None] * frontier[slot]
        moves.append(_Move(spins, left, prod(sizes[slot + 1 :]), bond, local[..., None]))
        frontier[slot] = spins
    return moves
