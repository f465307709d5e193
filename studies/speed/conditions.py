"""A diffusion that is told something about each sample: does another condition need other captured rounds?"""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.schedules import spaced
from studies.speed.place import SMALL, Place
from studies.speed.timing import Row
from studies.speed.watching import watched

ENTRIES, CLASSES, SAMPLES = 64, 10, 8


class _Denoiser(nn.Module):
    """A few dense layers on a state, its step and a class."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.step, self.label = nn.Embedding(steps, ENTRIES), nn.Embedding(CLASSES, ENTRIES)
        layers = [nn.Linear(ENTRIES, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, ENTRIES)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor, k: Tensor, label: Tensor) -> Tensor:
        told = self.step(k) + self.label(label)
        answer: Tensor = self.layers(x.to(told.dtype) + told)
        return answer.tanh().float()


def conditions(place: Place) -> Row:
    """Eight samples, each of a class of its own, call after call with other classes."""
    steps = 1000 if place.real else SMALL
    torch.manual_seed(0)
    network = _Denoiser(steps).to(place.device, place.half).eval().requires_grad_(False)
    schedule = da.DDPM() if place.real else da.DDPM(timesteps=spaced(SMALL, of=1000))
    chain = da.GaussianChain(network, schedule, (ENTRIES,), device=place.device, condition={"label": _labels(place, 0)})
    runner = da.Runner(chain, da.Coupled(64), **place.options)
    calls: list[dict[str, Any]] = []
    used: list[Any] = []  # the batches, in which graphs are kept

    def call(how: str, drawn: da.GaussianChain, seed: int) -> None:
        with watched() as found:
            began = place.now()
            report = runner.using(chain=drawn).sample(SAMPLES, seed=seed).report
            seconds = place.now() - began
        batch = found.rounds[0][0]
        known = any(batch is other for other in used)
        used.append(batch)
        numbers = {"captures": found.captures, "rounds": report.rounds, "graphs_kept": known}
        calls.append({"how": how, "seconds": seconds, **numbers})

    call("the first", chain, 100)
    for i, seed in enumerate((101, 102, 103)):  # shapes that the first had no use for
        call("warm-up", chain, seed)
        chain = chain.replace(condition={"label": _labels(place, i)})
    for i, seed in enumerate((101, 102, 103)):
        chain = chain.replace(condition={"label": _labels(place, i + 1)})
        call("another condition", chain, seed)
    call("another chain", chain.replace(condition={"label": _labels(place, 9)}), 101)
    for one in calls:
        print("condition", one, flush=True)
    others = [one for one in calls if one["how"] == "another condition"]
    return {
        "samples": SAMPLES,
        "steps": chain.steps,
        "first": calls[0],
        "another": {
            "seconds": statistics.median(one["seconds"] for one in others),
            "captures": sum(one["captures"] for one in others),
            "rounds": statistics.fmean(one["rounds"] for one in others),
            "graphs_kept": all(one["graphs_kept"] for one in others),
        },
        "replaced": calls[-1],
    }


def _labels(place: Place, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(CLASSES, (SAMPLES,), generator=generator).to(place.device)
