"""What all sequences of calls on one object need: time that is made up, a memory of what the default drew, verdicts.

What is drawn once says nothing about what is remembered. A sequence calls one object again and again, changes it in
between, and interrupts some calls; each call is held to what a fresh object draws that is made with the settings of
that moment. Settings are plain data, so that a fresh object owes nothing to the one under test, and it draws in packed
rounds, which keep nothing.

With the default sampler a fresh object may choose otherwise. Then the sampler that the report names must draw the same
on a fresh object, and noise that comes again must be drawn as it was before.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Hashable, Iterator

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.samplers import Sampler


class Broken(Exception):
    """What a model raises once it is told to."""


PACES = [(0.01, 0.0), (0.01, 5e-4), (0.01, 1e-3), (0.01, 1.5e-3), (0.01, 0.01)]
"""Seconds that models take for a call, and for each of its rows."""


class Clock:
    """Stands in for the time: models sleep by it and whatever measures them reads it. So a machine is as busy as a
    sequence says, at a `pace` that may change. It also breaks models: a counter of their own would be a change."""

    def __init__(self) -> None:
        self.now, self.pace = 0.0, PACES[0]
        self.left = math.inf  # how many more questions are answered

    def sleep(self, rows: float) -> None:
        """A model is asked about so many rows."""
        self.left -= 1
        if self.left < 0:
            raise Broken("the model is broken")
        self.now += self.pace[0] + self.pace[1] * rows

    def read(self) -> float:
        self.now += 1e-7
        return self.now


@contextlib.contextmanager
def made_up_time() -> Iterator[Clock]:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", clock.sleep)
        patch.setattr(time, "perf_counter", clock.read)
        yield clock


class After:
    """Set once it has been looked at so many times."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


def named(report: da.Report) -> Sampler:
    """The sampler that a report names."""
    names = {name: getattr(da, name) for name in ("Sequential", "Coupled")}
    chosen = eval(report.sampler, {"__builtins__": {}}, names)
    assert isinstance(chosen, Sampler)
    return chosen


class Drawn:
    """What the default drew, by all that it may depend on."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Tensor] = {}

    def judge(self, where: Hashable, value: Tensor, what: str) -> None:
        before = self._known.setdefault(where, value)
        judge_equal(value, before, f"{what}: the same noise was drawn in another way before")


def judge_equal(one: Tensor, other: Tensor, what: str) -> None:
    """That samples are the same: tokens bit by bit, vectors up to rounding, for batches may have other shapes."""
    assert one.shape == other.shape, f"{what}: {tuple(one.shape)}, not {tuple(other.shape)}"
    assert one.dtype == other.dtype, f"{what}: {one.dtype}, not {other.dtype}"
    if not one.is_floating_point():
        assert torch.equal(one, other), what
        return
    assert bool(one.isfinite().all()), f"{what}: not finite"
    tolerance = 1e-9 if one.dtype == torch.float64 else 1e-4
    off = float((one - other).abs().max()) if one.numel() else 0.0
    assert off <= tolerance * (1 + float(other.abs().max() if other.numel() else 0.0)), f"{what}: {off:.3g} apart"


def normals(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
