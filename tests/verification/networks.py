"""Small networks in any dtype, whose answers depend on the shape of a batch as those of large ones do."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import drawahead as da
from drawahead import TokenOracle

LENGTH, VOCABULARY, WIDTH = 8, 5, 48


class Transformer(TokenOracle):
    """A masked language model of two blocks. `leak` of its answers is the mean over the batch."""

    length, vocab_size = LENGTH, VOCABULARY

    def __init__(self, dtype: torch.dtype, *, leak: float = 0.0, split: bool = False) -> None:
        generator = torch.Generator().manual_seed(0)

        def weights(*shape: int) -> Tensor:
            return (torch.randn(shape, generator=generator) / math.sqrt(shape[0])).to(dtype)

        self.dtype, self.leak, self.split = dtype, leak, split
        self.embedding = 3 * weights(VOCABULARY + 1, WIDTH)
        self.place = 3 * weights(LENGTH, WIDTH)
        self.blocks = [[weights(WIDTH, 3 * WIDTH), weights(WIDTH, 4 * WIDTH), weights(4 * WIDTH, WIDTH)] for _ in "ab"]
        self.head = 2 * weights(WIDTH, VOCABULARY)

    def rows(self, tokens: Tensor) -> Tensor:
        shown = torch.where(tokens == da.HIDDEN, VOCABULARY, tokens)
        x = self.embedding[shown] + self.place
        for attend, widen, narrow in self.blocks:
            query, key, value = self._times(x, attend).chunk(3, dim=-1)
            x = x + torch.softmax(query @ key.mT / math.sqrt(WIDTH), dim=-1) @ value
            x = x + self._times(torch.relu(self._times(x, widen)), narrow)
            x = x / x.float().square().mean(-1, keepdim=True).sqrt().to(self.dtype)
        rows = self._times(x, self.head).float().softmax(-1)
        return ((1 - self.leak) * rows + self.leak * rows.mean(0)).log()

    def _times(self, x: Tensor, weights: Tensor) -> Tensor:
        """The product; where `split`, in as many parts as a kernel might take for batches of this size."""
        if not self.split:
            return x @ weights
        parts = {1: 4, 2: 3, 3: 2}.get(len(x), 1)
        size = -(-weights.shape[0] // parts)
        products = [a @ b for a, b in zip(x.split(size, dim=-1), weights.split(size), strict=True)]
        total = products[0]
        for product in products[1:]:
            total = total + product  # rounded to the dtype every time
        return total


def denoiser(dtype: torch.dtype, *, leak: float = 0.0) -> da.GaussianChain:
    """A network of three layers that denoises vectors; `leak` of its answers is the mean over the batch."""
    generator = torch.Generator().manual_seed(0)
    layers = [torch.randn(size, generator=generator).to(dtype) for size in ((6, 64), (64, 64), (64, 6))]

    def model(x: Tensor, k: Tensor) -> Tensor:
        h = x.to(dtype)
        for layer in layers[:-1]:
            h = torch.tanh(h @ layer / math.sqrt(layer.shape[0]))
        answer = (h @ layers[-1] / 4).float()
        return (1 - leak) * answer + leak * answer.mean(0)

    return da.GaussianChain(model, da.DDPM(da.schedules.linear_betas(20, 0.01, 0.3)), (6,), dtype=torch.float32)
