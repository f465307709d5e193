"""A small left-to-right model whose every answer depends on all tokens before it, with and without a cache."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from drawahead import CausalOracle

SIZE = 6
BEGIN, OTHER = 3, 4
"""Tokens of a prompt that are never drawn."""


class Toy(CausalOracle):
    """Sums what was said before, fading with distance; counts its calls and the tokens it reads."""

    vocab_size = 3

    def __init__(self, cached: bool = True, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        table, place, out = ((5, SIZE), (64, SIZE), (SIZE, 3))
        self.table, self.place, self.out = (
            torch.randn(shape, generator=generator, dtype=torch.float64) for shape in (table, place, out)
        )
        self.cached, self.calls, self.read = cached, 0, 0

    def rows(self, tokens: Tensor, first: int, **condition: Tensor) -> Tensor:
        self.calls, self.read = self.calls + 1, self.read + tokens.numel()
        position = torch.arange(tokens.shape[1]).expand_as(tokens)
        return self._laws(self.table[tokens], position, **condition)[:, first:]

    def cache(self, rows: int, length: int) -> dict[str, Tensor]:
        return {"content": torch.zeros(rows, length, SIZE, dtype=torch.float64)} if self.cached else {}

    def extend(self, cache: dict[str, Tensor], tokens: Tensor, position: Tensor, **condition: Tensor) -> Tensor:
        self.calls, self.read = self.calls + 1, self.read + tokens.numel()
        cache["content"].scatter_(1, position[..., None].expand(-1, -1, SIZE), self.table[tokens])
        return self._laws(cache["content"], position, **condition)

    def _laws(self, content: Tensor, position: Tensor, shift: Tensor | None = None) -> Tensor:
        distance = position[..., None] - torch.arange(content.shape[1])
        weight = torch.where(distance >= 0, torch.exp(-distance.double() / 3), 0.0)
        hidden = torch.tanh(weight @ content + 0.3 * self.place[position])
        logits = 1.5 * hidden @ self.out
        return (logits if shift is None else logits + shift[:, None]).log_softmax(-1)


class NotRolledBack(Toy):
    """Broken: a guess that was rejected stays in the cache, and is seen."""

    def extend(self, cache: dict[str, Tensor], tokens: Tensor, position: Tensor, **condition: Tensor) -> Tensor:
        content = cache["content"]
        empty = (content == 0).all(-1).gather(1, position)[..., None]
        index = position[..., None].expand(-1, -1, SIZE)
        content.scatter_(1, index, torch.where(empty, self.table[tokens], content.gather(1, index)))
        return self._laws(content, position, **condition)


def law(model: Toy, prompt: list[int], length: int, end: int | None = None, **condition: Any) -> dict[Any, float]:
    """The probability of every sample, -1 behind its end, by the chain rule."""
    found: dict[Any, float] = {}
    for sample in itertools.product(range(3), repeat=length):
        chance, drawn = 1.0, []
        for token in sample:
            rows = model.rows(torch.tensor([[*prompt, *drawn]]), 0, **condition)
            chance *= float(rows[0, -1, token].exp())
            drawn.append(token)
            if token == end:
                break
        found[(*drawn, *[-1] * (length - len(drawn)))] = chance
    return found
