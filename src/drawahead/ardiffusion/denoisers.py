"""Conditional denoisers: a noisy part, its noise level, a condition and a position in, the part's velocity out."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from drawahead.ardiffusion.config import Config, TransformerDenoiser
from drawahead.ardiffusion.layers import Block, Layer

_FREQUENCIES = 16


@final
class ConditionalDenoiser(nn.Module):
    """(noisy parts (m, d), log signal-to-noise (m,), condition (m, c) or None, part (m,)) -> velocities (m, d).

    The noisy part is signal * data + noise * epsilon with signal^2 + noise^2 = 1, its velocity
    signal * epsilon - noise * data: of about unit size at every noise level.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, form = config.parts.size, config.denoiser
        width = form.width
        self.lowest, self.range = config.levels[0], config.levels[1] - config.levels[0]
        self.level = nn.Sequential(nn.Linear(2 * _FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))
        self.position = nn.Embedding(config.parts.number, width) if config.parts.number > 1 else None
        self.condition = None if config.encoder is None else nn.Linear(config.encoder.width, width)
        self.tokens = form.tokens if isinstance(form, TransformerDenoiser) else 1
        self.first, self.last = nn.Linear(size // self.tokens, width), nn.Linear(width, size // self.tokens)
        self.layers: nn.ModuleList
        if isinstance(form, TransformerDenoiser):
            self.place = nn.Parameter(0.02 * torch.randn(form.tokens, width))
            self.layers = nn.ModuleList(Layer(width, form.heads, causal=False) for _ in range(form.layers))
            self.rows = 6
        else:
            self.layers = nn.ModuleList(Block(width) for _ in range(form.blocks))
            self.rows = 3
        self.told = nn.Linear(width, len(self.layers) * self.rows * width)
        self.norm = nn.LayerNorm(width)
        nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor, log_snr: Tensor, condition: Tensor | None, part: Tensor) -> Tensor:
        told = self.level(self._waves(log_snr).to(x.dtype))
        if self.position is not None:
            told = told + self.position(part)
        if self.condition is not None:
            told = told + self.condition(condition)
        told = self.told(silu(told)).unflatten(-1, (len(self.layers), self.rows, -1))
        y = self.first(x) if self.tokens == 1 else self.first(x.unflatten(-1, (self.tokens, -1))) + self.place
        for i, layer in enumerate(self.layers):
            y = layer(y, told[:, i])
        velocity: Tensor = self.last(self.norm(y))
        return velocity if self.tokens == 1 else velocity.flatten(1)

    def _waves(self, log_snr: Tensor) -> Tensor:
        """Waves of 1/4 to 32 turns over the range of levels (m, 2 frequencies)."""
        place = ((log_snr - self.lowest) / self.range).clamp(0, 1)
        turns = torch.logspace(-2, 5, _FREQUENCIES, base=2.0, dtype=torch.float64, device=log_snr.device)
        angle = 2 * math.pi * place.double()[:, None] * turns
        return torch.cat([angle.cos(), angle.sin()], dim=-1)
