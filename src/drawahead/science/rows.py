"""Several draws for each row of a condition."""

from __future__ import annotations

from typing import Any, TypeVar, final

import torch
from torch import Tensor

from drawahead.chains.affine import AffineChain
from drawahead.errors import InputError
from drawahead.oracles.condition import Conditions
from drawahead.validate import instance, whole

Kind = TypeVar("Kind", bound=AffineChain)


def repeated(chain: Kind, draws: int) -> Kind:
    """A chain with `draws` samples for each row of the condition: first those of row 0, then those of row 1, ...

    All of them share rounds. The condition is stored once; only the rows needed by a round are expanded.
    """
    instance("chain", chain, AffineChain, "a chain on vectors, such as a GaussianChain")
    draws, given = whole("draws", draws, 1), chain.condition
    counts = {name: len(table) for name, table in given.items() if len(table) > 1}
    if len({*counts.values()}) > 1:
        raise InputError(f"all tables of a condition must have as many rows, or one; these have {counts}")
    if not given:
        raise InputError("a chain without a condition needs no rows: draw as many samples as you want")
    rows = torch.arange(max(counts.values(), default=1), device=chain.device).repeat_interleave(draws)
    model = _Looked(getattr(chain, chain.noun), given)
    return chain.replace(**{chain.noun: model, "condition": {"row": rows}})


@final
class _Looked:
    """A model that looks its condition up."""

    def __init__(self, model: Any, given: Conditions) -> None:
        self.model, self.given = model, given
        self.passes = int(getattr(model, "passes", 1))

    def __call__(self, x: Tensor, k: Tensor, row: Tensor) -> Tensor:
        looked = {
            name: table[row] if len(table) > 1 else table.expand(len(row), *table.shape[1:])
            for name, table in self.given.items()
        }
        answer: Tensor = self.model(x, k, **looked)
        return answer
