"""How a model is trained, as a frozen value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from drawahead.errors import InputError
from drawahead.validate import number, whole


@final
@dataclass(frozen=True)
class Training:
    """How a model is trained: AdamW, a rate that rises over `warmup` steps and then falls along a cosine to 0.

    `average` is the decay of the moving average of the weights, which is the model that comes out. The mean loss of
    every `block` steps is kept; a checkpoint is written about every `save_every` steps, and at the end.
    """

    steps: int = 2000
    batch: int = 256
    rate: float = 2e-3
    warmup: int = 100
    average: float = 0.995
    decay: float = 0.01
    clip: float = 1.0
    block: int = 50
    save_every: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "block", "save_every"):
            whole(name, getattr(self, name), 1)
        whole("warmup", self.warmup, 0)
        object.__setattr__(self, "seed", whole("seed", self.seed))
        for name in ("rate", "average", "decay", "clip"):
            number(name, getattr(self, name))
        if not (self.rate > 0 and self.clip > 0 and self.decay >= 0 and 0 <= self.average < 1):
            raise InputError(f"rate and clip must be positive, decay not negative, average in [0, 1), not {self}")

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        rise = min(1.0, (step + 1) / max(1, self.warmup))
        return self.rate * rise * 0.5 * (1 + math.cos(math.pi * step / self.steps))
