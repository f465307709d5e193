"""How far the arithmetic of a network moves the law that is drawn from."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from studies.speed.place import Place


def numerics(place: Place) -> dict[str, Any]:
    return {
        name: {"text": numerics_of_text(place, half), "fashion": numerics_of_fashion(place, half)}
        for name, half in (("bfloat16", torch.bfloat16), ("float16", torch.float16))
    }


def numerics_of_text(place: Place, half: torch.dtype, num: int = 16) -> dict[str, float]:
    """How far half precision, and another batch shape, move the rows of the text model along paths it draws."""
    models = {"float32": place.text(torch.float32), "half": place.text(half)}
    full = models["float32"]
    drawn = da.sample(full, num, sampler=da.Coupled(), seed=5).samples.to(place.device)
    rank = torch.rand(num, full.length, device=place.device).argsort(1).argsort(1)
    position = torch.arange(full.length, device=place.device).expand(num, -1)

    def rows(model: Any, start: int, stop: int) -> Tensor:
        return model.path_rows(drawn[start:stop], rank[start:stop], rank[start:stop], position[start:stop]).double()

    def distance(one: Tensor, two: Tensor) -> Tensor:
        return (one.exp() - two.exp()).abs().sum(-1) / 2  # (num, n)

    together = {name: rows(model, 0, num) for name, model in models.items()}
    alone = {name: torch.cat([rows(model, i, i + 1) for i in range(num)]) for name, model in models.items()}
    equal = {
        name: da.sample(model, num, sampler=da.Coupled(), seed=6).samples
        == da.sample(model, num, sampler=da.Sequential(), seed=6).samples
        for name, model in models.items()
    }
    moved = distance(together["float32"], together["half"])
    kl = (together["float32"].exp() * (together["float32"] - together["half"])).sum((-1, -2))  # (num,) a whole text
    return {
        "tv_a_step": float(moved.mean()),
        "most_tv_a_step": float(moved.max()),
        "kl_a_sample": float(kl.mean()),
        "tv_a_sample_at_most": min(1.0, float((kl.mean().clamp(min=0) / 2).sqrt())),
        "tv_a_step_batch_shape": float(distance(together["half"], alone["half"]).mean()),
        "tv_a_step_batch_shape_float32": float(distance(together["float32"], alone["float32"]).mean()),
        "tokens_equal_to_sequential": float(equal["half"].float().mean()),
        "tokens_equal_to_sequential_float32": float(equal["float32"].float().mean()),
    }


def numerics_of_fashion(place: Place, half: torch.dtype, num: int = 4) -> dict[str, float]:
    """The same for the image model: the distance of the means in standard deviations, step by step along paths."""
    full, other = place.fashion(torch.float32), place.fashion(half)
    every = tuple(range(1, full.steps, 9))
    recording = da.GaussianChain(other.denoiser, full.schedule, full.shape, record=every, device=place.device)
    states = da.sample(recording, num, sampler=da.Coupled(96), seed=5, graphs=False).samples[:, :-1].to(place.device)
    k = torch.tensor(every, device=place.device).repeat(num)
    flat = states.flatten(0, 1)

    def means(chain: da.GaussianChain, size: int) -> Tensor:
        with torch.no_grad():
            parts = [chain.denoiser(x, i) for x, i in zip(flat.split(size), k.split(size), strict=True)]
        return chain.schedule.adjust(torch.cat(parts).flatten(1).double()) * chain.plan.b[k][:, None]

    def kl(one: Tensor, two: Tensor) -> float:
        """Over all steps of a path: half the squared distance, summed (the recorded steps stand for all)."""
        scale = full.plan.s[k]
        delta = (one - two).norm(dim=1)[scale > 0] / scale[scale > 0]
        return float((delta**2 / 2).sum() / num * full.steps / len(every))

    moved = kl(means(full, 64), means(other, 64))
    return {
        "kl_a_sample": moved,
        "tv_a_sample_at_most": min(1.0, math.sqrt(moved / 2)),
        "kl_a_sample_batch_shape": kl(means(other, 64), means(other, 1)),
        "kl_a_sample_batch_shape_float32": kl(means(full, 64), means(full, 1)),
    }
