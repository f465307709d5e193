"""Laws on tokens."""

from __future__ import annotations

from typing import ClassVar, Self, final

import torch
from torch import Tensor

from drawahead.laws.base import Law
from drawahead.randomness import Purpose, Stream
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class Categorical(Law):
    """Laws on tokens, as float64 log-probabilities (rows, window, q); values are int64 (rows, window)."""

    couples_alone: ClassVar[bool] = True
    log_probs: Tensor

    def noise(self, stream: Stream, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0) -> Tensor:
        uniform = stream.uniform(purpose, step, attempt, size=self.log_probs.shape[-1])
        return uniform.log_().neg_().log_().neg_()  # Gumbel

    def draw(self, noise: Tensor) -> Tensor:
        return (self.log_probs + noise).argmax(-1)

    def log_ratio(self, draft: Self, value: Tensor) -> Tensor:
        index = value[..., None]
        target, proposed = (law.log_probs.gather(-1, index)[..., 0] for law in (self, draft))
        # Two impossible values agree; this only arises in the unused part of a ragged window.
        return torch.where(target == proposed, 0.0, target - proposed)

    def residual_mass(self, draft: Self, log_weight: Tensor) -> Tensor:
        return self._residual(draft, log_weight).sum(-1)

    def draw_residual(self, draft: Self, log_weight: Tensor, noise: Tensor) -> Tensor:
        residual = self._residual(draft, log_weight)
        empty = residual.sum(-1, keepdim=True) <= 0
        return Categorical(torch.where(empty, self.log_probs, residual.log())).draw(noise)

    def _residual(self, draft: Self, log_weight: Tensor) -> Tensor:
        return ((self.log_probs + log_weight[..., None]).exp() - draft.log_probs.exp()).clamp_(min=0)

    def couple(self, draft: Self, guess: Tensor, noise: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        value = self.draw(noise)
        return value, value == guess

    def refined(
        self, draft: Self, guess: Tensor, noise: Tensor, uniform: Tensor, width: Tensor
    ) -> tuple[Tensor, Tensor]:
        values = self.draw(noise)
        used = torch.arange(guess.shape[1], device=width.device) < width[:, None]
        return values, ((values[:, : guess.shape[1]] == guess) & used).cumprod(1).sum(1)

    def gap(self, draft: Self) -> Tensor:
        """Total variation."""
        return (self.log_probs.exp() - draft.log_probs.exp()).abs().sum(-1) / 2

    def __getitem__(self, index: tuple[Tensor, Tensor]) -> Self:
        return type(self)(self.log_probs[index])

    def first(self, width: int) -> Self:
        return type(self)(self.log_probs[:, :width])

    def join(self, other: Self) -> Self:
        return type(self)(torch.cat([self.log_probs, other.log_probs], dim=1))

    def padded(self, width: int, leaning: bool) -> Self:
        return type(self)(self.log_probs.new_zeros(len(self.log_probs), width, self.log_probs.shape[-1]))

    @property
    def shape(self) -> tuple[int, int]:
        return self.log_probs.shape[0], self.log_probs.shape[1]
