"""A U-Net over time that predicts the noise in a chunk of actions: the network of Diffusion Policy.

Chi, Feng, Du, Xu, Cousineau, Burchfiel, Song, "Diffusion Policy: Visuomotor Policy Learning via Action Diffusion" (RSS
2023). Convolutions run along the horizon; timestep and observations scale and shift channels (FiLM) in every block.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import mish

from drawahead.errors import InputError
from drawahead.networks.unet import waves
from drawahead.validate import wholes

_KERNEL = 5


@final
class PolicyUNet(nn.Module):
    """(noisy actions (m, horizon, action), timesteps (m,), global_cond (m, observed)) -> the noise in them.

    The horizon must halve once for every width but the first. Widths (128, 256, 512) make about 17 million parameters,
    (256, 512, 1024) about 65 million.
    """

    def __init__(
        self,
        action: int,
        observed: int,
        widths: Sequence[int] = (256, 512, 1024),
        *,
        embedded: int = 128,
        groups: int = 8,
    ) -> None:
        super().__init__()
        widths = wholes("widths", widths, 1)
        if not widths or any(wide % groups for wide in widths) or embedded % 2:
            raise InputError(f"widths must be multiples of groups={groups} and embedded an even number")
        self.frequencies = embedded // 2
        self.time = nn.Sequential(nn.Linear(embedded, 4 * embedded), nn.Mish(), nn.Linear(4 * embedded, embedded))
        told, sizes = embedded + observed, [action, *widths]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, (narrow, wide) in enumerate(itertools.pairwise(sizes)):
            last = level == len(widths) - 1
            halve = nn.Identity() if last else nn.Conv1d(wide, wide, 3, stride=2, padding=1)
            self.down.append(_Level(narrow, wide, told, groups, halve))
        self.middle = nn.ModuleList(_Block(widths[-1], widths[-1], told, groups) for _ in range(2))
        for narrow, wide in reversed(list(itertools.pairwise(widths))):
            double = nn.ConvTranspose1d(narrow, narrow, 4, stride=2, padding=1)
            self.up.append(_Level(2 * wide, narrow, told, groups, double))
        self.last = nn.Sequential(_Smooth(widths[0], widths[0], groups), nn.Conv1d(widths[0], action, 1))

    def forward(self, sample: Tensor, timestep: Tensor, global_cond: Tensor) -> Tensor:
        cosine, sine = waves(timestep.expand(len(sample)).to(sample.device), self.frequencies)
        time = self.time(torch.cat([sine, cosine], dim=-1).to(sample.dtype))
        told = mish(torch.cat([time, global_cond.to(sample.dtype)], dim=-1))
        x = sample.transpose(1, 2)  # (m, action, horizon)
        kept = []
        for level in self.down:
            across, x = level(x, told)
            kept.append(across)
        for block in self.middle:
            x = block(x, told)
        for level in self.up:
            _, x = level(torch.cat([x, kept.pop()], dim=1), told)
        noise: Tensor = self.last(x).transpose(1, 2)
        return noise


class _Smooth(nn.Sequential):
    """A convolution along the horizon, normalised."""

    def __init__(self, narrow: int, wide: int, groups: int) -> None:
        convolution = nn.Conv1d(narrow, wide, _KERNEL, padding=_KERNEL // 2)
        super().__init__(convolution, nn.GroupNorm(groups, wide), nn.Mish())


class _Level(nn.Module):
    """Two blocks, and a horizon half or twice as long after them. -> (before that, after it)."""

    def __init__(self, narrow: int, wide: int, told: int, groups: int, resize: nn.Module) -> None:
        super().__init__()
        self.first, self.second = _Block(narrow, wide, told, groups), _Block(wide, wide, told, groups)
        self.resize = resize

    def forward(self, x: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
        x = self.second(self.first(x, told), told)
        return x, self.resize(x)


class _Block(nn.Module):
    """Two convolutions; time and observation scale and shift what is between them."""

    def __init__(self, narrow: int, wide: int, told: int, groups: int) -> None:
        super().__init__()
        self.first, self.second = _Smooth(narrow, wide, groups), _Smooth(wide, wide, groups)
        self.film = nn.Linear(told, 2 * wide)
        self.across = nn.Identity() if narrow == wide else nn.Conv1d(narrow, wide, 1)

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        scale, shift = self.film(told)[..., None].chunk(2, dim=1)
        out: Tensor = self.second(scale * self.first(x) + shift) + self.across(x)
        return out
