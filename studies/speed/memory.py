"""What a call in captured rounds adds to the weights, at most, by samples drawn together and window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.schedules import spaced
from studies.speed.place import Place
from studies.speed.timing import After, Row

PATCHES = 64


class Large(nn.Module):
    """A transformer on 64 patches; by default of a thousand million parameters."""

    def __init__(self, width: int = 2048, layers: int = 20) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(48, width), nn.Linear(width, 48)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        hidden = self.first(x.view(-1, PATCHES, 48)) + (k[:, None, None] / 1000).to(x.dtype)
        for layer in self.layers:
            hidden = layer(hidden)
        answer: Tensor = self.last(hidden)
        return answer.view_as(x)


def large(place: Place) -> da.GaussianChain:
    network = Large() if place.real else Large(64, 2)
    network = network.to(place.device, place.half).eval().requires_grad_(False)
    schedule = da.DDPM(timesteps=spaced(50, of=1000))
    return da.GaussianChain(network, schedule, (3, 32, 32), device=place.device, dtype=place.half)


def models(place: Place) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "image", place.fashion
    yield "text", lambda: da.TokenChain(place.text())
    if place.real:
        yield "emoji", lambda: da.networks.emoji("red apple", device=place.device, dtype=place.half)
    yield "1B", lambda: large(place)


def memory(place: Place) -> list[Row]:
    """A few rounds of each; on a CPU nothing is counted."""
    rows: list[Row] = []
    for name, make in models(place):
        chain = make()
        _added(place, chain, 1, 0)  # what libraries keep for themselves is there from now on
        for live, window in ((1, 0), (1, 8), (1, 64), (8, 0), (8, 8), (8, 64)):
            if (name, live, window) != ("1B", 8, 64):  # which takes half a minute
                rows.append(
                    {"model": name, "live": live, "window": window, "bytes": _added(place, chain, live, window)}
                )
                print("memory", rows[-1], flush=True)
        del chain
    return rows


def _added(place: Place, chain: Any, live: int, window: int) -> int:
    """The most bytes that a few rounds add to what is there."""
    place.forget()
    there = torch.cuda.memory_allocated() if place.real else 0
    if place.real:
        torch.cuda.reset_peak_memory_stats()
    with da.Runner(chain, da.Coupled(window) if window else da.Sequential(), graphs=True) as runner:
        runner.sample(live, seed=1, stop=After(3))
    return torch.cuda.max_memory_allocated() - there if place.real else 0
