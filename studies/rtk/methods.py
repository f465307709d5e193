"""What is compared: every method, what it makes of a number of calls, and its step sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from drawahead.rtk import (
    DPOM,
    DPUM,
    HMC,
    MALA,
    ULA,
    ULD,
    Kernel,
    PerSegment,
    ProbabilityFlow,
    ProjectedMALA,
    ReverseSDE,
    Segments,
)
from studies.rtk.ring import from_smoothness, geometric, spread

FIRST = 3.0
"""T, for every method."""
SEGMENTS = 5
"""RTK: segments that end at {0.8, 0.6, 0.4, 0.2, 0} T, or as many of geometric length."""
STEP_SIZES = (1.6, 0.8, 0.4, 0.2, 0.1, 0.05)
"""c: a Langevin step is c / H long, H the curvature of one mode of the law it draws from; a step of underdamped or
Hamiltonian dynamics sqrt(2 c / H), which moves as far."""
CORRECTIONS = 2
"""Corrector steps at each level."""
LEAPS = 3


@dataclass(frozen=True)
class Run:
    """One way to spend calls: ready for `rtk.sample`."""

    kernel: Kernel
    segments: Segments


Inner = Callable[[float, float, int, int], Kernel]
"""(H, c, inner steps, d) -> the kernel of one segment."""


@dataclass(frozen=True)
class Method:
    """A method on a grid of times. `plan` says how it spends a number of calls, given c and d, if it can."""

    name: str
    grid: str
    """`even`, `geometric`, or `from L`."""
    tuned: bool
    plan: Callable[[int, float, int], Run | None]

    @property
    def label(self) -> str:
        """Name and grid."""
        return f"{self.name}, {self.grid}"


def _grid(name: str, count: int) -> Segments:
    return Segments.even(FIRST, count) if name == "even" else geometric(FIRST, count)


def _stepwise(name: str, grid: str, kernel: Kernel) -> Method:
    """One call a step."""
    return Method(name, grid, False, lambda calls, c, d: Run(kernel, _grid(grid, calls)))


def _corrected(name: str, grid: str, make: Inner) -> Method:
    """One call of the ODE and CORRECTIONS of the corrector at each level."""

    def plan(calls: int, c: float, d: int) -> Run | None:
        def choose(time: float, eta: float) -> Kernel:
            return make(1 / spread(time), c, CORRECTIONS, d)

        levels = calls // (1 + CORRECTIONS)
        return Run(PerSegment(choose, CORRECTIONS), _grid(grid, levels)) if levels else None

    return Method(name, grid, True, plan)


def _rtk(name: str, grid: str, make: Inner, calls_of: Callable[[int], int]) -> Method:
    """As many inner steps in each segment as the calls allow; `calls_of` a number of them says what they take."""

    def plan(calls: int, c: float, d: int) -> Run | None:
        segments = from_smoothness(FIRST) if grid == "from L" else _grid(grid, SEGMENTS)
        steps = 0
        while calls_of(steps + 1) * len(segments) <= calls:
            steps += 1
        if not steps:
            return None

        def choose(time: float, eta: float) -> Kernel:
            return make(1 / spread(time) + 1 / math.expm1(2 * eta), c, steps, d)

        return Run(PerSegment(choose, steps), segments)

    return Method(name, grid, True, plan)


def _friction(curvature: float, c: float) -> tuple[float, float]:
    """tau and gamma: critical damping."""
    return math.sqrt(2 * c / curvature), 2 * math.sqrt(curvature)


def _projected(curvature: float, c: float, steps: int, d: int) -> Kernel:
    """Balls that hardly ever matter: 2 (sqrt(d) + 3) noises of a step, and 3 (sqrt(d) + 3) standard deviations."""
    reach = math.sqrt(d) + 3
    return ProjectedMALA(c / curvature, steps, 2 * reach * math.sqrt(2 * c / curvature), 3 * reach)


def _uld(curvature: float, c: float, steps: int, d: int) -> Kernel:
    return ULD(*_friction(curvature, c), steps)


def _mala(curvature: float, c: float, steps: int, d: int) -> Kernel:
    return MALA(c / curvature, steps)


def methods() -> Iterator[Method]:
    """Every method on every grid it is measured on."""
    for grid in ("even", "geometric"):
        yield _stepwise("DDPM", grid, ReverseSDE())
        yield _stepwise("ODE", grid, ProbabilityFlow())
        yield _corrected("DPOM", grid, lambda curvature, c, steps, d: DPOM(c / curvature, steps))
        yield _corrected("DPUM", grid, lambda curvature, c, steps, d: DPUM(*_friction(curvature, c), steps))
        yield _rtk("RTK-ULA", grid, lambda curvature, c, steps, d: ULA(c / curvature, steps), lambda steps: steps)
        yield _rtk("RTK-ULD", grid, _uld, lambda steps: steps)
        yield _rtk("RTK-MALA", grid, _mala, lambda steps: 1 + 2 * steps)
        yield _rtk("RTK-ProjectedMALA", grid, _projected, lambda steps: 1 + 2 * steps)
        yield _rtk(
            "RTK-HMC",
            grid,
            lambda curvature, c, steps, d: HMC(math.sqrt(2 * c / curvature), LEAPS, steps),
            lambda steps: 1 + (LEAPS + 1) * steps,
        )
    yield _rtk("RTK-ULD", "from L", _uld, lambda steps: steps)
    yield _rtk("RTK-MALA", "from L", _mala, lambda steps: 1 + 2 * steps)
