"""Encoders: finished parts in, the condition of the next part out."""

from __future__ import annotations

import abc
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from drawahead.ardiffusion.config import EncoderConfig, MLPEncoder
from drawahead.ardiffusion.layers import Layer
from drawahead.ardiffusion.parts import Parts


class Encoder(nn.Module, abc.ABC):
    """Parts (m, K, d) -> conditions (m, K, width). Condition j is a function of the parts before j alone: whatever the
    others hold, noise above all, must not be read."""

    @abc.abstractmethod
    def forward(self, parts: Tensor) -> Tensor:
        """The conditions of all parts at once, as in training."""

    def at(self, parts: Tensor, part: Tensor) -> Tensor:
        """The condition of one part (m,) of each row (m, width)."""
        conditions: Tensor = self(parts)
        return conditions[torch.arange(len(part), device=part.device), part]


def build(config: EncoderConfig, parts: Parts) -> Encoder:
    """The encoder that a configuration describes."""
    if isinstance(config, MLPEncoder):
        return DenseEncoder(parts, config.width, config.layers)
    return CausalTransformer(parts, config.width, config.layers, config.heads)


@final
class CausalTransformer(Encoder):
    """Token 0 is a beginning, token j the part j - 1; what comes out at j has seen tokens 0 ... j."""

    def __init__(self, parts: Parts, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Linear(parts.size, width)
        self.position = nn.Parameter(0.02 * torch.randn(parts.number, width))
        self.layers = nn.ModuleList(Layer(width, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, parts: Tensor) -> Tensor:
        x = torch.nn.functional.pad(self.embed(parts[:, :-1]), (0, 0, 1, 0)) + self.position  # (m, K, width)
        for layer in self.layers:
            x = layer(x)
        conditions: Tensor = self.norm(x)
        return conditions


@final
class DenseEncoder(Encoder):
    """The parts before j in their places, zeros in the others, and which part is next."""

    def __init__(self, parts: Parts, width: int, layers: int) -> None:
        super().__init__()
        self.first = nn.Linear(parts.number * parts.size, width)
        self.position = nn.Parameter(0.02 * torch.randn(parts.number, width))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, parts: Tensor) -> Tensor:
        m, number, _ = parts.shape
        part = torch.arange(number, device=parts.device).repeat(m)
        return self.at(parts.repeat_interleave(number, 0), part).view(m, number, -1)

    def at(self, parts: Tensor, part: Tensor) -> Tensor:
        finished = torch.arange(parts.shape[1], device=part.device) < part[:, None]  # (m, K)
        x = self.first(torch.where(finished[..., None], parts, 0.0).flatten(1)) + self.position[part]
        for layer in self.layers:
            x = x + layer(silu(x))
        condition: Tensor = self.norm(x)
        return condition
