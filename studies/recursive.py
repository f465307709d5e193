"""How the rounds of the recursion grow, and how heavy their tail is."""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy
import torch

from drawahead.chains import Chain, GaussianChain, TokenChain
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.sample import sample
from drawahead.samplers import Recursive
from drawahead.schedules import StochasticLocalization
from drawahead.targets import TARGETS, GaussianMixture, Hypercube
from drawahead.teaching.comparison import TimeLimit
from studies.estimates import slope
from studies.study import Data, Stamp, Study, Watch, origin
from studies.tables import table

TOKENS = ("pairs", "urns", "mixture", "markov", "tree", "dense")
DIFFUSIONS: dict[str, Callable[[int], DenoisingTarget]] = {
    "hypercube": Hypercube,
    "mixture of Gaussians": GaussianMixture.random,
}
DIMENSION = 64
SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
STEPS = (256, 512, 1024, 2048, 4096)
VARIANTS = {"recursive": Recursive(), "as published": Recursive(growth="paper")}
PUBLISHED = 512
"""The published form is tried up to this length."""
SEED = 1000
"""Not the seed by which the sizes of segments and batches were chosen."""
LATER = 512
"""Slopes are those from here on."""
Cell = dict[str, Any]


class Setting(NamedTuple):
    """One variant on one target, at every length."""

    target: str
    variant: str

    @property
    def sizes(self) -> tuple[int, ...]:
        sizes = SIZES if self.target in TOKENS else STEPS
        return sizes if self.variant == "recursive" else tuple(n for n in sizes if n <= PUBLISHED)

    def chain(self, n: int) -> Chain:
        """The chain of n steps."""
        if self.target in TOKENS:
            return TokenChain(TARGETS[self.target].make(n))
        target = DIFFUSIONS[self.target](DIMENSION)
        return GaussianChain(target, StochasticLocalization(n, radius=target.radius, delta=0.1))


