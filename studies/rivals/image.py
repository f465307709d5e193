"""The shipped image network on one GPU: milliseconds of one image against the distance to the network's own samples.

Every way is timed for one image after a warm-up, all of them captured; samples for the distance are drawn many at a
time. The reference are two sets drawn one by one, whose distance from each other is what chance alone gives.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

import drawahead as da
from drawahead.networks.files import load
from drawahead.networks.unet import UNet
from drawahead.oracles.denoisers import from_epsilon
from drawahead.schedules import Given, Plan
from studies.rivals.distance import energy
from studies.rivals.parareal import Parareal, Work
from studies.rivals.solvers import SOLVERS
from studies.speed.place import Place
from studies.speed.timing import measured
from studies.study import Data

STEPS = {"DDIM": (5, 10, 20, 30, 50, 100), "DPM-Solver++ (2M)": (5, 10, 20, 30, 50)}
STEPS["DPM-Solver++ (2M), Karras levels"] = STEPS["DPM-Solver++ (2M)"]
TOLERANCES = (1.0, 0.3, 0.1, 0.03)
PARAREAL = (0.1, 0.03, 0.01)
WINDOW = 128


def detail(images: Tensor) -> Tensor:
    """Differences between neighbouring pixels: large shapes count for less, fine detail for more."""
    return torch.cat([part.flatten(1) for part in (images.diff(dim=1), images.diff(dim=2))], 1)


@dataclass
class Rows:
    """What is measured, written after every row; nothing is begun that may not end in time."""

    place: Place
    save: Callable[[list[Data]], None]
    limit: float
    samples: Path | None = None
    """A folder for the samples themselves."""
    began: float = field(default_factory=time.perf_counter)
    rows: list[Data] = field(default_factory=list)
    reference: Tensor | None = None

    @property
    def left(self) -> float:
        return self.limit - (time.perf_counter() - self.began)

    def add(self, name: str, family: str, images: Tensor, reference: Tensor | None = None, **more: Any) -> None:
        """A way with its samples; `reference` is what they are compared with, if it is another."""
        other = self.reference if reference is None else reference
        assert other is not None
        one, two = (part.to(self.place.device).float() for part in (images, other))
        found = {"pixels": asdict(energy(one, two)), "detail": asdict(energy(detail(one), detail(two)))}
        self.rows.append({"name": name, "family": family, "samples": len(images)} | more | found)
        print(round(self.left), self.rows[-1], flush=True)
        self.save(self.rows)
        self.keep(len(self.rows), images)

    def keep(self, number: int, images: Tensor) -> None:
        """The images of a row, if they are wanted."""
        if self.samples is not None:
            self.samples.mkdir(parents=True, exist_ok=True)
            numpy.save(self.samples / f"{number:02d}.npy", images.half().cpu().numpy())


def sampled(place: Place, chain: da.GaussianChain, number: int, sampler: da.Sampler, seed: int) -> Tensor:
    """Many at a time."""
    return da.sample(chain, number, sampler=sampler, seed=seed, max_live=number, **place.options).samples


def solver(place: Place, plan: Plan) -> da.GaussianChain:
    """The shipped network under another plan, its predictions clipped as its own chain clips them."""
    network = UNet()
    network.load_state_dict(load("fashion"))
    network = network.to(place.device, place.half).eval().requires_grad_(False)
    schedule = Given(plan)

    def predict(x: Tensor, at: Tensor) -> Tensor:
        return network(x[:, None].to(place.half), at)[:, 0]

    denoise = from_epsilon(predict, schedule)
    shape = place.fashion().shape
    return da.GaussianChain(lambda x, k: denoise(x, k).clamp(-1, 1), schedule, shape, device=place.device)


def image(
    place: Place, save: Callable[[list[Data]], None], limit: float = 210.0, samples: Path | None = None
) -> list[Data]:
    """Row by row, what matters most first."""
    many, some, few = (512, 384, 128) if place.real else (12, 8, 6)
    rows, chain = Rows(place, save, limit, samples), place.fashion()
    first, second = (sampled(place, chain, many, da.Sequential(), seed) for seed in (1, 2))
    rows.reference = torch.cat([first, second])
    rows.keep(0, second)
    alone = _timed(place, chain, da.Sequential(), 2)
    rows.add("one by one", "reference", first, reference=second, steps=chain.steps, **alone)
    for name, counts in STEPS.items():
        for steps in counts if place.real else counts[:2]:
            short = solver(place, SOLVERS[name](steps))
            drawn = sampled(place, short, 2 * many, da.Sequential(), 3)
            rows.add(name, "solver", drawn, steps=steps, **_timed(place, short, da.Sequential(), 3))
        place.forget()
    drawn = sampled(place, chain, some, da.Coupled(WINDOW // 4), 4)  # its law is that of any window
    rows.add("drawahead", "drawahead", drawn, steps=chain.steps, **_timed(place, chain, None, 6))
    for tolerance in TOLERANCES if place.real else TOLERANCES[:2]:
        if rows.left > 30:
            picard = da.Picard(tolerance, window=WINDOW)
            drawn = sampled(place, chain, few, picard, 5)
            more = {"steps": chain.steps, "tolerance": tolerance} | _timed(place, chain, picard, 4)
            rows.add("Picard", "picard", drawn, **more)
    place.forget()
    for tolerance in PARAREAL if place.real else PARAREAL[:2]:
        if rows.left > 40:
            parareal(rows, chain, tolerance, few // 2)
    return rows.rows


def _timed(place: Place, chain: da.GaussianChain, sampler: da.Sampler | None, seeds: int) -> Data:
    row = measured(place, chain, sampler, 1, place.seeds[:seeds])
    return {"ms": 1e3 * row["seconds"], "rounds": row["mean_rounds"], "sampler": row["sampler"]}


def parareal(rows: Rows, chain: da.GaussianChain, tolerance: float, number: int) -> None:
    """SRDS-type iteration on the chain's own steps: one image with captured sweeps, and some more for the distance."""
    place, plan = rows.place, chain.plan
    coefficients = (plan.a, plan.b, plan.s)

    def predict(x: Tensor, step: Tensor) -> Tensor:
        return chain.denoiser(x.unflatten(1, chain.shape), step).clamp(-1, 1).flatten(1)

    def made(count: int, captured: Callable[[Work], Work]) -> tuple[Parareal, Tensor]:
        size = math.prod(chain.shape)
        start, noise = (torch.randn(count, *part, size, device=place.device) for part in ((), (chain.steps,)))
        return Parareal(coefficients, predict, noise, captured=captured), start

    torch.manual_seed(6)
    with torch.no_grad():
        method, start = made(number, lambda work: work)
        found = method.draw(start, tolerance)
        iterations = float(found.iterations.double().mean())
        one, start = made(1, lambda work: _captured(place, work))
        seconds, taken = [], []
        for _ in range(4):
            start = torch.randn_like(start)  # the noise of the steps stays: it is in the captured sweeps
            began = place.now()
            taken.append(int(one.draw(start, tolerance).iterations[0]))
            seconds.append(place.now() - began)
    rows.add(
        "SRDS-type",
        "parareal",
        found.samples.unflatten(1, chain.shape),
        steps=chain.steps,
        tolerance=tolerance,
        ms=1e3 * statistics.median(seconds[1:]),
        rounds=method.rounds(iterations),
        pipelined=method.pipelined(iterations),
        queries=method.queries(iterations),
        taken=taken,
    )
    place.forget()


def _captured(place: Place, work: Work) -> Work:
    """Replays what it does, where there is a GPU."""
    if not place.real:
        return work
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
