"""What a model is told about each sample beside its state: a prompt, a label, an observation.

A condition is a flat dictionary of tensors. Each has one row for every sample, or a single one for all of them; a model
is called with the rows that belong to what it is asked about, as keyword arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Never, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.values import refusal

Condition = Tensor | Mapping[str, Tensor] | None
Conditions = dict[str, Tensor]
CONDITION = "condition "
"""How the tables of a condition are named among a path's tensors."""


@final
class FrozenTables(dict[str, Tensor]):
    """The tables of a condition: a value, as the chain is that they belong to."""

    def _refuse(self, *arguments: Any, **options: Any) -> Never:
        raise refusal("condition", "chain.replace(condition=...)")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = _refuse
    pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[type[FrozenTables], tuple[Conditions]]:
        return FrozenTables, (dict(self),)


def checked(condition: Condition, device: torch.device) -> Conditions:
    """The condition as a dictionary; a single tensor is called `condition`."""
    if condition is None:
        return FrozenTables()
    named = {"condition": condition} if isinstance(condition, Tensor) else condition
    for name, table in named.items():
        where = f"condition[{name!r}]"
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"{where}: names must be those of the model's keyword arguments")
        if not isinstance(table, Tensor):
            raise InputError(f"{where} must be a tensor with a row for each sample, not {type(table).__name__}")
        if not table.dim() or not len(table):
            raise InputError(
                f"{where} must have a row for each sample, or one for all: its shape is {tuple(table.shape)}"
            )
        if table.device != device and (table.device.type, table.device.index or 0) != (device.type, device.index or 0):
            raise InputError(f"{where} is on {table.device}, but the model is asked on {device}: move it there")
    return FrozenTables(named)


def check_rows(condition: Conditions, num_samples: int) -> None:
    """Refuse a condition that has no row for some sample."""
    for name, table in condition.items():
        if 1 != len(table) < num_samples:
            raise InputError(
                f"condition[{name!r}] has {len(table)} rows, but {num_samples} samples are asked for: give one row for "
                "each sample, a single one for all, or draw several of each row by da.science.repeated(chain, draws)"
            )


def of_samples(condition: Conditions, samples: Tensor) -> Conditions:
    """The rows of these samples (m,)."""
    return {
        name: table.expand(len(samples), *table.shape[1:]) if len(table) == 1 else table[samples.to(table.device)]
        for name, table in condition.items()
    }


def of_rows(condition: Conditions, rows: Tensor) -> Conditions:
    """Rows (m,) of tables that have one for each path."""
    return {name: table[rows.to(table.device)] for name, table in condition.items()}


def on_cpu(condition: Conditions) -> Conditions:
    """The same tables, on the CPU."""
    return {name: table.cpu() for name, table in condition.items()}


def fingerprint(condition: Conditions) -> str:
    """A hash of names, types and numbers; empty if there is no condition."""
    if not condition:
        return ""
    digest = hashlib.sha256()
    for name, table in sorted(condition.items()):
        digest.update(f"{name} {table.dtype} {tuple(table.shape)}".encode())
        digest.update(table.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
