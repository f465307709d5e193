"""What a view is: it shows samples of one kind wherever people look at them."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from drawahead import plots
from drawahead.sample import Result
from drawahead.views.pictures import Parts, Picture, Pixels

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PRINTED = 6
"""Samples on a terminal, at most; texts are all printed."""


class View(abc.ABC):
    """How samples look."""

    shown: ClassVar[int]
    """Samples on a page unless another number is asked for."""
    formats: ClassVar[tuple[str, ...]] = (".npz", ".json")
    """How the names of files may end that samples are written to."""

    @abc.abstractmethod
    def picture(self, sample: Tensor) -> Picture:
        """One sample, whole, on a page."""

    def line(self, sample: Tensor) -> str:
        """A whole sample as one line."""
        form = "+.3f" if sample.is_floating_point() else "d"
        return " ".join(f"{value:{form}}" for value in sample.flatten().tolist())

    def terminal(self, result: Result, console: Console) -> RenderableType:
        """The samples, or the first few, as wide as the console at most."""
        from drawahead.views import terminal

        lines = [self.line(sample) for sample in result.samples[:PRINTED]]
        return terminal.lines(lines, len(result.samples), console.width)

    def plain(self, samples: Tensor) -> list[Any]:
        """Samples as JSON holds them."""
        return samples.tolist()

    def draw(self, samples: Tensor, path: Path) -> None:
        """Write the samples as a picture, where `formats` says they can be."""
        plots.images(samples, path)


class TokenView(View):
    """How sequences of tokens look."""

    @abc.abstractmethod
    def picture(self, sample: Tensor) -> Parts: ...

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        """When each part of the picture appears, if position i is drawn at `when[i]` (n,)."""
        times: list[int] = when.tolist()
        return times


class VectorView(View):
    """How vectors look."""

    @abc.abstractmethod
    def pixels(self, values: Tensor, side: int) -> list[Pixels]:
        """Pictures of `values` (number, ...), no more than `side` pixels high or wide, all of one size."""
