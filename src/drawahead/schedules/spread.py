"""Standard deviations that a network answers beside its prediction, one for every entry of a step.

A chain splits the noise of such a step: sigma xi becomes sqrt(sigma^2 - s^2) eta + s xi, with s, the plan's own, below
what the network is expected to answer, and eta noise of its own that is fixed once. Given all eta, every step has the
covariance s^2 I again. Where a network answers a sigma below s all the same, the step is drawn as it is and by itself.
"""

from __future__ import annotations

import abc
from typing import final

import torch
from torch import Tensor

from drawahead.values import dataclass


class Spread(abc.ABC):
    """How the standard deviations of a step are computed from an answer."""

    @abc.abstractmethod
    def read(self, answer: Tensor) -> Tensor:
        """What is kept of an answer (m, d); NaN where it cannot be meant."""

    @abc.abstractmethod
    def scale(self, kept: Tensor, step: Tensor) -> Tensor:
        """The standard deviations at `step` (rows, w) of what was kept (rows, w, d)."""

    @abc.abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype = torch.float64) -> Spread:
        """The same with its tensors on another device, or of another dtype."""


@final
@dataclass(frozen=True, eq=False)
class LearnedRange(Spread):
    """An answer v stands for the log variance low + (v + 1) / 2 (high - low) (Nichol, Dhariwal 2021).

    v is meant to lie between -1 and 1, but nothing holds it there.
    """

    low: Tensor  # (N,)
    high: Tensor  # (N,)

    def read(self, answer: Tensor) -> Tensor:
        return answer

    def scale(self, kept: Tensor, step: Tensor) -> Tensor:
        low, high = self.low[step][..., None], self.high[step][..., None]
        return torch.exp((low + (kept + 1) / 2 * (high - low)) / 2)

    def to(self, device: torch.device, dtype: torch.dtype = torch.float64) -> LearnedRange:
        return LearnedRange(self.low.to(device, dtype), self.high.to(device, dtype))

    def below(self, headroom: float) -> Tensor:
        """The standard deviation that an answer `headroom` ranges below the lowest one stands for (N,)."""
        return torch.exp((self.low - headroom * (self.high - self.low)) / 2)


@final
@dataclass(frozen=True)
class LearnedVariance(Spread):
    """An answer is the variance itself."""

    def read(self, answer: Tensor) -> Tensor:
        return answer.sqrt()

    def scale(self, kept: Tensor, step: Tensor) -> Tensor:
        return kept

    def to(self, device: torch.device, dtype: torch.dtype = torch.float64) -> LearnedVariance:
        return self
