"""A model of how long a job takes on how many GPUs: rounds x (latency + overhead) + queries / throughput.

Everything in it is fitted to measured numbers; what it says about more GPUs than were measured is a model's word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from drawahead import Coupled
from drawahead.samplers.record import from_repr

Row = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """y = start + slope x, fitted to points by least squares of relative errors."""

    start: float
    slope: float
    points: tuple[tuple[float, float], ...]

    @classmethod
    def through(cls, points: list[tuple[float, float]]) -> Line:
        x, y = np.array(points).T
        slope, start = np.polyfit(x, y, 1, w=1 / y)
        return cls(float(start), float(slope), tuple(points))

    def __call__(self, x: float) -> float:
        return self.start + self.slope * x

    @property
    def worst(self) -> float:
        """The largest relative error at a point."""
        return max(abs(self(x) / y - 1) for x, y in self.points)


@dataclass(frozen=True)
class Overhead:
    """What an executor adds to a round, in seconds."""

    workers: Line
    """By the number of workers."""
    megabyte: float
    """For every megabyte that is sent or comes back."""

    def __call__(self, workers: int, megabytes: float = 0.0) -> float:
        return self.workers(workers) + self.megabyte * megabytes


@dataclass(frozen=True)
class Model:
    """A model on one GPU, as docs/data/speed.json has it."""

    name: str
    device: Line
    """Seconds of a captured round by the items in it."""
    windows: tuple[tuple[int, float], ...]
    """Items of a round of one sample, and the rounds that takes: one pair for each window measured."""
    batches: tuple[tuple[int, float], ...]
    """Samples drawn together on one GPU, and the seconds they take."""
    megabytes: float
    """What is sent and comes back for an item."""
    uncaptured: float
    """Seconds that a round takes more when an executor drives it."""

    def by_samples(self, samples: int, gpus: int) -> float:
        """Every GPU draws its share of the samples by itself."""
        share, most = math.ceil(samples / gpus), self.batches[-1][0]
        counts, seconds = zip(*self.batches, strict=True)
        rest = share % most
        return share // most * seconds[-1] + (float(np.interp(rest, counts, seconds)) if rest else 0.0)

    def by_rounds(self, samples: int, gpus: int, overhead: Overhead) -> float:
        """All GPUs share every round, with the best of the windows that were measured."""
        return min(rounds * self.shared_round(samples * items, gpus, overhead) for items, rounds in self.windows)

    def shared_round(self, items: int, gpus: int, overhead: Overhead) -> float:
        share = math.ceil(items / min(gpus, items))
        return self.device(share) + self.uncaptured + overhead(min(gpus, items), items * self.megabytes)

    def floor(self, items: int) -> float:
        """The number of GPUs at which a round's work takes as long as its latency."""
        return items * self.device.slope / self.device.start


def best_workers(items: int, each: float, overhead: Overhead) -> float:
    """W that makes items * each / W + W * (overhead of a worker) smallest."""
    return math.sqrt(items * each / overhead.workers.slope)


def images(speed: Row, gpu: Row) -> Model:
    found = speed["fashion"]
    steps = found["sequential"]["mean_rounds"]
    windows = [(row["window"] + 1, row["mean_rounds"], row["seconds"]) for row in found["coupled"]]
    points = [(float(row["batch"]), row["sequential"]["seconds"] / steps) for row in found["batches"]]
    points += [(float(items), seconds / rounds) for items, rounds, seconds in windows]
    return Model(
        "DDPM images",
        Line.through(points + _rounds(found, 65)),
        tuple((items, rounds) for items, rounds, _ in windows),
        _batches(found),
        2 * 8 * 28 * 28 / 1e6,
        _uncaptured(gpu["fashion"]),
    )


def texts(speed: Row, gpu: Row) -> Model:
    found = speed["text"]
    whole = next(row for row in found["coupled"] if row["window"] is None)
    return Model(
        "texts",
        Line.through(_rounds(found, 1)),  # an item is a path, with all that is asked about it
        ((1, whole["mean_rounds"]),),
        _batches(found),
        8 * 256 * (3 + 64) / 1e6,
        _uncaptured(gpu["text"]),
    )


def _rounds(found: Row, items: int) -> list[tuple[float, float]]:
    """Items of a round of each batch, so many for each sample, and the seconds it takes."""
    rows = [(row["batch"], row["coupled"]) for row in found["batches"] if "coupled" in row]
    return [(float(batch * items), row["seconds"] / row["batch_rounds"]) for batch, row in rows]


def _batches(found: Row) -> tuple[tuple[int, float], ...]:
    return tuple((row["batch"], row["auto"]["seconds"]) for row in found["batches"])


def _uncaptured(rows: list[Row]) -> float:
    alone = [row for row in rows if row["num_samples"] == 1]
    return float(np.mean([row["local"]["ms"] - row["captured"]["ms"] for row in alone])) / 1e3


def ray_overhead(found: Row) -> Overhead:
    """From the quickest rounds of workers that do no work, and of larger and larger states."""
    local = found["local"]["awake"]["quick_ms"]
    workers = Line.through([(row["workers"], (row["awake"]["quick_ms"] - local) / 1e3) for row in found["ray"]])
    small, large = found["payload"][0], found["payload"][-1]
    more = large["quick_adds_ms"] - small["quick_adds_ms"]
    return Overhead(workers, more / 1e3 / (large["megabytes"] - small["megabytes"]))


def replicas_overhead(found: Row) -> Line:
    """Seconds that `Replicas` adds to a round by their number, from the quickest rounds of replicas that do no work."""
    local = found["local"]["awake"]["quick_ms"]
    return Line.through([(row["workers"], (row["awake"]["quick_ms"] - local) / 1e3) for row in found["replicas"]])


def image_windows(speed: Row) -> tuple[tuple[int, float], ...]:
    """States in a round of one image, and the rounds it takes: windows measured by name, and shorter ones that `Auto`
    chose for batches, each from the largest batch."""
    found = speed["fashion"]
    rounds = {}
    for row in found["batches"]:
        sampler = from_repr(row["auto"]["sampler"])
        if isinstance(sampler, Coupled) and sampler.window is not None:
            rounds[sampler.window] = row["auto"]["mean_rounds"]
    rounds |= {row["window"]: row["mean_rounds"] for row in found["coupled"]}
    return tuple((window + 1, rounds[window]) for window in sorted(rounds))
