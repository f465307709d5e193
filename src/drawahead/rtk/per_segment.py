"""Another kernel for every segment: near the data laws are narrow, and a step that suits them is short elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from torch import Tensor

from drawahead.errors import InputError
from drawahead.rtk.kernels.base import Info, Kernel
from drawahead.rtk.kernels.noise import Noise
from drawahead.rtk.segments import RTKTarget
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class PerSegment(Kernel):
    """The kernel that `choose(time, eta)` gives for the segment of length eta that ends at `time`.

    `steps` is the most steps that any of them takes in a segment.
    """

    choose: Callable[[float, float], Kernel]
    steps: int

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        kernel = self.choose(target.time, target.eta)
        if not isinstance(kernel, Kernel) or kernel.steps > self.steps:
            raise InputError(f"choose must give a kernel of at most steps = {self.steps} steps, not {kernel!r}")
        return kernel.draw(target, noise)
