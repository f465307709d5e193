"""One sample of each model in every way that people draw it: a plain loop, captured, compiled, and by drawahead.

A plain loop is what most people write: the model, a step, the next call, as PyTorch runs it. Captured is the best that
one step after another can be: `Sequential`, every step one CUDA graph, with what is committed kept where the model can.
Compiled is the same through `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from studies.speed.place import Part, Place, Setting
from studies.speed.timing import measured, said

WAYS = ("plain loop", "captured", "captured, compiled", "drawahead", "drawahead, compiled")


@dataclass(frozen=True)
class Model:
    """What is drawn from: its loop, and its chain."""

    loop: Callable[[], Tensor] | None
    chain: Any


def image(place: Place) -> Model:
    chain = place.fashion()
    steps = torch.stack([chain.plan.a, chain.plan.b, chain.plan.s]).T.tolist()

    def loop() -> Tensor:
        x = torch.randn(1, *chain.shape, device=place.device)
        for k, (a, b, s) in enumerate(steps):
            x = a * x + b * chain.denoiser(x, torch.tensor([k], device=place.device)).float() + s * torch.randn_like(x)
        return x

    return Model(loop, chain)


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
    return Model(tokens(place, chain), chain)


def emoji(place: Place, steps: int) -> Model:
    """A picture from words, guided; nobody writes another loop for it than that of an image."""
    return Model(None, da.networks.emoji("red apple", steps=steps, device=place.device, dtype=place.half))


MODELS: dict[str, Callable[[Place], Model]] = {
    "image": image,
    "text": text,
    "emoji 1000": partial(emoji, steps=1000),
    "emoji 250": partial(emoji, steps=250),
}


def captured(*names: str, compiled: bool) -> Part:
    """These models one by one in captured rounds, and by drawahead."""

    def part(results: dict[str, Any], setting: Setting, save: Callable[[], None]) -> None:
        place = setting.place
        for name in names if place.real else ():  # a CPU takes minutes to compile
            chain = MODELS[name](place).chain
            chain = chain.compiled() if compiled else chain
            for way, sampler in (("drawahead", None), ("captured", da.Sequential())):
                seeds = place.seeds[:2] if sampler else place.seeds
                found = measured(place, chain, sampler, 1, seeds, warm_ups=3, alone=sampler is None)
                label = f"{way}, compiled" if compiled else way
                said(f"{name}, {label}", found)
                results.setdefault("ways", {}).setdefault(name, {})[label] = found
                save()
            del chain
            place.forget()

    return part


def loops(results: dict[str, Any], setting: Setting, save: Callable[[], None]) -> None:
    """Plain loops, each once, after a few steps to warm up."""
    place = setting.place
    for name, make in MODELS.items():
        model = make(place) if place.real or name in ("image", "text") else None
        if model is not None and model.loop is not None:
            with torch.no_grad():
                began = place.now()
                model.loop()
                row = {"seconds": place.now() - began}
            print(name, "plain loop", row, flush=True)
            results.setdefault("ways", {}).setdefault(name, {})["plain loop"] = row
            save()
