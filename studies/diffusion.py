"""Rounds and queries on diffusions, against the number of steps and the dimension."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from drawahead.chains import GaussianChain
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Picard, Recursive, Sampler, Sequential, Stepwise
from drawahead.schedules import StochasticLocalization
from drawahead.targets import GaussianMixture, GaussianTarget, Hypercube
from studies.estimates import Estimate, mean
from studies.growth.figure import scaling
from studies.growth.grid import measured
from studies.growth.settings import Plan
from studies.growth.tables import Cell, exponents, number, recursion
from studies.localization import error_table
from studies.rounds import options
from studies.study import Data, Stamp, Study, Watch, origin
from studies.tables import table

DELTA = 0.1
FULL = Plan(sizes=(256, 512, 1024, 2048, 4096), most_samples=8, recursive_seconds=8.0)
QUICK = Plan(sizes=(256, 512, 1024), most_samples=2, recursive_seconds=0.2)


def _spectrum(d: int) -> GaussianTarget:
    return GaussianTarget(variances=torch.logspace(-2, 0, d, dtype=torch.float64))


TARGETS: dict[str, Callable[[int], DenoisingTarget]] = {
    "hypercube": Hypercube,
    "mixture": GaussianMixture.random,
    "gaussian": _spectrum,
}
SAMPLERS: dict[str, Callable[[], Sampler]] = {
    "sequential": Sequential,
    "recursive": Recursive,
    "stepwise": Stepwise,
    "stepwise, not pipelined": lambda: Stepwise(pipelined=False),
    "block": Block,
    "coupled": Coupled,
    "coupled, window 1024": lambda: Coupled(window=1024),
    "picard, not exact": Picard,
}
DIMENSIONS = (64, 256, 1024)


@dataclass(frozen=True)
class DiffusionSetting:
    """One sampler on one target, at every number of steps; `dimension` None grows it with them."""

    name: str
    dimension: int | None
    sampler: str
    order: str = "random"

    @property
    def target(self) -> str:
        """The label of a study."""
        return f"{self.name}, d = {self.dimension or 'N / 4'}"

    def chain(self, n: int) -> GaussianChain:
        """The chain of n steps."""
        target = TARGETS[self.name](self.dimension or n // 4)
        return GaussianChain(target, StochasticLocalization(n, radius=target.radius, delta=DELTA))

    def make_sampler(self, n: int) -> Sampler:
        """The sampler for n steps."""
        return SAMPLERS[self.sampler]()

    def num_samples(self, n: int) -> int:
        """Fewer where each takes longer."""
        if self.sampler == "recursive":
            return 4
        return 8 if n <= 512 else 4 if n <= 1024 else 2


def settings() -> Iterator[DiffusionSetting]:
    """Every setting, study by study."""
    for name in TARGETS:
        for dimension in (*DIMENSIONS, None):
            yield from (DiffusionSetting(name, dimension, sampler) for sampler in SAMPLERS)


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All settings at all numbers of steps, the costs aimed at, and the error of the schedule."""
    stamp = Stamp(arguments)
    found = measured(QUICK if arguments.quick else FULL, list(settings()), watch, arguments.workers)
    more = {"delta": DELTA, "localization": error_table(), "aims": [] if arguments.quick else aims()}
    return stamp.made() | found | more


# Costs that the library was built to reach, at d = 1024 and N = 4096: target, sampler, rounds, queries.
AIMS = (
    ("hypercube", "coupled", 24, 20_000),
    ("hypercube", "block", 60, 15_000),
    ("mixture", "coupled", 16, None),
)
AIM_DELTAS = (0.1, 0.01)
AIM_SAMPLES = 8
AIM_SEED = 1000
"""Not the seed of the tables: windows were tuned while looking at those samples."""


def aims(num_samples: int = AIM_SAMPLES) -> list[dict[str, Any]]:
    """The costs aimed at, measured on samples that nothing was tuned on, at two noise levels. Plain values."""
    rows = []
    for delta in AIM_DELTAS:
        for name, sampler, rounds, queries in AIMS:
            target = TARGETS[name](1024)
            chain = GaussianChain(target, StochasticLocalization(4096, radius=target.radius, delta=delta))
            seeds = range(AIM_SEED, AIM_SEED + num_samples)  # one at a time: queries of each sample
            reports = [sample(chain, 1, sampler=SAMPLERS[sampler](), seed=seed).report for seed in seeds]
            for quantity, most in (("rounds", rounds), ("queries", queries)):
                found = mean(getattr(report, quantity) for report in reports)
                rows.append(
                    {
                        "delta": delta,
                        "target": name,
                        "sampler": sampler,
                        "quantity": quantity,
                        "aim": most,
                        "measured": found.value,
                        "standard_error": found.error,
                        "samples": num_samples,
                    }
                )
    return rows


def values(data: Data) -> dict[str, str]:
    """What the page says."""
    errors = data["localization"]
    return origin(data, "diffusion") | {
        "delta": str(data["delta"]),
        "recursive_seconds": f"{data['recursive_seconds']:g}",
        "aim_samples": str(AIM_SAMPLES),
        "aims": _aims(data["aims"]),
        "rounds_exponents": exponents(data["slopes"], "rounds", "target", "sampler"),
        "queries_exponents": exponents(data["slopes"], "queries", "target", "sampler"),
        "localization_target": errors["target"],
        "localization_radius": f"{errors['radius']:g}",
        "localization_delta": f"{errors['delta']:g}",
        "localization": _localization(errors["rows"]),
        "every": _every(data["measurements"], data["sizes"]),
        "recursion": recursion(data["measurements"]),
    }


def _aims(rows: Sequence[dict[str, Any]]) -> str:
    """None in a quick run."""
    lines = []
    for row in rows:
        reached = "" if row["aim"] is None else "yes" if row["measured"] <= row["aim"] else "no"
        lines.append(
            [
                f"{row['target']}, {row['sampler']}: {row['quantity']}",
                f"{row['delta']:g}",
                "-" if row["aim"] is None else f"at most {row['aim']}",
                Estimate(row["measured"], row["standard_error"]).rounded(1 if row["quantity"] == "rounds" else 0),
                reached,
            ]
        )
    return table(["cost", "delta", "aim", "measured", "reached"], lines)


def _every(cells: Sequence[Cell], sizes: Sequence[int]) -> str:
    parts = []
    for study in dict.fromkeys(cell["target"] for cell in cells):
        rows = []
        for sampler in dict.fromkeys(cell["sampler"] for cell in cells):
            own = {cell["n"]: cell for cell in cells if (cell["target"], cell["sampler"]) == (study, sampler)}
            rows.append(
                [sampler, *(f"{number(own.get(n), 'rounds')} / {number(own.get(n), 'queries')}" for n in sizes)]
            )
        parts += [f"### {study}", table(["rounds / queries, N =", *map(str, sizes)], rows)]
    return "\n\n".join(parts)


def _localization(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        [
            str(row["dimension"]),
            f"{row['asked']:g}",
            str(row["steps"]),
            Estimate(row["measured"], row["standard_error"]).rounded(4),
        ]
        for row in rows
    ]
    return table(["dimension", "eps", "steps", "total variation"], lines)


STUDY = Study("diffusion", measure, values, {"diffusion": scaling}, options=options)
