"""What a loop uses beside its state, over all its steps: the same at every step, or a table by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.diffusers.loops.comparing import equal

_FEW = 4


@final
@dataclass(frozen=True, eq=False)
class ByStep:
    """A value for each step: row index[k] of a table, which has one for each of its different values."""

    table: Tensor
    index: Tensor  # (N,)

    def __call__(self, k: Tensor) -> Tensor:
        return self.table[self.index[k]]


@final
class Seen:
    """The values of one argument, heard step by step; equal ones are kept once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.index: list[int] = []
        self._last: tuple[Any, int] = (self, 0)

    def add(self, value: Any) -> None:
        same = self._last[0] is value and self._last[1] == _version(value)
        self._last = value, _version(value)
        if not same or not self.index:
            near = [*range(len(self.values))[-1:], *range(min(_FEW, len(self.values)))]
            known = next((i for i in near if equal(self.values[i], value)), None)
            if known is None:
                known = len(self.values)
                self.values.append(value.clone() if isinstance(value, Tensor) else value)
            self.index.append(known)
        else:
            self.index.append(self.index[-1])

    def repeat(self) -> None:
        """The first step has what the second has: there it is not used."""
        self.index.insert(0, self.index[0])

    @property
    def few(self) -> bool:
        """Whether it has a few values that come again and again, rather than one for each step."""
        return 1 < len(self.values) <= _FEW and len(self.values) < len(self.index)

    def constant(self, device: torch.device) -> Any:
        """The value, or one by step; None if they cannot be in one table."""
        if len(self.values) == 1:
            return self.values[0]
        if all(isinstance(value, Tensor) for value in self.values):
            if len({(value.shape, value.dtype) for value in self.values}) == 1:
                return ByStep(torch.stack(self.values).to(device), torch.tensor(self.index, device=device))
        elif all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values):
            whole = all(isinstance(value, int) for value in self.values)
            table = torch.tensor(self.values, dtype=torch.int64 if whole else torch.float64, device=device)
            return ByStep(table, torch.tensor(self.index, device=device))
        return None


def _version(value: Any) -> int:
    return value._version if isinstance(value, Tensor) and not value.is_inference() else -1
