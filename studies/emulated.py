"""An emulator of power spectra whose own sampler is a stochastic chain: the score network of py21cmemu 3.0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from studies.spectra import part_of
from studies.speed.place import SMALL, Place
from studies.speed.timing import measured, said
from studies.tables import table

SHAPE = (1, 32, 64)
Numbers = dict[str, Any]


def emulated(place: Place, package: Path, rows: list[Numbers], saved: Callable[[], None]) -> None:
    """Seconds of its Euler-Maruyama steps for one set of parameters: its own loop, captured single steps, and ahead."""
    network, process, sampler, score = _parts(place, package)
    theta = torch.rand(1, 12, generator=torch.Generator().manual_seed(0)).to(place.device)

    def scored(x: Tensor, t: Tensor, cdn: Tensor) -> Tensor:
        answer: Tensor = score(x, t, cdn=cdn)
        return answer

    schedule = da.science.EulerMaruyama(process)
    chain = da.adapters.from_score_sde(scored, schedule, SHAPE, condition={"cdn": theta}, device=place.device)
    for draws in (1, 16, 64) if place.real else (1,):
        row: Numbers = {"draws": draws}
        row["sequential"] = measured(place, chain, da.Sequential(), draws, place.seeds[:1])
        row["drawahead"] = measured(place, chain, None, draws, place.seeds[:2])
        if draws == 1:  # more come one after the other
            began = place.now()
            sampler(process, (1, *SHAPE), device=place.device).em_sampler(network, cdn=theta)
            row["own_seconds"] = place.now() - began
        for side in ("drawahead", "sequential"):
            said(f"py21cmemu, {draws} draws, {side}", row[side])
        rows.append(row)
        saved()


def shown(rows: list[Numbers]) -> str | None:
    """The table of the page; nothing before it was measured."""
    if not rows:
        return None
    lines = []
    for row in rows:
        one, ahead = row["sequential"]["seconds"], row["drawahead"]["seconds"]
        own = row["draws"] * rows[0]["own_seconds"]
        cells = [str(row["draws"]), f"{own:.1f}", f"{one:.2f}", f"{ahead:.2f}"]
        lines.append([*cells, f"{row['drawahead']['mean_rounds']:.1f}", f"{one / ahead:.1f}"])
    return table(["draws", "its own loop, s", "one by one, s", "drawahead, s", "rounds", "times faster"], lines)


def _parts(place: Place, package: Path) -> tuple[Any, Any, Any, Any]:
    """Network, process, its sampler's class and its score, without the package's `__init__`, which needs astropy."""
    model, sde, sampling, utils = (
        part_of(package, name) for name in ("models.mcg.score_model", "sde", "sample_pytorch", "model_utils")
    )
    network = model.UNet(dim=(32, 64), init_dim=48, channels=1, dim_mults=(1, 2, 4, 8, 16), cdn_len=12)
    weights = package / "models" / "mcg" / "score_model_weights.pt"  # float16 on disk, float32 in use
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network = network.to(place.device).eval().requires_grad_(False)
    process = sde.VPSDE(beta_min=0.1, beta_max=20.0, N=1000 if place.real else SMALL)
    return network, process, sampling.GetEMSampler, utils.get_score_fn(process, network, train=False, continuous=True)
