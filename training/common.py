"""What both training scripts share: the course of the learning rate, averaged weights, saving."""

from __future__ import annotations

import copy
import math
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn


class Course:
    """Progress from 0 to 1: by steps, or by seconds where those run out first."""

    def __init__(self, steps: int, seconds: float) -> None:
        self.steps, self.seconds = steps, seconds
        self.step = 0
        self.began = time.perf_counter()

    @property
    def progress(self) -> float:
        return min(1.0, max(self.step / self.steps, (time.perf_counter() - self.began) / self.seconds))

    @property
    def rate(self) -> float:
        """The share of the peak learning rate: up over 500 steps, then down a cosine."""
        return min(1.0, self.step / 500) * 0.5 * (1 + math.cos(math.pi * self.progress))


class Average:
    """An exponential moving average of a model's weights."""

    def __init__(self, model: nn.Module, keep: float) -> None:
        self.model, self.keep, self.updates = copy.deepcopy(model).eval().requires_grad_(False), keep, 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.updates += 1
        keep = min(self.keep, (1 + self.updates) / (10 + self.updates))
        mine, theirs = list(self.model.parameters()), list(model.parameters())
        torch._foreach_lerp_(mine, [p.detach() for p in theirs], 1 - keep)


def optimizer(model: nn.Module, rate: float, decay: float) -> torch.optim.AdamW:
    """AdamW that shrinks matrices only."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=True)


def step(loss: Tensor, model: nn.Module, chosen: torch.optim.AdamW, rate: float) -> None:
    """One update at this learning rate."""
    for group in chosen.param_groups:
        group["lr"] = rate
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    chosen.step()
    chosen.zero_grad(set_to_none=True)


def save(model: nn.Module, path: Path, facts: dict[str, str]) -> None:
    """Write the weights in half precision, with the facts of the training beside them."""
    weights = {name: tensor.detach().cpu().half().contiguous() for name, tensor in model.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, path, metadata=facts)
    print(f"wrote {path}: {path.stat().st_size / 1e6:.2f} MB", flush=True)
