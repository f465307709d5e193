"""Paths of Gaussian chains: which states increments lead to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.chains.rolling import rolled
from drawahead.chains.vectors import VectorPaths
from drawahead.laws import Gaussian, Law
from drawahead.randomness import Purpose
from drawahead.schedules import Plan

if TYPE_CHECKING:
    from drawahead.chains.gaussian import GaussianChain


@final
@dataclass(eq=False)
class GaussianPaths(VectorPaths):
    """Gaussian samples under way."""

    chain: GaussianChain
    known: Tensor | None = None  # (rows, d), NaN where unknown

    @property
    def plan(self) -> Plan:
        return self.chain.plan

    @property
    def free(self) -> Tensor | None:
        return None if self.known is None else self.known.isnan()

    def overwritten(self, states: Tensor, step: Tensor) -> Tensor:
        """States (rows, w, d) after `step` (rows, w) steps, known entries replaced."""
        if self.known is None:
            return states
        if self.chain.clean:
            return torch.where(self.known.isnan()[:, None], states, self.known[:, None])
        step = step.clamp(max=self.chain.steps)
        g = self.copies.normal(Purpose.KNOWN, step, size=self.chain.size)
        copy = self.plan.signal[step][..., None] * self.known[:, None] + self.plan.noise[step][..., None] * g
        return torch.where(copy.isnan(), states, copy)

    def states(self, values: Tensor) -> Tensor:
        if self.followed is not None and self.followed[0] is values:
            return self.followed[1]
        return self.overwritten(self._rolled(self._a(values.shape[1]), values), self.steps(values.shape[1] + 1))

    def follow(self, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        if not isinstance(draft, Gaussian) or draft.slope is None or draft.anchor is None:
            return super().follow(draft, noise)
        slope = draft.slope.nan_to_num(0.0)
        unmoved = torch.addcmul(draft.mean, slope[..., None], draft.anchor, value=-1)
        inputs = torch.addcmul(unmoved, draft.scale[..., None], noise)
        states = self._rolled(self._a(noise.shape[1]) + slope, inputs)
        mean = torch.addcmul(unmoved, slope[..., None], states[:, :-1])
        guess, plain = super().follow(Gaussian(mean, draft.scale), noise)
        self.followed = None if self.known is not None else (guess, states)
        return guess, plain

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | ({} if self.known is None else {"known": self.known})

    def onward(self, state: Tensor, value: Tensor, step: Tensor) -> Tensor:
        step = step.clamp(max=self.chain.steps - 1)
        after = torch.addcmul(self.chain.projected(value), self.plan.a[step][:, None], state)
        return after if self.known is None else self.overwritten(after[:, None], step[:, None] + 1)[:, 0]

    def _a(self, width: int) -> Tensor:
        """The next A's (rows, w); 1 in the padding beyond the last step."""
        return self.chain.factors[self.steps(width).clamp(max=self.chain.steps)]

    def _rolled(self, a: Tensor, values: Tensor) -> Tensor:
        return rolled(self.x, a, self.chain.projected(values), self.chain.block if self.blocked else 1)

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.known = None if self.known is None else self.known[rows.to(self.device)]
