"""Two-sample tests of parallel against sequential draws."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead.verification.statistics import two_sample_kolmogorov
from studies.speed.place import Place


def same_law(place: Place, num: int) -> dict[str, Any]:
    """Two-sample tests of parallel against sequential draws, of other seeds."""
    found: dict[str, Any] = {}
    for name, window in (("fashion", 64), ("text", None)):
        target, options = place.make(name), {"max_live": 256} | place.options
        one = da.sample(target, num, sampler=da.Coupled(window), seed=21, **options).samples
        two = da.sample(target, num, sampler=da.Sequential(), seed=22, **options).samples
        if name == "fashion":
            found[name] = vectors(one.flatten(1).double(), two.flatten(1).double())
        else:
            found[name] = letters(one, two)
        found[name]["num_samples"] = num
        print(name, found[name], flush=True)
    return found


def vectors(one: Tensor, two: Tensor) -> dict[str, Any]:
    """Kolmogorov-Smirnov tests on the mean brightness, the contrast and 30 principal components of the images."""
    both = torch.cat([one, two])
    centred = both - both.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:30]
    features = torch.cat([both.mean(1, keepdim=True), both.std(1, keepdim=True), centred @ axes.T], dim=1)
    smallest = min(two_sample_kolmogorov(column[: len(one)], column[len(one) :]) for column in features.T)
    return {"tests": features.shape[1], "smallest_p": smallest, "p": min(1.0, smallest * features.shape[1])}


def letters(one: Tensor, two: Tensor, seed: int = 0) -> dict[str, Any]:
    """A permutation test on the mean counts of letters and of pairs of neighbouring letters, texts being whole."""
    size = da.networks.TextModel.vocab_size
    texts = torch.cat([one, two])
    single = torch.nn.functional.one_hot(texts, size).double().sum(1)
    pairs = torch.zeros(len(texts), size * size, dtype=torch.float64)
    pairs.scatter_add_(1, texts[:, :-1] * size + texts[:, 1:], torch.ones(len(texts), texts.shape[1] - 1).double())
    counts = torch.cat([single, pairs], dim=1)
    counts = counts[:, counts.sum(0) > 20]
    counts = (counts - counts.mean(0)) / counts.std(0)
    generator = torch.Generator().manual_seed(seed)
    groups = [torch.arange(len(texts)), *(torch.randperm(len(texts), generator=generator) for _ in range(999))]
    sign = torch.where(torch.stack(groups) < len(one), 1 / len(one), -1 / len(two)).double()  # (1000, texts)
    distance = (sign @ counts).square().sum(1)
    return {"features": counts.shape[1], "permutations": 999, "p": float((distance >= distance[0]).double().mean())}
