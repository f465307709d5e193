"""The model: an encoder of finished parts, a denoiser of the next one, and the networks that both are made of."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from drawahead.ardiffusion.config import EncoderConfig, MLPEncoder, ModelConfig, TransformerDenoiser
from drawahead.ardiffusion.parts import Parts
from drawahead.validate import whole


@final
class AttentionLayer(nn.Module):
    """A transformer layer on tokens (m, t, width): attention, then two dense layers, each after a norm.

    With `modulation` (m, 6, width) both halves are shifted, scaled and gated by it.
    """

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, modulation: Tensor | None = None) -> Tensor:
        if modulation is None:
            x = x + self._attended(self.norm1(x))
            plain: Tensor = x + self.dense(self.norm2(x))
            return plain
        modulation = modulation[:, :, None]  # one for all tokens
        x = modulated(x, self.norm1, self._attended, modulation[:, :3])
        return modulated(x, self.norm2, self.dense, modulation[:, 3:])

    def _attended(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (m, heads, t, width)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


@final
class ResidualBlock(nn.Module):
    """Two dense layers on vectors (m, width), shifted, scaled and gated by `modulation` (m, 3, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, modulation: Tensor) -> Tensor:
        return modulated(x, self.norm, self.dense, modulation)


def modulated(x: Tensor, norm: nn.Module, change: Callable[[Tensor], Tensor], modulation: Tensor) -> Tensor:
    """x + gate * change(norm(x) * (1 + scale) + shift), with shift, scale and gate in `modulation` (m, 3, ...)."""
    return x + modulation[:, 2] * change(norm(x) * (1 + modulation[:, 1]) + modulation[:, 0])


class Encoder(nn.Module, abc.ABC):
    """Parts (m, K, d) -> conditions (m, K, width). Condition j is a function of the parts before j alone: the others,
    which may hold noise, must not be read."""

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
        self.layers = nn.ModuleList(AttentionLayer(width, heads, causal=True) for _ in range(layers))
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


_FREQUENCIES = 16


@final
class ConditionalDenoiser(nn.Module):
    """(noisy parts (m, d), log signal-to-noise (m,), condition (m, c) or None, part (m,)) -> velocities (m, d).

    The noisy part is signal * data + noise * epsilon with signal^2 + noise^2 = 1, its velocity
    signal * epsilon - noise * data: of about unit size at every noise level.
    """

    def __init__(self, config: ModelConfig) -> None:
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
            self.layers = nn.ModuleList(AttentionLayer(width, form.heads, causal=False) for _ in range(form.layers))
            self.rows = 6
        else:
            self.layers = nn.ModuleList(ResidualBlock(width) for _ in range(form.blocks))
            self.rows = 3
        self.told = nn.Linear(width, len(self.layers) * self.rows * width)
        self.norm = nn.LayerNorm(width)
        nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor, log_snr: Tensor, condition: Tensor | None, part: Tensor) -> Tensor:
        modulation = self.level(self._waves(log_snr).to(x.dtype))
        if self.position is not None:
            modulation = modulation + self.position(part)
        if self.condition is not None:
            modulation = modulation + self.condition(condition)
        modulation = self.told(silu(modulation)).unflatten(-1, (len(self.layers), self.rows, -1))
        y = self.first(x) if self.tokens == 1 else self.first(x.unflatten(-1, (self.tokens, -1))) + self.place
        for i, layer in enumerate(self.layers):
            y = layer(y, modulation[:, i])
        velocity: Tensor = self.last(self.norm(y))
        return velocity if self.tokens == 1 else velocity.flatten(1)

    def _waves(self, log_snr: Tensor) -> Tensor:
        """Waves of 1/4 to 32 turns over the range of levels (m, 2 frequencies)."""
        place = ((log_snr - self.lowest) / self.range).clamp(0, 1)
        turns = torch.logspace(-2, 5, _FREQUENCIES, base=2.0, dtype=torch.float64, device=log_snr.device)
        angle = 2 * math.pi * place.double()[:, None] * turns
        return torch.cat([angle.cos(), angle.sin()], dim=-1)


@final
class ARModel(nn.Module):
    """Auto-regressive diffusion. With one part and no encoder it is an ordinary diffusion model.

    Data should be centred and of about unit size. A new model's weights depend on its `seed` alone.
    """

    def __init__(self, config: ModelConfig, *, seed: int = 0) -> None:
        super().__init__()
        seed = whole("seed", seed, -(2**63), 2**64 - 1)
        self.config = config
        with torch.random.fork_rng(devices=[]):  # networks start from the global generator: it is put back as it was
            torch.default_generator.manual_seed(seed)
            self.encoder = None if config.encoder is None else build(config.encoder, config.parts)
            self.denoiser = ConditionalDenoiser(config)

    @property
    def parts(self) -> Parts:
        return self.config.parts

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(p.numel() for p in self.parameters())

    def forward(self, noisy: Tensor, clean: Tensor, log_snr: Tensor) -> Tensor:
        """Velocities (m, K, d) of all noisy parts, each with the clean parts before it: teacher forcing.

        `noisy` and `clean` are (m, K, d), `log_snr` (m, K), a level for each part.
        """
        m, number, size = clean.shape
        condition = None if self.encoder is None else self.encoder(clean).flatten(0, 1)
        part = torch.arange(number, device=clean.device).repeat(m)
        velocity: Tensor = self.denoiser(noisy.reshape(-1, size), log_snr.reshape(-1), condition, part)
        return velocity.view(m, number, size)

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        """See `Conditionals.mean`. Any scale of signal and noise will do: the network sees signal^2 + noise^2 = 1."""
        weight = next(self.parameters())
        size = torch.hypot(signal, noise).double()
        cosine, sine = (signal / size)[:, None], (noise / size)[:, None]
        own = state[torch.arange(len(part), device=part.device), part] / size[:, None]
        finished = state.to(weight.dtype)
        condition = None if self.encoder is None else self.encoder.at(finished, part)
        log_snr = (2 * (cosine / sine).log()[:, 0]).clamp(*self.config.levels)
        velocity: Tensor = self.denoiser(own.to(weight.dtype), log_snr.to(weight.dtype), condition, part)
        return cosine * own - sine * velocity.double()
