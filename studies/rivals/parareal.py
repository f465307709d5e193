"""Parareal iteration, as in SRDS (Selvam, Merchant, Ermon, arXiv 2412.08292), on a chain whose noise is drawn once.

The steps are cut into blocks. A coarse sweep goes through the blocks one by one, one query each, with the prediction
held for the whole block; fine sweeps take all steps of all blocks, side by side; and each further coarse sweep corrects
what the fine one found. It ends when the sample moves by less than a tolerance, so it is not exact. Sweeps read and
write buffers that stay where they are, so that they can be captured. SRDS solves an ODE; here the noise is part of the
steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

Predict = Callable[[Tensor, Tensor], Tensor]
Work = Callable[[], None]


@dataclass(frozen=True)
class Found:
    """Samples (n, d) and the iterations that each took (n,)."""

    samples: Tensor
    iterations: Tensor


class Parareal:
    """The steps a, b, s (N,) with noise (n, N, d), in blocks; `captured` may turn a sweep into one that is replayed."""

    def __init__(
        self,
        coefficients: tuple[Tensor, Tensor, Tensor],
        predict: Predict,
        noise: Tensor,
        blocks: int | None = None,
        captured: Callable[[Work], Work] = lambda work: work,
    ) -> None:
        self.a, self.b, self.s = (part.to(noise) for part in coefficients)
        self.predict, self.noise = predict, noise
        steps = len(self.a)
        self.blocks = blocks or round(math.sqrt(steps))
        edges = [steps * j // self.blocks for j in range(self.blocks + 1)]
        self.longest = max(after - here for here, after in pairwise(edges))
        self.edges = torch.tensor(edges, device=noise.device)
        self._held(edges)
        shape = (len(noise), self.blocks + 1, *noise.shape[2:])
        self.states = noise.new_zeros(shape)
        self.fine, self.coarse = (noise.new_zeros(shape)[:, :-1].contiguous() for _ in range(2))
        self.refine, self.sweep = captured(self._refine), captured(self._sweep)

    def draw(self, start: Tensor, tolerance: float) -> Found:
        """From start (n, d) to samples that moved by at most `tolerance` (mean absolute) in their last iteration."""
        for buffer in (self.states, self.fine, self.coarse):
            buffer.zero_()
        self.states[:, 0] = start
        self.sweep()
        samples = self.states[:, -1].clone()
        iterations = torch.zeros(len(start), dtype=torch.int64, device=start.device)
        for iteration in range(1, self.blocks + 1):
            going = iterations == 0
            self.refine()
            self.sweep()
            new = self.states[:, -1]
            done = going & ((new - samples).abs().mean(1) <= tolerance)
            samples = torch.where(going[:, None], new, samples)
            iterations = torch.where(done, iteration, iterations)
            if bool((iterations > 0).all()):
                break
        return Found(samples, torch.where(iterations == 0, self.blocks, iterations))

    def rounds(self, iterations: float) -> float:
        """Calls that wait for each other, sweep after sweep."""
        return self.blocks + iterations * (self.longest + self.blocks)

    def pipelined(self, iterations: float) -> float:
        """The same where a block goes on as soon as what it needs is there."""
        return self.blocks + iterations * (self.longest - 1)

    def queries(self, iterations: float) -> float:
        """Blocks that can change no more are not asked again."""
        settled = (iterations - 1) * iterations / 2
        return self.blocks + iterations * (len(self.a) + self.blocks) - settled * len(self.a) / self.blocks

    def _held(self, edges: list[int]) -> None:
        """What a block does to a state where its first prediction is held: x' = keep x + add m + rest."""
        keep, add, rest = [], [], []
        for here, after in pairwise(edges):
            later = torch.cat([self.a[here:after].flip(0).cumprod(0).flip(0)[1:], self.a.new_ones(1)])
            keep.append(self.a[here:after].prod())
            add.append((later * self.b[here:after]).sum())
            rest.append(torch.einsum("k,nkd->nd", later * self.s[here:after], self.noise[:, here:after]))
        self.keep, self.add, self.rest = torch.stack(keep), torch.stack(add), torch.stack(rest, 1)

    def _sweep(self) -> None:
        for j in range(self.blocks):
            x = self.states[:, j]
            m = self.predict(x, self.edges[j].expand(len(x))).to(x.dtype)
            held = self.keep[j] * x + self.add[j] * m + self.rest[:, j]
            self.states[:, j + 1] = held + (self.fine[:, j] - self.coarse[:, j])
            self.coarse[:, j] = held

    def _refine(self) -> None:
        x = self.states[:, :-1].clone()
        rows = len(x)
        for i in range(self.longest):
            step = (self.edges[:-1] + i).clamp(max=len(self.a) - 1)
            asked = step.expand(rows, -1).flatten()
            m = self.predict(x.flatten(0, 1), asked).to(x.dtype).view_as(x)
            a, b, s = (part[step][None, :, None] for part in (self.a, self.b, self.s))
            inside = (self.edges[:-1] + i < self.edges[1:])[None, :, None]
            x = torch.where(inside, a * x + b * m + s * self.noise[:, step], x)
        self.fine.copy_(x)