def options(parser: argparse.ArgumentParser) -> None:
    """How long it may take."""
    parser.add_argument("--seconds", type=float, default=30.0, help="processor time for one length on one target (30)")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="the largest length")
    parser.add_argument("--workers", type=int, default=2, help="processes that measure side by side (2)")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Every setting at every length."""
    stamp = Stamp(arguments)
    chosen = [Setting(target, variant) for target in (*TOKENS, *DIFFUSIONS) for variant in VARIANTS]
    cells: list[Cell] = []
    with ProcessPoolExecutor(arguments.workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        limits = itertools.repeat(arguments.seconds), itertools.repeat(arguments.largest)
        for i, row in enumerate(pool.map(_row, chosen, *limits)):
            cells += row
            watch(", ".join(chosen[i]), i + 1, len(chosen))
    return stamp.made() | {"limit": arguments.seconds, "cells": cells}


def _row(setting: Setting, seconds: float, largest: int) -> list[Cell]:
    """One setting at every length, until one takes too long."""
    row: list[Cell] = []
    for n in setting.sizes:
        if n <= largest and all(cell["complete"] for cell in row):
            row.append(measured(setting, n, seconds))
    return row


def measured(setting: Setting, n: int, seconds: float) -> Cell:
    """One length: what every sample took. Samples that did not finish in time took as many rounds, or more."""
    num_samples = 32 if n <= 256 else 16 if n <= 1024 else 8
    limit = TimeLimit(seconds, time.process_time)
    result = sample(setting.chain(n), num_samples, sampler=VARIANTS[setting.variant], seed=SEED, stop=limit)
    report = result.report
    rounds = [*report.sample_rounds, *[report.rounds] * (num_samples - report.num_samples)]
    return {
        "target": setting.target,
        "variant": setting.variant,
        "n": n,
        "complete": result.complete,
        "rounds": sorted(rounds),
        "queries": report.queries / num_samples,
        "candidates": report.candidates / num_samples,
    }


def values(data: Data, rounds: Data) -> dict[str, str]:
    """What the page says."""
    cells: list[Cell] = data["cells"]
    stepwise = {
        (cell["target"], cell["n"]): cell["rounds"]
        for cell in rounds["measurements"]
        if cell["sampler"] == "stepwise, not pipelined" and cell["order"] == "random"
    }
    return origin(data, "recursive") | {
        "limit": f"{data['limit']:g}",
        "later": str(LATER),
        "dimension": str(DIMENSION),
        "slopes": _slopes(cells),
        "tokens": _cells([cell for cell in cells if cell["target"] in TOKENS], stepwise),
        "diffusions": _cells([cell for cell in cells if cell["target"] in DIFFUSIONS], {}),
        "least": f"{least_on_pairs():.2f}",
        "least_4096": f"{64 * least_on_pairs():.0f}",
        "stepwise_4096": f"{stepwise['pairs', 4096]:.0f}",
    }


def least_on_pairs() -> float:
    """What the recursion takes on pairs at the best size of its segments, in units of sqrt n, if one batch of
    candidates were always enough and ended as soon as one candidate does on average.

    A segment of x sqrt n steps holds both ends of Poisson(x^2 / 2) pairs, each of which a draft gets right by luck, so
    TV = 1 - exp(-x^2 / 4) on average. Rejected, it takes the rounds of its halves, which begin with its verification.
    """

    def rejected(x: float) -> float:
        return -math.expm1(-x * x / 4)

    def below(x: float) -> float:
        return 1.0 if x < 1e-3 else 1 + rejected(x) * 2 * below(x / 2)

    sizes = numpy.linspace(0.2, 6, 200)
    return min((1 - rejected(x) + rejected(x) * 2 * below(x / 2)) / x for x in sizes.tolist())


def _slopes(cells: Sequence[Cell]) -> str:
    rows = []
    for target in dict.fromkeys(cell["target"] for cell in cells):
        line = [
            cell
            for cell in cells
            if cell["target"] == target and cell["variant"] == "recursive" and cell["complete"] and cell["n"] >= LATER
        ]
        if len(line) < 3:
            rows.append([target, "-", "-", "-"])
            continue
        lengths = numpy.log([cell["n"] for cell in line])
        of_mean = slope(lengths, numpy.log([numpy.mean(cell["rounds"]) for cell in line]))
        of_median = slope(lengths, numpy.log([numpy.median(cell["rounds"]) for cell in line]))
        rows.append([target, str(line[-1]["n"]), of_mean.rounded(2), of_median.rounded(2)])
    return table(["target", "up to n =", "slope of the mean", "slope of the median"], rows)


def _cells(cells: Sequence[Cell], stepwise: dict[tuple[str, int], float]) -> str:
    heading = ["target", "n", "rounds", "median", "90%", "most", "queries", "as published"]
    rows = []
    published = {(cell["target"], cell["n"]): cell for cell in cells if cell["variant"] == "as published"}
    for cell in cells:
        if cell["variant"] != "recursive":
            continue
        key = cell["target"], cell["n"]
        quantiles = [f"{numpy.quantile(cell['rounds'], q, method='higher'):.0f}" for q in (0.5, 0.9, 1)]
        other = f"{stepwise[key]:.1f}" if key in stepwise else "-"
        queries, paper = f"{cell['queries']:.0f}", _mean(published.get(key))
        row = [cell["target"], str(cell["n"]), _mean(cell), *quantiles, queries, paper]
        rows.append([*row, other] if stepwise else row)
    return table([*heading, "stepwise, not pipelined"] if stepwise else heading, rows)


def _mean(cell: Cell | None) -> str:
    """Rounds a sample; a lower bound where some were stopped."""
    if cell is None:
        return "-"
    return f"{'' if cell['complete'] else '≥ '}{numpy.mean(cell['rounds']):.1f}"


STUDY = Study("recursive", measure, values, {}, sources=("recursive", "rounds"), options=options)
