"""A small U-Net that predicts the noise in an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, scaled_dot_product_attention, silu


def waves(time: Tensor, frequencies: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of a time (m,), each (m, frequencies), from fast to slow."""
    steps = torch.arange(frequencies, device=time.device)
    angle = time[:, None].float() * torch.exp(-math.log(10000.0) * steps / frequencies)
    return angle.cos(), angle.sin()


@final
class UNet(nn.Module):
    """(images (m, 1, side, side), timesteps (m,)) -> the noise in them. The side must halve once a level."""

    def __init__(self, channels: Sequence[int] = (32, 64, 160), *, blocks: int = 2, groups: int = 8) -> None:
        super().__init__()
        embedded = 4 * channels[0]
        self.frequencies = channels[0] // 2
        self.time = nn.Sequential(nn.Linear(2 * self.frequencies, embedded), nn.SiLU(), nn.Linear(embedded, embedded))
        self.first = nn.Conv2d(1, channels[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        kept = [channels[0]]  # the widths of what is handed across
        here = channels[0]
        last = len(channels) - 1

        def block(wide_in: int, wide: int, attends: bool) -> _Block:
            return _Block(wide_in, wide, embedded, groups, attends)

        for level, wide in enumerate(channels):
            for _ in range(blocks):
                self.down.append(block(here, wide, level == last))
                here = wide
                kept.append(here)
            if level < last:
                self.down.append(_Resize(here, twice=False))
                kept.append(here)
        self.middle = nn.ModuleList(block(here, here, i == 0) for i in range(2))
        for level, wide in reversed(list(enumerate(channels))):
            for _ in range(blocks + 1):
                self.up.append(block(here + kept.pop(), wide, level == last))
                here = wide
            if level:
                self.up.append(_Resize(here, twice=True))
        self.norm = nn.GroupNorm(groups, here)
        self.last = nn.Conv2d(here, 1, 3, padding=1)
        nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        told = silu(self.time(torch.cat(waves(time, self.frequencies), dim=-1).to(x.dtype)))
        x = self.first(x)
        kept = [x]
        for part in self.down:
            x = part(x, told)
            kept.append(x)
        for part in self.middle:
            x = part(x, told)
        for part in self.up:
            x = part(torch.cat([x, kept.pop()], dim=1) if isinstance(part, _Block) else x, told)
        noise: Tensor = self.last(silu(self.norm(x)))
        return noise


@final
class _Block(nn.Module):
    """Two convolutions, conditioned on the time; if it `attends`, attention among all pixels."""

    def __init__(self, wide_in: int, wide: int, embedded: int, groups: int, attends: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, wide_in), nn.GroupNorm(groups, wide)
        self.conv1, self.conv2 = nn.Conv2d(wide_in, wide, 3, padding=1), nn.Conv2d(wide, wide, 3, padding=1)
        self.told = nn.Linear(embedded, wide)
        self.across = nn.Conv2d(wide_in, wide, 1) if wide_in != wide else nn.Identity()
        self.attention = _Attention(wide, groups) if attends else None
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        y = self.conv1(silu(self.norm1(x))) + self.told(told)[:, :, None, None]
        out: Tensor = self.across(x) + self.conv2(silu(self.norm2(y)))
        return out if self.attention is None else self.attention(out)


@final
class _Attention(nn.Module):
    def __init__(self, wide: int, groups: int) -> None:
        super().__init__()
        self.heads = max(1, wide // 32)
        self.norm = nn.GroupNorm(groups, wide)
        self.qkv, self.out = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: Tensor) -> Tensor:
        pixels = self.norm(x).flatten(2).transpose(1, 2)  # (m, pixels, wide)
        q, k, v = self.qkv(pixels).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        out: Tensor = x + self.out(y).transpose(1, 2).unflatten(-1, x.shape[2:])
        return out


@final
class _Resize(nn.Module):
    """A picture of half the side, or twice."""

    def __init__(self, wide: int, *, twice: bool) -> None:
        super().__init__()
        self.twice = twice
        self.conv = nn.Conv2d(wide, wide, 3, stride=1 if twice else 2, padding=1)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        resized: Tensor = self.conv(interpolate(x, scale_factor=2.0, mode="nearest") if self.twice else x)
        return resized
