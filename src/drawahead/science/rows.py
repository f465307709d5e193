"""Several draws for each row of a condition; and tables that lie on the device of the rows."""

from __future__ import annotations

from typing import Any, TypeVar, final

import torch
from torch import Tensor

from drawahead.chains.affine import AffineChain
from drawahead.errors import InputError
from drawahead.oracles.condition import Conditions
from drawahead.validate import whole

Kind = TypeVar("Kind", bound=AffineChain)


def repeated(chain: Kind, draws: int) -> Kind:
    """A chain with `draws` samples for each row of the condition: first those of row 0, then those of row 1, ...

    All of them share rounds. The condition is stored once; only the rows needed by a round are expanded.
    """
    draws, tables = whole("draws", draws, 1), chain.condition
    counts = {name: len(table) for name, table in tables.items() if len(table) > 1}
    if len({*counts.values()}) > 1:
        raise InputError(f"all tables of a condition must have as many rows, or one; these have {counts}")
    if not tables:
        raise InputError("a chain without a condition needs no rows: draw as many samples as you want")
    rows = torch.arange(max(counts.values(), default=1), device=chain.device).repeat_interleave(draws)
    model = _Looked(getattr(chain, chain.noun), tables)
    return chain.replace(**{chain.noun: model, "condition": {"row": rows}})


@final
class _Looked:
    """A model that looks its condition up."""

    def __init__(self, model: Any, tables: Conditions) -> None:
        self.model, self.tables = model, tables
        self.passes = int(getattr(model, "passes", 1))

    def __call__(self, x: Tensor, k: Tensor, row: Tensor) -> Tensor:
        condition = {
            name: table[row] if len(table) > 1 else table.expand(len(row), *table.shape[1:])
            for name, table in self.tables.items()
        }
        answer: Tensor = self.model(x, k, **condition)
        return answer


@final
class Tables(dict[torch.device, tuple[Tensor, ...]]):
    """Tables on each device where they are used: copied there once, not with every call."""

    def __init__(self, *tables: Tensor) -> None:
        self.tables = tables

    def captured_parts(self) -> dict[str, object]:
        """The parts that a captured round depends on: not the devices that have copies so far."""
        return {"tables": self.tables}

    def __missing__(self, device: torch.device) -> tuple[Tensor, ...]:
        self[device] = tuple(table.to(device) for table in self.tables)
        return self[device]
