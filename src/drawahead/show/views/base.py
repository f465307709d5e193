"""What a view is: it shows samples of one kind wherever people look at them."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from drawahead.show.pictures import Drawing, Picture, Pixels

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from drawahead.sample import Result


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
        """The samples, or the first few, no wider than the console."""
        from drawahead.show import terminal

        lines = [self.line(sample) for sample in result.samples[: terminal.PRINTED]]
        return terminal.lines(lines, len(result.samples), console.width)

    def plain(self, samples: Tensor) -> list[Any]:
        """Samples as plain values for JSON."""
        return samples.tolist()

    def draw(self, samples: Tensor, path: Path) -> None:
        """Write the samples as a picture, in one of the formats in `formats`."""
        from drawahead.show import painting

        pictures = (self.picture(sample) for sample in samples)
        painting.draw([picture for picture in pictures if isinstance(picture, Drawing)], path)


class TokenView(View):
    """How sequences of tokens look."""

    @abc.abstractmethod
    def picture(self, sample: Tensor) -> Drawing: ...

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        """When each part of the picture appears, if position i is drawn at `when[i]` (n,)."""
        times: list[int] = when.tolist()
        return times


class VectorView(View):
    """How vectors look."""

    smooth: ClassVar[bool] = False
    """Whether pixels are to run into each other where they are shown large."""

    @abc.abstractmethod
    def pixels(self, values: Tensor, side: int) -> list[Pixels]:
        """Pictures of `values` (number, ...), no more than `side` pixels high or wide, all of one size."""
