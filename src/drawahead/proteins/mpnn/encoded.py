"""Encoded structures as the decoder needs them, one or several, and the steps in which they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad


@final
@dataclass(frozen=True, eq=False)
class Steps:
    """Which residues each step draws."""

    members: Tensor
    """(g, m), in the order they are decoded; steps of fewer residues repeat their first."""
    weight: Tensor
    """(g, m), of each member's logits in those of its step; zero for a repeated one."""
    count: Tensor
    """(g,), of the residues of each step."""

    @staticmethod
    def single(length: int) -> Steps:
        """One residue a step."""
        return Steps(torch.arange(length)[:, None], torch.ones(length, 1), torch.ones(length, dtype=torch.int64))

    @property
    def there(self) -> Tensor:
        """(g, m): whether a member is one, and not repeated."""
        return torch.arange(self.members.shape[1]) < self.count[:, None]

    def mean(self, values: Tensor) -> Tensor:
        """Of values of residues (n, ...) the mean over those of each step (g, ...)."""
        there = self.there[..., None]
        return (values[self.members] * there).nan_to_num(neginf=-torch.inf, nan=0.0).sum(1) / there.sum(1)

    @property
    def of_residue(self) -> Tensor:
        """The step of every residue (n,)."""
        return self._by_residue(torch.arange(len(self.members))[:, None].expand_as(self.members))

    @property
    def turn(self) -> Tensor:
        """The place of every residue among those of its step (n,)."""
        return self._by_residue(torch.arange(self.members.shape[1]).expand_as(self.members))

    def _by_residue(self, values: Tensor) -> Tensor:
        members = self.members[self.there]
        return torch.zeros_like(members).scatter_(0, members, values[self.there])


@final
@dataclass(frozen=True, eq=False)
class Structures:
    """Encoded structures, stacked: all that decoding needs and no token changes."""

    nodes: Tensor  # (s, n, d)
    neighbours: Tensor  # (s, n, k)
    still: Tensor  # (s, layers, n, k, d): what a message holds before its first GELU if the neighbour is not seen
    unseen: Tensor  # (s, layers, n, d): what of that is the neighbour's state
    step: Tensor  # (s, n): the step of each residue
    mate: Tensor  # (s, n, k): the place in its step of a neighbour that is decoded before in the same one, or -1
    members: Tensor  # (s, g, m)
    weight: Tensor  # (s, g, m)

    @property
    def tied(self) -> bool:
        return self.members.shape[2] > 1

    @staticmethod
    def single(nodes: Tensor, neighbours: Tensor, still: Tensor, unseen: Tensor, steps: Steps) -> Structures:
        """One structure, drawn in these steps."""
        step, turn = steps.of_residue.to(nodes.device), steps.turn.to(nodes.device)
        members, weight = steps.members.to(nodes.device), steps.weight.to(nodes)
        near = neighbours[0]
        before = (step[near] == step[:, None]) & (turn[near] < turn[:, None])
        mate = torch.where(before, turn[near], -1)
        return Structures(nodes, neighbours, still, unseen, step[None], mate[None], members[None], weight[None])


def stacked(structures: Sequence[Structures], length: int) -> Structures:
    """Structures as one, padded to `length` residues and steps. What is padded is nobody's neighbour."""
    most = max(each.members.shape[2] for each in structures)
    sizes = {"still": (length, 2), "unseen": (length, 2)}

    def padded(name: str, table: Tensor) -> Tensor:
        if name in ("members", "weight"):
            short = most - table.shape[2]
            extra = table[..., :1].expand(-1, -1, short) * (name == "members")
            table = torch.cat([table, extra], dim=2)
        size, axis = sizes.get(name, (length, 1))
        return pad(table, (0, 0) * (table.dim() - axis - 1) + (0, size - table.shape[axis]))

    names = [field.name for field in fields(Structures)]
    return Structures(*(torch.cat([padded(name, getattr(each, name)) for each in structures]) for name in names))
