"""Inference that is wrong in ways that look right. Each is rejected by the checks that pass the real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead import ardiffusion as ar
from drawahead.chains.affine import AffinePaths
from drawahead.chains.base import Tally
from drawahead.randomness import Purpose, Stream
from tests.ardiffusion.reference import LANGEVIN, NUMBER, SCHEDULES, SIZE, TARGET


@dataclass(frozen=True)
class Told:
    """Conditionals that are told a state which has been meddled with."""

    meddle: Callable[[Tensor, Tensor], Tensor]
    target: ar.Conditionals = TARGET

    @property
    def parts(self) -> ar.Parts:
        return self.target.parts

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        return self.target.mean(self.meddle(state.clone(), part), part, signal, noise)


def noisy_condition(state: Tensor, part: Tensor) -> Tensor:
    """The part before is read where the noisy one is."""
    rows = (part > 0).nonzero()[:, 0]
    state[rows, part[rows] - 1] = state[rows, part[rows]]
    return state


def last_forgotten(state: Tensor, part: Tensor) -> Tensor:
    """The part that has just been finished is not told."""
    rows = (part > 0).nonzero()[:, 0]
    state[rows, part[rows] - 1] = TARGET.centre.view(-1, SIZE)[part[rows] - 1]
    return state


def first_twice(state: Tensor, part: Tensor) -> Tensor:
    """The first part stands for the second, too."""
    state[part == 2, 1] = state[part == 2, 0]
    return state


def not_frozen(name: str) -> da.StackedChain:
    """Finished parts go on moving: the steps of a part move the one before it along."""
    chain = ar.chain(TARGET, SCHEDULES[name])
    plan, count = chain.plan, len(SCHEDULES[name].plan().a)
    a = plan.a.clone()
    for k in range(count, len(a)):
        a[k, k // count - 1, k // count - 1] = 0.99
    return da.StackedChain(chain.oracle, replace(plan, a=a), chain.shape, dtype=torch.float64)


def lanes_swapped(name: str) -> da.StackedChain:
    """The model is asked about the next part while the lane of this one moves."""
    chain = ar.chain(TARGET, SCHEDULES[name])
    count = len(SCHEDULES[name].plan().a)

    def early(lanes: Tensor, k: Tensor) -> Tensor:
        return chain.oracle(lanes, torch.where(k % count == count - 2, (k + count).clamp(max=chain.steps - 1), k))

    return da.StackedChain(early, chain.plan, chain.shape, dtype=torch.float64)


@dataclass(frozen=True)
class Repeating(Stream):
    """Noise that is looked up by the step within its part."""

    count: int = 1

    def __getitem__(self, rows: Tensor) -> Repeating:
        return Repeating(self.keys[rows], count=self.count)

    def normal(self, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0, size: int = 1) -> Tensor:
        return super().normal(purpose, step % self.count, attempt, size)


class NoiseReused(da.Chain):
    """Every part is drawn with the noise of the first."""

    def __init__(self, name: str) -> None:
        self.chain = ar.chain(TARGET, SCHEDULES[name])
        self.count = len(SCHEDULES[name].plan().a)

    @property
    def steps(self) -> int:
        return self.chain.steps

    @property
    def model(self) -> da.StackedChain:
        return self.chain

    @property
    def device(self) -> torch.device:
        return self.chain.device

    @property
    def row_bytes(self) -> int:
        return self.chain.row_bytes

    def captured_parts(self) -> dict[str, Any]:
        return self.chain.captured_parts()

    def start(self, seed: int, samples: Tensor, tally: Tally) -> AffinePaths:
        paths = self.chain.start(seed, samples, tally)
        paths.stream = Repeating(paths.stream.keys, count=self.count)
        return paths

    def check(self, num_samples: int) -> None:
        self.chain.check(num_samples)

    def empty(self, num_samples: int) -> Tensor:
        return self.chain.empty(num_samples)


def langevin(change: Callable[[Tensor, int], None]) -> Callable[[str], da.Chain]:
    """ULD whose lanes (z, v, x', finished parts) are not put in order between two parts as they should be."""

    def made(name: str) -> da.Chain:
        chain = ar.chain(TARGET, LANGEVIN)
        keep, add = chain.plan.refresh or (torch.empty(0), torch.empty(0))
        keep, steps = keep.clone(), chain.steps // NUMBER
        for j in range(1, NUMBER):
            change(keep[j * steps], j)
        return da.StackedChain(chain.oracle, replace(chain.plan, refresh=(keep, add)), chain.shape, dtype=torch.float64)

    return made


def carried_over(keep: Tensor, j: int) -> None:
    """A part begins where the one before ended, with noise on top, instead of at noise."""
    keep[0, 0] = keep[2, 0] = 1.0


def x_put_away(keep: Tensor, j: int) -> None:
    """What is kept of a part is its last x', not its last z."""
    keep[2 + j] = keep[2 + j].roll(2)


def told(meddle: Callable[[Tensor, Tensor], Tensor]) -> Callable[[str], da.Chain]:
    return lambda name: ar.chain(Told(meddle), SCHEDULES[name])


MUTANTS: dict[str, Callable[[str], da.Chain]] = {
    "condition from the noisy part": told(noisy_condition),
    "last part forgotten": told(last_forgotten),
    "first part twice": told(first_twice),
    "parts not frozen": not_frozen,
    "asked about the wrong part": lanes_swapped,
    "noise reused across parts": NoiseReused,
}
LANGEVIN_MUTANTS = {"carried over": langevin(carried_over), "x' put away": langevin(x_put_away)}
