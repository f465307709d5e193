"""What a network is told beside a state and a time, taken apart into rows of samples and put together again.

A condition of a chain is a flat dictionary of tensors. Networks are told dictionaries in dictionaries, lists, flags:
`Told` keeps the form, and names what has a row for each sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError

Rows = dict[str, Tensor]


@final
@dataclass(frozen=True)
class _Leaf:
    """Stands where a tensor with rows was."""

    name: str


@final
@dataclass(frozen=True, eq=False)
class Told:
    """The form of keyword arguments, for `passes` runs of the network in one batch."""

    form: Any
    passes: int = 1

    @staticmethod
    def apart(arguments: Mapping[str, Any]) -> tuple[Told, Rows]:
        """The form of what a network is told, and its tensors, which have rows, by name."""
        rows: Rows = {}

        def visit(name: str, value: Any) -> Any:
            if isinstance(value, Tensor) and value.dim():
                if name in rows:
                    raise InputError(f"condition has two entries that are called {name!r}: rename one of them")
                rows[name] = value
                return _Leaf(name)
            if isinstance(value, Mapping):
                return {key: visit(f"{name}__{key}" if name else str(key), entry) for key, entry in value.items()}
            if isinstance(value, list | tuple):
                return type(value)([visit(f"{name}__{i}", entry) for i, entry in enumerate(value)])
            return value

        return Told(visit("", arguments)), rows

    def together(self, rows: Rows) -> dict[str, Any]:
        """The arguments for states in a batch, all of the first pass, then all of the second."""

        def build(value: Any) -> Any:
            if isinstance(value, _Leaf):
                return torch.cat([rows[name] for name in of_passes(value.name, self.passes)])
            if isinstance(value, dict):
                return {key: build(entry) for key, entry in value.items()}
            if isinstance(value, list | tuple):
                return type(value)([build(entry) for entry in value])
            return value

        built: dict[str, Any] = build(self.form)
        return built


def of_passes(name: str, passes: int) -> list[str]:
    """The names of a tensor's rows in each pass."""
    return [name] if passes == 1 else [f"{name}__pass{i}" for i in range(passes)]
