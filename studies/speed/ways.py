"""One sample of each model in every way that people draw it: a plain loop, captured, compiled, and by drawahead.

A plain loop is what most people write: the model, a step, the next call, as PyTorch runs it. Captured is the best that
one step after another can be: `Sequential`, every step one CUDA graph, with what is committed kept where the model can.
Compiled is the same through `torch.compile`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from studies.speed.place import Place, Setting
from studies.speed.timing import Row, measured, said

WAYS = ("plain loop", "captured", "captured, compiled", "drawahead", "drawahead, compiled")
LOOPS = 2  # plain loops that are timed


@dataclass(frozen=True)
class Model:
    """What is drawn from: its loop, and chains that differ only in how its weights lie in memory."""

    loop: Callable[[], Tensor] | None
    chains: Mapping[str, Any]


def image(place: Place) -> Model:
    layouts = {"plain": torch.contiguous_format, "channels last": torch.channels_last}
    chains = {name: place.fashion(memory_format=layout) for name, layout in layouts.items()}
    chain = chains["plain"]
    steps = torch.stack([chain.plan.a, chain.plan.b, chain.plan.s]).T.tolist()

    def loop() -> Tensor:
        x = torch.randn(1, *chain.shape, device=place.device)
        for k, (a, b, s) in enumerate(steps):
            x = a * x + b * chain.denoiser(x, torch.tensor([k], device=place.device)).float() + s * torch.randn_like(x)
        return x

    return Model(loop, chains)


def tokens(place: Place, chain: da.TokenChain) -> Callable[[], Tensor]:
    """One token after another, in a random order: the whole sequence through the model for each."""
    oracle = chain.oracle
    evidence = chain.evidence

    def loop() -> Tensor:
        start = torch.full((oracle.length,), da.HIDDEN) if evidence is None else evidence.reshape(-1, oracle.length)[0]
        text = start.to(place.device).clone()
        hidden = (text == da.HIDDEN).nonzero()[:, 0]
        for position in hidden[torch.randperm(len(hidden), device=place.device)].tolist():
            text[position] = torch.multinomial(oracle.rows(text[None])[0, position].exp(), 1)[0]
        return text

    return loop


def text(place: Place) -> Model:
    chain = da.TokenChain(place.text())
    return Model(tokens(place, chain), {"plain": chain})


def emoji(place: Place, steps: int) -> Model:
    """A picture from words, guided; nobody writes another loop for it than that of an image."""
    return Model(None, {"plain": da.networks.emoji("red apple", steps=steps, device=place.device, dtype=place.half)})


def ways(results: dict[str, Any], setting: Setting, save: Callable[[], None]) -> None:
    """All of them, model by model; of several layouts the fastest counts, way by way."""
    place = setting.place
    makers: dict[str, Callable[[], Model]] = {"image": lambda: image(place), "text": lambda: text(place)}
    if place.real:
        makers |= {f"emoji {steps}": partial(emoji, place, steps) for steps in (1000, 250)}
    for name, make in makers.items():
        model = make()
        row: dict[str, Row] = {} if model.loop is None else {"plain loop": looped(place, model.loop)}
        print(name, {way: one["seconds"] for way, one in row.items()}, flush=True)
        results.setdefault("ways", {})[name] = row
        for compiled in (False, True) if place.real else (False,):  # a CPU takes minutes to compile
            for layout, plain in model.chains.items():
                chain = plain.compiled() if compiled else plain
                for way, sampler in (("captured", da.Sequential()), ("drawahead", None)):
                    label = f"{way}, compiled" if compiled else way
                    seeds = place.seeds[:3] if sampler else place.seeds
                    found = measured(place, chain, sampler, 1, seeds, warm_ups=3, alone=sampler is None)
                    said(f"{name}, {label}, {layout}", found)
                    if label not in row or found["seconds"] < row[label]["seconds"]:
                        row[label] = {"layout": layout} | found
                    save()
        place.forget()


def looped(place: Place, loop: Callable[[], Tensor]) -> Row:
    """Seconds of a loop, after one to warm up."""
    seconds = []
    with torch.no_grad():
        for _ in range(1 + LOOPS):
            began = place.now()
            loop()
            seconds.append(place.now() - began)
    return {"seconds": statistics.median(seconds[1:]), "all_seconds": seconds[1:], "first": seconds[0]}
