"""What is known of samples before they are drawn, and in which order the rest is: checks of what users give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.validate import short

Order = Tensor | Sequence[int] | str | None
"""A permutation (n,), or one for each sample (num_samples, n); "spread"; or None, a random one for each sample."""


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
