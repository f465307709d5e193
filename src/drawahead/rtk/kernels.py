"""What every kernel is: something that draws the state at the end of a segment from the one at its start."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.randomness import Purpose, Stream
from drawahead.rtk.potentials import Potential
from drawahead.rtk.segments import RTKTarget, positive
from drawahead.validate import number, whole
from drawahead.values import dataclass


@final
@dataclass(frozen=True, eq=False)
class Noise:
    """Noise for a batch of rows at one step. `at(s)` is the noise of the step s after it.

    `rtk.sample` passes a kernel the noise at step k S for segment k, S = `kernel.steps`: inner step s of segment k is
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
        return self.stream.normal(Purpose.VALUE, self._steps(), size=size)

    def uniform(self) -> Tensor:
        """What this step accepts by: uniforms in (0, 1), (rows,)."""
        return self.stream.uniform(Purpose.ACCEPT, self._steps())

    def initial(self, size: int) -> Tensor:
        """Standard normals for the state before this step (rows, size)."""
        return self.stream.normal(Purpose.KNOWN, self._steps(), size=size)

    def _steps(self) -> Tensor:
        return torch.full_like(self.stream.keys[:, 0], self.step)


class Start(abc.ABC):
    """z = slope x' + scale xi, xi standard normal."""

    @abc.abstractmethod
    def coefficients(self, eta: float) -> tuple[float, float]:
        """(slope, scale) for a segment of length eta."""


@final
@dataclass(frozen=True)
class GaussianStart(Start):
    """The reverse transition kernel itself if p_t were N(0, I / curvature): exp(-curvature |z|^2 / 2 - quadratic).

    1: a standard normal, which is what p_t is for large t: the chain then starts in its own distribution. 2 L: where
    the theorem on MALA starts. 0: the quadratic term alone, N(exp(eta) x', (exp(2 eta) - 1) I).
    """

    curvature: float = 1.0

    def __post_init__(self) -> None:
        number("curvature", self.curvature, least=0)

    def coefficients(self, eta: float) -> tuple[float, float]:
        quadratic = 1 / math.expm1(2 * eta)
        precision = self.curvature + quadratic
        return quadratic * math.exp(eta) / precision, precision**-0.5


@final
@dataclass(frozen=True)
class CentredStart(Start):
    """N(0, (exp(2 eta) - 1) I), whatever x' is: where the theorem on ULD starts."""

    def coefficients(self, eta: float) -> tuple[float, float]:
        return 0.0, math.expm1(2 * eta) ** 0.5


DEFAULT_START = GaussianStart()
"""Far closer after few steps than where the theorems start, which forget x' or half of it; after many, no different."""


@final
@dataclass(frozen=True, eq=False)
class State:
    """Where a Markov chain stands."""

    z: Tensor  # (rows, d)
    velocity: Tensor | None = None  # (rows, d), for the kernels that have one
    gradient: Tensor | None = None  # (rows, d), of the potential at z, for the kernels whose steps share it


@final
@dataclass(frozen=True, eq=False)
class Info:
    """What one step did; of several steps, the sum."""

    steps: int
    accepted: Tensor  # (rows,) how many of the steps were accepted
    energy_error: Tensor  # (rows,) the estimated errors of the energy differences they went by, summed

    @staticmethod
    def sure(z: Tensor, steps: int = 1) -> Info:
        """Of `steps` steps that never reject."""
        accepted = torch.full((len(z),), steps, dtype=torch.int64, device=z.device)
        return Info(steps, accepted, torch.zeros(len(z), dtype=torch.float64, device=z.device))

    def __add__(self, other: Info) -> Info:
        return Info(self.steps + other.steps, self.accepted + other.accepted, self.energy_error + other.energy_error)


class Kernel(abc.ABC):
    """Draws z at time t from x' at time t + eta. `rtk.sample` calls `draw` once per segment."""

    steps: int
    """S: the steps of noise per segment; segment k has the steps k S ... k S + S - 1."""

    def __post_init__(self) -> None:
        for name in ("steps", "leaps", "predictor_steps"):
            if hasattr(self, name):
                whole(name, getattr(self, name), 1)
        for name in ("tau", "gamma", "reach", "radius"):
            if hasattr(self, name):
                positive(name, getattr(self, name))

    @abc.abstractmethod
    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        """z (rows, d), and what it took. `noise` is that of the segment's first step."""


class MarkovKernel(Kernel):
    """A kernel that runs a Markov chain inside the segment: `init`, then `steps` times `step`.

    `start`, `step` and `run` need only a `Potential`, so a kernel can be used alone on any smooth distribution. Here
    one chain for each of 1000 rows, on the density exp(-z^4 / 4) up to a constant:

    >>> import torch
    >>> from drawahead import rtk
    >>> law = rtk.FunctionPotential(gradient=lambda z: z**3, energy=lambda z: (z**4).sum(1) / 4)
    >>> kernel, noise = rtk.MALA(tau=0.3, steps=100), rtk.Noise.of_samples(seed=0, num_samples=1000)
    >>> state = kernel.start(law, torch.zeros(1000, 1, dtype=torch.float64), noise)
    >>> state, info = kernel.step(law, state, noise)  # one step; `info.accepted` says which rows moved
    >>> state, info = kernel.run(law, state, noise.at(1))  # 100 more
    >>> bool(((state.z**4).mean() - 1).abs() < 0.2)  # E z^4 = 1
    True
    """

    begin: Start
    """The distribution of the chain's first state in a segment."""

    def init(self, target: RTKTarget, noise: Noise) -> State:
        """The first state of a segment."""
        slope, scale = self.begin.coefficients(target.eta)
        size = target.x_prime.shape[1]
        return self.start(target, slope * target.x_prime + scale * noise.initial(size), noise)

    def start(self, target: Potential, z: Tensor, noise: Noise) -> State:
        """The chain's state at z (rows, d)."""
        return State(z)

    @abc.abstractmethod
    def step(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        """One step of the chain, with the noise of that step."""

    def run(self, target: Potential, state: State, noise: Noise) -> tuple[State, Info]:
        """`steps` steps, the first with this noise."""
        info = Info.sure(state.z, steps=0)
        for s in range(self.steps):
            state, more = self.step(target, state, noise.at(s))
            info = info + more
        return state, info

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        state, info = self.run(target, self.init(target, noise), noise)
        return state.z, info


@final
@dataclass(frozen=True)
class PerSegment(Kernel):
    """The kernel `choose(time, eta)` for the segment of length eta that ends at `time`.

    `steps` is the most steps that any of them takes in a segment.
    """

    choose: Callable[[float, float], Kernel]
    steps: int

    def draw(self, target: RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        kernel = self.choose(target.time, target.eta)
        if kernel.steps > self.steps:
            raise InputError(f"choose must give a kernel of at most steps = {self.steps} steps, not {kernel!r}")
        return kernel.draw(target, noise)
