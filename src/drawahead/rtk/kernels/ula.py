"""The unadjusted Langevin algorithm: Euler steps of dz = -grad g dt + sqrt(2) dB."""

from __future__ import annotations

import math
from typing import final

from drawahead.rtk.kernels.base import DEFAULT_START, Info, MarkovKernel, Noise, Start, State
from drawahead.rtk.potentials import Potential
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class ULA(MarkovKernel):
    """z' = z - tau grad g(z) + sqrt(2 tau) xi. Its law is off by O(tau) however many steps it makes."""

    tau: float
    steps: int
    begin: Start = DEFAULT_START

    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        xi = noise.normal(state.z.shape[1])
        z = state.z - self.tau * target.gradient(state.z) + math.sqrt(2 * self.tau) * xi
        return State(z), Info.sure(z)
