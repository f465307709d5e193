"""The noise of drawahead's samples, for loops that are written as their authors write them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import drawahead as da
from tests import literal

SEED = 5
Loop = Callable[[Tensor, Callable[[], Tensor]], Tensor]
"""(the first state's noise (m, d), next noise) -> samples (m, d)."""


def first(count: int, size: int) -> Tensor:
    """The noise of first states (m, d)."""
    return _rows(count, literal.START, 0, size)


def steps(count: int, size: int, purpose: int = literal.VALUE) -> Callable[[], Tensor]:
    """Noise of step after step (m, d), whenever it is called."""
    state = iter(range(10**6))
    return lambda: _rows(count, purpose, next(state), size)


def _rows(count: int, purpose: int, step: int, size: int) -> Tensor:
    drawn = [torch.as_tensor(literal.Noise(SEED, i).normals(purpose, step, size)) for i in range(count)]
    return torch.stack(drawn)


def one_by_one(chain: da.Chain, count: int = 3) -> Tensor:
    """The samples of the same noise, one step at a time."""
    return da.sample(chain, count, sampler=da.Sequential(), seed=SEED).samples.flatten(1).double()


def ahead(chain: da.Chain, count: int, *, window: int = 8, seed: int = 1) -> da.Result:
    """Many samples, drawn ahead."""
    return da.sample(chain, count, sampler=da.Coupled(window), seed=seed, max_live=count)
