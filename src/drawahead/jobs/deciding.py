"""What decides the samples of a chain beside its model, as short texts that a manifest holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from drawahead.chains.chain import Chain, Worked

MOST = 100
"""Characters of such a text."""
_NOTHING = 1e-9  # what a number that is worked out is zero below, against the largest of its table


def digests(chain: Chain) -> dict[str, str]:
    """Of each thing that decides samples: a plain value as it is, a hash of tables; empty where there is none."""
    return {name: _text(value) for name, value in chain.deciding().items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Worked):
        return _hashed(_rounded(part) for part in _tables(value.numbers))
    if isinstance(value, Tensor):
        return _hashed([value])
    text = str(value)
    return text if len(text) <= MOST else hashlib.sha256(text.encode()).hexdigest()[:16]


def _hashed(tables: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for table in tables:
        digest.update(f"{table.dtype} {tuple(table.shape)}".encode())
        digest.update(table.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _tables(value: Any) -> Iterator[Tensor]:
    """All numbers in a plan, one table after another."""
    if isinstance(value, Tensor | float | int):
        yield torch.as_tensor(value)
    elif value is None:
        yield torch.empty(0)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tables(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tables(part)


def _rounded(table: Tensor) -> Tensor:
    """In single precision, so that the last digit of another machine does not count."""
    wide = table.detach().cpu().double()
    floor = _NOTHING * float(wide.nan_to_num(0.0, 0.0, 0.0).abs().max()) if wide.numel() else 0.0
    return torch.where(wide.abs() > floor, wide, 0.0).float()
