"""Speculative sampling of a Gaussian chain over trees of drafts (arXiv 2609.17691), many trajectories side by side.

A round drafts a tree of K children a node and L levels from one frozen velocity, asks the model about all inner nodes
in one call, and walks down from the root as far as the rule accepts. `sweeps` calls before that redraw the tree with
the same noise from the newest velocities (Picard). The next round's velocity is the one nearest to where it stopped.
Calls and queries are counted as its authors count them: a first call for the first velocity, nothing for leaves, and
nothing twice. Nothing here is drawahead's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from studies.rivals.rules import Rule

Velocity = Callable[[Tensor, Tensor], Tensor]
"""States (m, d) and steps (m,) -> what the model says (m, d)."""


@dataclass(frozen=True)
class Steps:
    """x' = a x + b v(x, k) + s noise, step by step; all s are above 0."""

    velocity: Velocity
    a: Tensor
    b: Tensor
    s: Tensor

    def __len__(self) -> int:
        return len(self.a)

    def mean(self, x: Tensor, v: Tensor, step: Tensor) -> Tensor:
        """Where step `step` (...) leads from x (..., d)."""
        return self.a[step][..., None] * x + self.b[step][..., None] * v


@dataclass(frozen=True)
class Tree:
    """K children a node, L levels, and how often the whole tree is redrawn before it is verified."""

    children: int
    levels: int
    sweeps: int = 0


@dataclass(frozen=True)
class Drawn:
    """Final states (b, d); calls and queries of each trajectory (b,)."""

    states: Tensor
    calls: Tensor
    queries: Tensor


def one_by_one(steps: Steps, start: Tensor, generator: torch.Generator) -> Tensor:
    """The reference: every step waits for the one before."""
    x = start
    for k in range(len(steps)):
        step = torch.full((len(x),), k)
        noise = torch.randn(x.shape, dtype=x.dtype, generator=generator)
        x = steps.mean(x, steps.velocity(x, step), step) + steps.s[k] * noise
    return x


def speculate(steps: Steps, start: Tensor, tree: Tree, rule: Rule, generator: torch.Generator) -> Drawn:
    """Draw every trajectory to its end."""
    x, count = start.clone(), len(start)
    position = torch.zeros(count, dtype=torch.int64)
    v = steps.velocity(x, position)
    calls, queries = (torch.ones(count, dtype=torch.int64) for _ in range(2))
    while len(live := (position < len(steps)).nonzero()[:, 0]):
        drafted = _Round(steps, x[live], position[live], v[live], tree, generator)
        x[live], v[live], committed = drafted.walked(rule, generator)
        position[live] += committed
        calls[live] += drafted.calls
        queries[live] += drafted.queries
    return Drawn(x, calls, queries)


class _Round:
    """One round of some trajectories: levels of states (b, K^l, d), and what was drafted and asked there."""

    def __init__(
        self, steps: Steps, x: Tensor, position: Tensor, v: Tensor, tree: Tree, generator: torch.Generator
    ) -> None:
        self.steps, self.tree, self.position = steps, tree, position
        self.ahead = (len(steps) - position).clamp(max=tree.levels)  # (b,) levels that are left
        shape = (len(x), -1, x.shape[1])
        sizes = [tree.children**level for level in range(tree.levels + 1)]
        self.noise = [torch.randn(len(x), size, x.shape[1], dtype=x.dtype, generator=generator) for size in sizes]
        self.step = [(position + level).clamp(max=len(steps) - 1) for level in range(tree.levels)]
        self.calls, self.queries = (torch.zeros_like(position) for _ in range(2))
        self._draw(x, [v[:, None].expand(*shape[:1], size, *shape[2:]) for size in sizes[:-1]])
        for sweep in range(tree.sweeps):
            wanted = sweep < self.ahead
            self._draw(x, self._asked(wanted, first=0), wanted)
        # What did not move in the last sweep need not be asked again; where that is all, no call is made.
        self.known = self._asked(self.ahead > 0, first=tree.sweeps)

    def _draw(self, root: Tensor, velocities: list[Tensor], wanted: Tensor | None = None) -> None:
        """States and the means they are drawn around, level by level, where wanted."""
        old = None if wanted is None else (self.states, self.means)
        self.states, self.means = [root[:, None]], []
        for level, v in enumerate(velocities):
            here, step = self.states[-1], self.step[level]
            mean = self.steps.mean(here, v, step[:, None].expand(here.shape[:2]))
            spread = self.steps.s[step][:, None, None]
            self.means.append(mean)
            self.states.append(mean.repeat_interleave(self.tree.children, 1) + spread * self.noise[level + 1])
        if old is not None and wanted is not None:
            keep = wanted[:, None, None]
            self.states = [torch.where(keep, new, past) for new, past in zip(self.states, old[0], strict=True)]
            self.means = [torch.where(keep, new, past) for new, past in zip(self.means, old[1], strict=True)]

    def _asked(self, wanted: Tensor, first: int) -> list[Tensor]:
        """One call: velocities at all inner nodes. Those from level `first` on are counted, where there are steps."""
        found = []
        for level, here in enumerate(self.states[:-1]):
            step = self.step[level][:, None].expand(here.shape[:2])
            found.append(self.steps.velocity(here.flatten(0, 1), step.flatten()).view_as(here))
            if level >= first:
                self.queries += wanted * (level < self.ahead) * here.shape[1]
        self.calls += wanted * (self.ahead > first)
        return found

    def walked(self, rule: Rule, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Down the tree as far as the rule accepts. -> where it stops, the velocity to go on with, and steps taken."""
        rows, K = torch.arange(len(self.position)), self.tree.children
        x, v = self.states[0][:, 0].clone(), torch.zeros_like(self.states[0][:, 0])
        node, going, taken = torch.zeros_like(self.position), self.ahead > 0, torch.zeros_like(self.position)
        for level in range(self.tree.levels):
            going = going & (level < self.ahead)
            sigma = self.steps.s[self.step[level]][:, None]
            draft = self.means[level][rows, node]
            asked = self.known[level][rows, node]
            shift = (self.steps.mean(self.states[level][rows, node], asked, self.step[level]) - draft) / sigma
            delta = shift.norm(dim=1)
            along = shift / delta.clamp(min=1e-300)[:, None]
            children = node[:, None] * K + torch.arange(K)
            offered = self.states[level + 1][rows[:, None], children]  # (b, K, d)
            scaled = (offered - draft[:, None]) / sigma[:, None]
            s = torch.einsum("bkd,bd->bk", scaled, along)
            choice, accepted, corrected = rule(s, delta, generator)
            mended = draft + sigma * (scaled[:, 0] + (corrected - s[:, 0])[:, None] * along)
            here = torch.where(accepted[:, None], offered[rows, choice], mended)
            x, taken = torch.where(going[:, None], here, x), taken + going
            v = torch.where(going[:, None], asked, v)
            stopped = going & ~accepted & (level + 1 < self.ahead)
            if bool(stopped.any()):  # the children of this node were asked about: take the nearest
                nearest = (offered - here[:, None]).norm(dim=2).argmin(1)
                v = torch.where(stopped[:, None], self.known[level + 1][rows, children[rows, nearest]], v)
            node, going = children[rows, choice], going & accepted
        return x, v, taken
