"""How tight must an iteration to a tolerance be, to pass a two-sample test against the model drawn one by one?

On the mixture of compare.md, whose denoiser is a formula, with 250 steps. Every method has a ladder of tolerances; with
each one goes the distance to samples of the mixture's chain drawn one by one, and the p-value of a test of equal laws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead import schedules
from drawahead.verification.statistics import two_sample_vectors
from studies.compare import mixture
from studies.rivals.distance import energy
from studies.rivals.parareal import Parareal
from studies.rivals.solvers import SOLVERS

STEPS = 250
PICARD = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
PARAREAL = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
WINDOW = 64
COUNTS = (5, 10, 20, 50)
Row = dict[str, Any]


def tolerances(number: int, keep: Callable[[list[Row]], None], rungs: int = len(PICARD)) -> None:
    """Rounds, queries, distance and p-value of every method at its first few tolerances."""
    target = mixture()
    chain = da.GaussianChain(target, schedules.DDPM(timesteps=schedules.spaced(STEPS, 1000)))
    reference = drawn(chain, number, da.Sequential(), 1)[0]
    rows: list[Row] = []

    def row(name: str, samples: Tensor, rounds: float, queries: float, **more: Any) -> None:
        found = {"rounds": rounds, "queries": queries, "samples": len(samples)} | asdict(energy(samples, reference))
        rows.append({"name": name} | more | found | {"p": two_sample_vectors(samples, reference)})
        print(rows[-1], flush=True)
        keep(rows)

    for name, sampler in (("one by one", da.Sequential()), ("`Coupled`", da.Coupled(WINDOW))):
        samples, report = drawn(chain, number, sampler, 2)
        row(name, samples, report.mean_rounds, report.queries_per_sample)
    for name, window in (("ParaDiGMS", WINDOW), ("Picard", STEPS)):
        for tolerance in PICARD[:rungs]:
            samples, report = drawn(chain, number, da.Picard(tolerance, window=window), 3)
            more = {"tolerance": tolerance, "window": window}
            row(name, samples, report.mean_rounds, report.queries_per_sample, **more)
    generator = torch.Generator().manual_seed(4)
    noise = torch.randn(number, STEPS, *chain.shape, dtype=torch.float64, generator=generator)
    start = torch.randn(number, *chain.shape, dtype=torch.float64, generator=generator)
    method = Parareal((chain.plan.a, chain.plan.b, chain.plan.s), chain.denoiser, noise)
    for tolerance in PARAREAL[:rungs]:
        found = method.draw(start, tolerance)
        iterations = float(found.iterations.double().mean())
        more = {"tolerance": tolerance, "pipelined": method.pipelined(iterations), "iterations": iterations}
        row("SRDS-type", found.samples, method.rounds(iterations), method.queries(iterations), **more)
    for name, make in SOLVERS.items():
        for steps in COUNTS[:rungs]:
            short = da.GaussianChain(target, schedules.Given(make(steps)))
            samples, report = drawn(short, number, da.Sequential(), 5)
            row(name, samples, steps, steps, steps=steps)


def drawn(chain: da.GaussianChain, number: int, sampler: da.Sampler, seed: int) -> tuple[Tensor, da.Report]:
    """Samples all at once, and the report of as many rounds as each needs."""
    result = da.sample(chain, number, sampler=sampler, seed=seed, max_live=number)
    return result.samples, result.report
