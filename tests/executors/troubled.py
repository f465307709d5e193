"""Oracles with troubles of their own, and where tests of executors draw from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import drawahead as da
from drawahead.chains import Chain
from drawahead.oracles.tokens import TokenOracle, WrappedOracle

Trouble = Callable[[Tensor], None]


class Troubled(WrappedOracle):
    """An oracle to which something happens each time before it answers."""

    def __init__(self, oracle: TokenOracle, trouble: Trouble) -> None:
        super().__init__(oracle)
        self.trouble = trouble

    def rows(self, tokens: Tensor) -> Tensor:
        self.trouble(tokens)
        return self.oracle.rows(tokens)

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        self.trouble(tokens)
        return self.oracle.rows_at(tokens, context, position)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        self.trouble(tokens)
        return self.oracle.chain_rows(tokens, rank, row, prefix, position)


class Crowded:
    """Memory for so many sequences at a time and no more."""

    def __init__(self, room: int, error: Exception) -> None:
        self.room = room
        self.error = error
        self.sizes: list[int] = []

    def __call__(self, tokens: Tensor) -> None:
        self.sizes.append(len(tokens))
        if len(tokens) > self.room:
            raise self.error


class Ordered:
    """Troubles ordered from outside: a file in a folder is a trouble, which happens once, to whoever finds it first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.enough = folder.with_name("enough")
        """Whoever dawdles goes on when this is there."""

    def order(self, trouble: str) -> None:
        (self.folder / trouble).touch()

    def __call__(self, tokens: Tensor) -> None:
        for path in self.folder.iterdir():
            try:
                path.unlink()
            except FileNotFoundError:
                continue
            if path.name == "die":
                os._exit(1)
            if path.name == "dawdle":
                until = time.monotonic() + 600
                while not self.enough.exists() and time.monotonic() < until:
                    time.sleep(0.05)
            if path.name == "complain":
                raise ValueError("the model is in a mood")
            if path.name == "crowd" and len(tokens) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")


def small() -> TokenOracle:
    return da.targets.DenseLogistic(12, beta=1.5)


def cube() -> Chain:
    """Denoised entry by entry: the same numbers whatever the shape of the batch."""
    return da.GaussianChain(da.targets.Hypercube(6), da.StochasticLocalization(24, 1.0, 0.05))


def network(tokens: Tensor) -> Tensor:
    return torch.zeros(*tokens.shape, 3, dtype=torch.float64).log_softmax(-1)
