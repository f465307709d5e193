"""Domino tilings on the command line: `drawahead sample dominoes`, `drawahead sample aztec`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from rich.console import Console, RenderableType
from rich.text import Text
from torch import Tensor

from drawahead import tilings
from drawahead.chains import TokenChain
from drawahead.cli.shipped import TargetOptions
from drawahead.cli.subjects import Subject
from drawahead.sample import Result
from drawahead.samplers import Sampler, Separated
from drawahead.targets import PlanarMatching

SHAPES = {"dominoes": ("square", 16), "aztec": ("aztec", 12)}
"""By name: the shape of the region, and its usual size."""
SUMMARIES = {"dominoes": "domino tilings of a size x size board", "aztec": "domino tilings of the Aztec diamond"}


@final
@dataclass(frozen=True)
class Tilings(Subject):
    formats = (".npz", ".json", ".png")
    chain: TokenChain
    num: int = 1
    sampler: Sampler | None = field(default_factory=Separated)

    @property
    def matching(self) -> PlanarMatching:
        oracle = self.chain.oracle
        assert isinstance(oracle, PlanarMatching)
        return oracle

    def picture(self, result: Result, console: Console) -> RenderableType:
        """The first tiling, two characters a square, if it fits."""
        colours = tilings.colours(self.matching, result.samples[0])
        rows, columns = (sorted({place[axis] for place in colours}) for axis in (0, 1))
        if 2 * len(columns) > console.width or not console.color_system:
            return Text(f"{len(result.samples)} tilings of {len(colours)} squares; --out tiling.png draws one")
        picture = Text(no_wrap=True)
        for i in rows:
            for j in columns:
                picture.append("  ", f"on {colours[i, j]}" if (i, j) in colours else "")
            picture.append("\n")
        picture.rstrip()
        return picture

    def line(self, values: Tensor) -> str:
        return " ".join(str(v) for v in values.tolist())

    def plain(self, samples: Tensor) -> list[Any]:
        """Each tiling as its pairs of squares."""
        return [sorted(sorted(edge) for edge in tiling) for tiling in self.matching.matchings(samples)]

    def draw(self, result: Result, path: Path) -> None:
        tilings.draw(self.matching, result.samples[0], path)


def made(name: str, asked: TargetOptions) -> Tilings:
    """The tilings called `name`."""
    asked.only(name, "size")
    shape, usual = SHAPES[name]
    size = asked.size or usual
    return Tilings(name, TokenChain(tilings.dominoes(shape, size)), options={"size": size})
