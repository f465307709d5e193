"""Queries as plain arrays, to be sent to another process. Their oracle is never among what is sent."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.rounds.threads import Query


@final
@dataclass(frozen=True, eq=False)
class Packed:
    """A query without its oracle."""

    kind: type[Query]
    contents: dict[str, Any]

    @classmethod
    def of(cls, query: Query) -> Packed:
        return cls(type(query), {name: _packed(getattr(query, name)) for name in _names(type(query)) - {"oracle"}})

    def unpacked(self, oracle: object) -> Query:
        """The query, for this oracle, on its device."""
        contents = {name: _unpacked(value, oracle) for name, value in self.contents.items()}
        if "oracle" in _names(self.kind):
            contents["oracle"] = oracle
        return self.kind(**contents).on(oracle)


def _names(kind: Any) -> set[str]:
    if not is_dataclass(kind):
        raise InputError(f"a {kind.__name__} cannot be sent: draw with Local() as the executor")
    return {field.name for field in fields(kind)}


def _packed(value: object) -> object:
    if isinstance(value, Tensor):
        if value.dtype == torch.bfloat16:
            return value.clone()  # numpy has none
        return value.numpy()  # of a slice this is only the slice; of a tensor it would be all that it is a slice of
    if isinstance(value, dict):
        return {name: _packed(entry) for name, entry in value.items()}
    return Packed.of(value) if isinstance(value, Query) else value


def _unpacked(value: object, oracle: object) -> object:
    if isinstance(value, np.ndarray):
        return torch.tensor(value)  # its own: what comes in cannot be written to
    if isinstance(value, dict):
        return {name: _unpacked(entry, oracle) for name, entry in value.items()}
    return value.unpacked(oracle) if isinstance(value, Packed) else value
