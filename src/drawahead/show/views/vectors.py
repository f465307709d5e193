"""Vectors: images, or squares of colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.show.pictures import Bitmap, Numbers, Pixels
from drawahead.show.views.base import VectorView
from drawahead.validate import number
from drawahead.values import dataclass

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from drawahead.sample import Result

GALLERY_SIDE = 96
"""The most pixels along a side; larger images are shown smaller."""
_LARGE = 1200  # the same, of a picture in a file


@final
@dataclass(frozen=True)
class Images(VectorView):
    """Images (height, width), or (channels, height, width) with 1 or 3 channels, with values from `low` to `high`."""

    shown = 36
    formats = (".npz", ".json", ".png")
    smooth = True
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, number(name, getattr(self, name)))
        if not self.low < self.high:
            raise InputError(f"low must be below high, not {self.low} and {self.high}")

    def picture(self, sample: Tensor) -> Bitmap:
        return Bitmap(self.pixels(sample[None], GALLERY_SIDE)[0])

    def terminal(self, result: Result, console: Console) -> RenderableType:
        from drawahead.show import terminal

        return terminal.images(result.samples, console)

    def draw(self, samples: Tensor, path: Path) -> None:
        from drawahead.show import painting

        painting.draw([Bitmap(pixels) for pixels in self.pixels(samples, _LARGE)], path)

    def pixels(self, values: Tensor, side: int) -> list[Pixels]:
        if not is_image(values.shape[1:]):
            raise InputError(f"images have shape (height, width) or (1 or 3, height, width), not {values.shape[1:]}")
        planes = (values[:, None] if values.dim() == 3 else values).double().nan_to_num(self.low)
        factor = -(-max(planes.shape[-2:]) // side)
        if factor > 1:
            planes = torch.nn.functional.avg_pool2d(planes, factor, ceil_mode=True, count_include_pad=False)
        level = ((planes - self.low) / (self.high - self.low) * 255).round().clamp(0, 255).to(torch.uint8)
        channels_last = level.permute(0, 2, 3, 1)
        return [image[..., 0] if image.shape[-1] == 1 else image for image in channels_last.cpu().numpy()]


@final
@dataclass(frozen=True)
class Vectors(VectorView):
    """Any other vectors: in a gallery as numbers, in a film as squares, blue below zero and orange above."""

    shown = 8
    reach: float = 1.0
    """Entries so far from zero, or farther, have the full colour."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reach", number("reach", self.reach, above=0))

    def picture(self, sample: Tensor) -> Numbers:
        flat = sample.flatten()
        return Numbers(tuple(flat[:64].tolist()), len(flat))

    def pixels(self, values: Tensor, side: int) -> list[Pixels]:
        flat = values.flatten(1).double().nan_to_num(0.0)[:, : side * side]
        columns = math.ceil(math.sqrt(flat.shape[1]))
        lines = -(-flat.shape[1] // columns)
        cells = torch.nn.functional.pad(flat, (0, lines * columns - flat.shape[1])).view(-1, lines, columns, 1)
        share = (cells / self.reach).clamp(-1, 1)
        middle, below, above = (torch.tensor(rgb) for rgb in ((244.0, 241, 234), (0.0, 92, 158), (214.0, 94, 0)))
        mixed = middle + share.abs() * (torch.where(share < 0, below, above) - middle)
        return list(mixed.round().to(torch.uint8).cpu().numpy())


def is_image(shape: Sequence[int]) -> bool:
    """Whether vectors of this shape can be shown as images."""
    return len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, 3))
