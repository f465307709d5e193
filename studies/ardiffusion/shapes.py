"""Small images with a geometric rule: discs and bars, and which of them are tied.

An image is a square of 2 x 2 patches. Each patch shows a disc, at a height h in [0, 1], and beside it a bar of height
g in [0, 1]; both also stand a little to the left or right, which means nothing. The rule is g = h, for one of two
pairings: *within*, each bar follows the disc of its own patch; *across*, it follows the disc of the patch opposite. So
both kinds of image hold the same shapes, the same number of relations, and each shape alone has the same law; only the
places of what belongs together differ.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.ardiffusion import Parts

SIDE = 8  # of a patch
PARTS = Parts((2 * SIDE, 2 * SIDE), (2, 2))
UNRELATED = 6**-0.5
"""The root mean square of g - h for independent ones."""
_RADIUS, _BAR = 1.25, 2.0  # of a disc; the width of a bar
_LOW, _RANGE = 1.5, 5.0  # of a disc's centre, from the top; bars have the same range
_FLOOR = 0.15  # darker than this is background: it must not pull at a centroid


@final
class Shapes:
    """Images (number, 16, 16) from -1 to 1, drawn by `seed`; `across` says which pairing."""

    def __init__(self, number: int, *, across: bool, seed: int) -> None:
        source = torch.Generator().manual_seed(seed)
        draws = torch.rand(3, number, 4, generator=source, dtype=torch.float64)
        disc = draws[0]  # (number, 4)
        bar = tied(disc, across=across)
        patches = _discs(disc, 1.6 + 0.8 * draws[1]) + _bars(bar, 4.2 + 1.1 * draws[2])
        self.images = PARTS.join((2 * patches - 1).flatten(2)).float()


def features(images: Tensor) -> tuple[Tensor, Tensor]:
    """What images show: the heights of discs and of bars (number, 4)."""
    light = ((PARTS.split(images).double() + 1) / 2).unflatten(-1, (SIDE, SIDE))
    light = torch.where(light > _FLOOR, light, 0.0)
    left, right = light[..., : SIDE // 2], light[..., SIDE // 2 :]
    row = torch.arange(SIDE, dtype=torch.float64) + 0.5
    centre = (left.sum(-1) * row).sum(-1) / left.sum((-1, -2)).clamp(min=1e-9)
    return (centre - _LOW) / _RANGE, (right.sum((-1, -2)) / _BAR - 1) / _RANGE


def relation_errors(images: Tensor, *, across: bool) -> Tensor:
    """g - h for every pair that the rule ties (number, 4)."""
    disc, bar = features(images)
    return bar - tied(disc, across=across)


def tied(discs: Tensor, *, across: bool) -> Tensor:
    """The height of the disc that each bar follows (number, 4)."""
    return discs[:, [2, 3, 0, 1]] if across else discs


def _discs(height: Tensor, across: Tensor) -> Tensor:
    """(number, 4, side, side), with soft edges of one pixel."""
    place = torch.arange(SIDE, dtype=torch.float64) + 0.5
    down = place[:, None] - (_LOW + _RANGE * height)[..., None, None]
    along = place[None, :] - across[..., None, None]
    return (_RADIUS + 0.5 - torch.hypot(down, along)).clamp(0, 1)


def _bars(height: Tensor, left: Tensor) -> Tensor:
    """(number, 4, side, side): how much of each pixel a bar covers that stands on the ground."""
    edge = torch.arange(SIDE, dtype=torch.float64)
    top = SIDE - (1 + _RANGE * height)[..., None]
    down = (edge + 1 - top).clamp(0, 1)  # (number, 4, side)
    along = (torch.minimum(edge + 1, (left + _BAR)[..., None]) - torch.maximum(edge, left[..., None])).clamp(0, 1)
    return down[..., :, None] * along[..., None, :]
