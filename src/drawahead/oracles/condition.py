"""What is fixed of a sample before it is drawn: the condition of its model, evidence, and the order of its positions.

A condition is a flat dictionary of tensors. Each has one row for every sample, or a single one for all of them; a model
is called with the rows that belong to what it is asked about, as keyword arguments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Never, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.validate import short
from drawahead.values import refusal

Condition = Tensor | Mapping[str, Tensor] | None
Conditions = dict[str, Tensor]
Order = Tensor | Sequence[int] | str | None
"""A permutation (n,), or one for each sample (num_samples, n); "spread"; or None, a random one for each sample."""
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
            raise InputError(f"{where} is on {table.device}, but the model runs on {device}: move it there")
    return FrozenTables(named)


def check_rows(condition: Conditions, num_samples: int, **more: Tensor | None) -> None:
    """Refuse a condition, or a table by another name, that has no row for some sample."""
    for name, table in ({f"condition[{name!r}]": table for name, table in condition.items()} | more).items():
        if table is not None and 1 != len(table) < num_samples:
            raise InputError(
                f"{name} has {len(table)} rows, but num_samples is {num_samples}: give one row for each sample, "
                "a single one for all, or draw several of each row by da.science.repeated(chain, draws)"
            )


def rows_of(table: Tensor, samples: Tensor) -> Tensor:
    """The rows of these samples (m,), of a table with one row for each or one for all."""
    return table.expand(len(samples), *table.shape[1:]) if len(table) == 1 else table[samples.to(table.device)]


def of_samples(condition: Conditions, samples: Tensor) -> Conditions:
    """The rows of these samples (m,)."""
    return {name: rows_of(table, samples) for name, table in condition.items()}


def of_rows(condition: Conditions, rows: Tensor) -> Conditions:
    """Rows (m,) of tables that have one for each path."""
    return {name: table[rows.to(table.device)] for name, table in condition.items()}


def on_device(condition: Conditions, device: torch.device | str) -> Conditions:
    """The same tables, there."""
    return {name: table.to(device) for name, table in condition.items()}


def joined(conditions: Sequence[Conditions]) -> Conditions:
    """The rows of one after another."""
    return {name: torch.cat([condition[name] for condition in conditions]) for name in conditions[0]}


def fingerprint(condition: Conditions) -> str:
    """A hash of names, types and numbers; empty if there is no condition."""
    if not condition:
        return ""
    digest = hashlib.sha256()
    for name, table in sorted(condition.items()):
        digest.update(f"{name} {table.dtype} {tuple(table.shape)}".encode())
        digest.update(table.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def checked_order(order: Order, length: int) -> Tensor | str | None:
    """An order of `length` positions, or one for each sample."""
    if isinstance(order, str) and order != "spread":
        raise InputError(f'order must be "spread", a permutation or one for each sample, not {order!r}')
    if order is None or isinstance(order, str):
        return order
    table = _integers("order", order, length)
    if not bool((table.sort(-1).values == torch.arange(length)).all()):
        raise InputError(f"order must be a permutation of 0 ... {length - 1} (in every row)")
    return table


def checked_evidence(evidence: Any, oracle: TokenOracle) -> Tensor:
    """Known tokens (n,), or those of each sample, `HIDDEN` elsewhere; refused where they are impossible."""
    table, q = _integers("evidence", evidence, oracle.length), oracle.vocab_size
    bad = ((table < 0) & (table != HIDDEN)) | (table >= q)
    if bool(bad.any()):
        at = tuple(bad.nonzero()[0].tolist())
        raise InputError(
            f"evidence{list(at)} is {int(table[at])}: known tokens must be 0 ... {q - 1}, hidden positions {HIDDEN}"
        )
    possible = getattr(oracle, "possible", None)
    if possible is not None:
        rows = possible(table.view(-1, oracle.length).to(oracle.device)).cpu()
        if not bool(rows.all()):
            raise InputError(f"evidence row {int((~rows).nonzero()[0, 0])} has probability zero under the target")
    return table


def checked_numbers(numbers: Any) -> Tensor:
    """The numbers (num_samples,) by which each sample's noise is looked up."""
    if not isinstance(numbers, Tensor) or numbers.dim() != 1 or numbers.dtype != torch.int64:
        raise InputError(f"numbers must be a tensor of whole numbers (num_samples,), not {short(numbers)}")
    return numbers.cpu()


def _integers(name: str, value: Any, n: int) -> Tensor:
    try:
        table = torch.as_tensor(value).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be integers, (n,) or (num_samples, n): {error}") from None
    whole_numbers = not (table.is_floating_point() or table.is_complex() or table.dtype == torch.bool)
    if not whole_numbers or table.dim() not in (1, 2) or table.shape[-1] != n:
        raise InputError(
            f"{name} must be integers of shape ({n},) or (num_samples, {n}), not {table.dtype} {tuple(table.shape)}"
        )
    return table.to(torch.int64)
