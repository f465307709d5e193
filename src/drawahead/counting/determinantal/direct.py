"""Determinantal distributions by algorithms of their own: no rounds, no oracle, one sample after another.

Where the kernel or the graph is at hand and there is nothing to wait for, these are quicker than any sampler that asks
an oracle. They take no evidence.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from drawahead.counting.determinantal.kernels import Determinantal, SpanningTree
from drawahead.errors import InputError
from drawahead.randomness import Purpose, Stream, checked_seed
from drawahead.validate import whole

_PANEL = 32  # items that are drawn between two matrix products
_ELEMENTS = 1 << 22
_BLOCK = 1024  # steps of a walk whose noise is looked up together


def draw_directly(target: Determinantal, num_samples: int = 1, *, seed: int = 0) -> Tensor:
    """Samples (num_samples, n): spanning trees by Wilson's walks, others by a factorization of their kernel. A sample
    depends on the seed and its number alone."""
    if not isinstance(target, Determinantal):
        raise InputError(f"target must be a SpanningTree or a DPP, not {type(target).__name__}")
    streams = Stream.of_samples(checked_seed(seed), torch.arange(whole("num_samples", num_samples, 0)))
    if isinstance(target, SpanningTree):
        return _wilson(target, streams)
    largest = max(1, _ELEMENTS // target.length**2)
    parts = [_factorized(target.kernel, Stream(keys)) for keys in streams.keys.split(largest)]
    return torch.cat([torch.zeros(0, target.length, dtype=torch.int64), *parts])


def _factorized(kernel: Tensor, streams: Stream) -> Tensor:
    """Item by item, the factorization K = L D L^T changed where an item is out (Poulson, 2019); in panels."""
    r, n = len(streams.keys), len(kernel)
    uniform = streams.uniform(Purpose.VALUE, torch.arange(n).expand(r, n))
    factor = torch.zeros(r, n, n, dtype=torch.float64)  # row i: what is left of row i of the kernel when i is drawn
    pivot = torch.ones(r, n, dtype=torch.float64)
    drawn = torch.zeros(r, n, dtype=torch.int64)
    for low in range(0, n, _PANEL):
        high = min(low + _PANEL, n)
        before = factor[:, :low, low:]
        panel = kernel[low:high, low:] - (before[:, :, : high - low] / pivot[:, :low, None]).mT @ before
        for j in range(high - low):
            i, now = low + j, panel[:, j, j:]
            drawn[:, i] = uniform[:, i] < now[:, 0]
            pivot[:, i] = torch.where(drawn[:, i] == 1, now[:, 0], now[:, 0] - 1)
            factor[:, i, i:] = now
            panel[:, j + 1 :, j:] -= (now[:, 1 : high - i] / pivot[:, i, None])[..., None] * now[:, None]
    return drawn


def _wilson(target: SpanningTree, streams: Stream) -> Tensor:
    """Loop-erased random walks, each until it meets the tree (Wilson, 1996)."""
    number = {node: i for i, node in enumerate(target.graph)}
    exits: list[list[tuple[int, int]]] = [[] for _ in number]  # of every node: the other end, and the edge
    for edge, (u, v, *_) in enumerate(target.edges):
        exits[number[u]].append((number[v], edge))
        exits[number[v]].append((number[u], edge))
    weights = target.weights.tolist()
    chances = [list(itertools.accumulate(weights[edge] for _, edge in here)) for here in exits]
    samples = torch.zeros(len(streams.keys), target.length, dtype=torch.int64)
    for sample, keys in enumerate(streams.keys):
        samples[sample, _walked(exits, chances, _uniforms(Stream(keys[None])))] = 1
    return samples


def _walked(exits: list[list[tuple[int, int]]], chances: list[list[float]], uniforms: Iterator[float]) -> list[int]:
    """The edges of one tree."""
    onward, in_tree = [(0, 0)] * len(exits), [True, *[False] * (len(exits) - 1)]
    for start in range(1, len(exits)):
        node = start
        while not in_tree[node]:
            chance = chances[node]
            chosen = bisect.bisect_right(chance, next(uniforms) * chance[-1], hi=len(chance) - 1)
            onward[node] = exits[node][chosen]  # the last exit counts: loops are erased
            node = onward[node][0]
        node = start
        while not in_tree[node]:
            in_tree[node] = True
            node = onward[node][0]
    return [edge for _, edge in onward[1:]]


def _uniforms(stream: Stream) -> Iterator[float]:
    for block in itertools.count():
        yield from stream.uniform(Purpose.VALUE, torch.tensor([block]), size=_BLOCK)[0].tolist()
