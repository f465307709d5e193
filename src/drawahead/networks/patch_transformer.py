"""A transformer that sees a picture as patches beside the words that say what it shows."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, pixel_shuffle, pixel_unshuffle, scaled_dot_product_attention, silu

from drawahead.networks.unet import waves

_FREQUENCIES = 64
_PATCH = 4  # pixels along a side
_FINE = 32  # planes of the convolution that patches are cut from


@final
class PatchTransformer(nn.Module):
    """(pictures (m, 3, side, side), timesteps (m,), words (m, number, width)) -> answers (m, answers, side, side).

    Patches and words attend to each other in every layer. The time decides how a layer scales and shifts its input and
    how much it adds. A convolution before and after lets patches fit together.
    """

    def __init__(self, side: int, *, width: int, layers: int, heads: int, answers: int, dropout: float) -> None:
        super().__init__()
        self.patches = (side // _PATCH) ** 2
        self.time = nn.Sequential(nn.Linear(2 * _FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))
        self.first = nn.Conv2d(3, _FINE, 3, padding=1)
        self.into, self.out_of = nn.Linear(_FINE * _PATCH**2, width), nn.Linear(width, _FINE * _PATCH**2)
        self.place = nn.Parameter(torch.randn(self.patches, width) * 0.02)
        self.told = nn.Linear(width, 6 * width)
        self.layers = nn.ModuleList(_Layer(width, heads, dropout) for _ in range(layers))
        self.last = nn.Conv2d(2 * _FINE, answers, 3, padding=1)
        for weight in (self.told.weight, self.told.bias, self.last.weight, self.last.bias):
            assert weight is not None
            nn.init.zeros_(weight)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        told = self.time(torch.cat(waves(time, _FREQUENCIES), dim=-1).to(x.dtype)) + text.mean(1)
        told = self.told(silu(told)).unflatten(-1, (6, 1, -1))  # (m, 6, 1, width)
        pixels = self.first(x)
        seen = pixel_unshuffle(pixels, _PATCH)  # (m, planes of a patch, ...)
        tokens = torch.cat([self.into(seen.flatten(2).transpose(1, 2)) + self.place, text], dim=1)
        for layer in self.layers:
            tokens = layer(tokens, told)
        drawn = self.out_of(layer_norm(tokens[:, : self.patches], tokens.shape[-1:])).transpose(1, 2)
        drawn = pixel_shuffle(drawn.unflatten(-1, seen.shape[2:]), _PATCH)
        answers: Tensor = self.last(silu(torch.cat([pixels, drawn], dim=1)))
        return answers


@final
class _Layer(nn.Module):
    """Attention, then each token by itself; both read normalised tokens, and add to them."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)
        # Shift, scale and share of what is added, for both halves; at first nothing is added.
        start = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0, 0.0])
        self.own = nn.Parameter(start[:, None, None].expand(6, 1, width).clone())

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        shift, scale, share, shift_2, scale_2, share_2 = (told + self.own).unbind(1)  # (m, 1, width) each
        here = torch.addcmul(shift, scale, layer_norm(x, x.shape[-1:]))
        q, k, v = self.qkv(here).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = torch.addcmul(x, share, self.dropout(self.out(y)))
        here = torch.addcmul(shift_2, scale_2, layer_norm(x, x.shape[-1:]))
        return torch.addcmul(x, share_2, self.dropout(self.down(gelu(self.up(here)))))
