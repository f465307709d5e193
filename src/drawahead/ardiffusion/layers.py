"""What encoders and denoisers are built from."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


@final
class Layer(nn.Module):
    """A transformer layer on tokens (m, t, width): attention, then two dense layers, each after a norm.

    With `told` (m, 6, width) both halves are shifted, scaled and gated by what they are told.
    """

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, told: Tensor | None = None) -> Tensor:
        if told is None:
            x = x + self._attended(self.norm1(x))
            plain: Tensor = x + self.dense(self.norm2(x))
            return plain
        told = told[:, :, None]  # one for all tokens
        x = modulated(x, self.norm1, self._attended, told[:, :3])
        return modulated(x, self.norm2, self.dense, told[:, 3:])

    def _attended(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (m, heads, t, width)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


@final
class Block(nn.Module):
    """Two dense layers on vectors (m, width), shifted, scaled and gated by `told` (m, 3, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        return modulated(x, self.norm, self.dense, told)


def modulated(x: Tensor, norm: nn.Module, change: Callable[[Tensor], Tensor], told: Tensor) -> Tensor:
    """x + gate * change(norm(x) * (1 + scale) + shift), with shift, scale and gate in `told` (m, 3, ...)."""
    return x + told[:, 2] * change(norm(x) * (1 + told[:, 1]) + told[:, 0])
