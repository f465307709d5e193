"""Chains of several lanes: reverse transition kernels, and an auto-regressive diffusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead import ardiffusion, rtk
from drawahead.schedules import OUExponential
from drawahead.targets import GaussianMixture
from studies.rtk.parallel import Case
from studies.rtk.ring import VARIANCE, Ring
from studies.speed.place import Place
from studies.speed.timing import Row, measured, said

ENTRIES = 50


class _RingScore:
    """The score of the ring of 18 Gaussians in 50 dimensions, on the device: as quick as a score can be."""

    def __init__(self, device: str) -> None:
        self.modes = Ring(2).modes.to(device)

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        signal = torch.exp(-t)[:, None]
        spread = (VARIANCE * torch.exp(-2 * t) - torch.expm1(-2 * t))[:, None]
        share = (signal / spread * (x[:, :2] @ self.modes.T)).softmax(1)
        centre = torch.nn.functional.pad(share @ self.modes, (0, x.shape[1] - 2))
        return (signal * centre - x) / spread


def kernels(place: Place) -> da.StackedChain:
    """Underdamped Langevin dynamics, 8 segments of 256 steps."""
    case = Case("ring", GaussianMixture(Ring(2).modes, VARIANCE), VARIANCE)
    return rtk.chain(
        rtk.learned(_RingScore(place.device), dtype=torch.float64),
        case.kernel(256 if place.real else 4),
        case.segments(),
        shape=(ENTRIES,),
        spread=VARIANCE**0.5,
        device=place.device,
    )


def parts(place: Place) -> da.StackedChain:
    """Four parts of a picture of 16 x 16 by a transformer with random weights, 256 steps per part."""
    config = ardiffusion.ModelConfig(
        ardiffusion.Parts((16, 16), (4, 1)),
        ardiffusion.TransformerEncoder(128, 2, 4),
        ardiffusion.TransformerDenoiser(tokens=4, width=128, layers=3, heads=4),
    )
    model = ardiffusion.ARModel(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.denoiser.last.weight.normal_(0.0, 0.05, generator=generator)  # a new model's answer nothing else than 0
    model = model.to(place.device, place.half).eval().requires_grad_(False)
    return ardiffusion.chain(model, OUExponential.even(256 if place.real else 6, first=5.0, last=1e-3))


_CHAINS = {"rtk": kernels, "ardiffusion": parts}


def stacked(results: dict[str, Any], place: Place, save: Callable[[], None]) -> None:
    """One sample, one step after another and ahead."""
    for name, make in _CHAINS.items():
        chain = make(place)
        row: Row = {"steps": chain.steps}
        for key, sampler in (("sequential", da.Sequential()), ("coupled", da.Coupled()), ("auto", None)):
            seeds = place.seeds[:2] if key == "sequential" else place.seeds
            row[key] = measured(place, chain, sampler, 1, seeds, warm_ups=3 if key == "auto" else 2)
            said(name, row[key])
        results.setdefault("stacked", {})[name] = row
        save()
