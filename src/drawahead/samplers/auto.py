"""The default: a sampler that is chosen by measuring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from drawahead.chains.base import Paths
from drawahead.rounds.threads import Thread
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.samplers.coupled import Coupled


@final
@dataclass(frozen=True)
class Auto(Sampler):
    """Chooses between `Sequential` and `Coupled` and its window, by timing a few rounds; the report says what and why.

    A runner chooses once for each number of samples drawn together, from timings and from pilot samples on noise of
    their own, never from the samples it is asked for. So the choice changes no distribution, and equal calls of one
    runner give equal samples. To draw the same samples of a diffusion elsewhere, name the sampler that the report
    names, or the one that `drawahead.tune` returns.
    """

    foresight: ClassVar[bool] = False
    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="n at most", reference="Sequential or Coupled, by measurement"
    )

    def run(self, paths: Paths) -> Thread:
        return Coupled().run(paths)
