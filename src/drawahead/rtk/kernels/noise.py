"""The noise of one segment, by address: (seed, sample, what for, step)."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.randomness import Purpose, Stream
from drawahead.values import dataclass


@final
@dataclass(frozen=True, eq=False)
class Noise:
    """Noise for a batch of rows at one step. `at(s)` is the noise of the step s after it.

    `rtk.sample` gives a kernel the noise at step k S for segment k, S = `kernel.steps`: inner step s of segment k is
    step k S + s. The same address always holds the same numbers, whatever the batch.
    """

    stream: Stream
    step: int = 0

    @staticmethod
    def of_samples(seed: int, num_samples: int) -> Noise:
        """The noise of samples 0 ... num_samples - 1 under a seed, for a kernel used alone."""
        return Noise(Stream.of_samples(seed, torch.arange(num_samples)))

    def at(self, s: int) -> Noise:
        return Noise(self.stream, self.step + s)

    def normal(self, size: int) -> Tensor:
        """Standard normals of this step (rows, size)."""
        return self._normal(Purpose.VALUE, size)

    def uniform(self) -> Tensor:
        """What this step accepts by: uniforms in (0, 1), (rows,)."""
        return self.stream.uniform(Purpose.ACCEPT, self._steps())

    def initial(self, size: int) -> Tensor:
        """Standard normals for the state before this step (rows, size)."""
        return self._normal(Purpose.KNOWN, size)

    def _normal(self, purpose: Purpose, size: int) -> Tensor:
        return self.stream.normal(purpose, self._steps(), size=size)

    def _steps(self) -> Tensor:
        return torch.full_like(self.stream.keys[:, 0], self.step)
