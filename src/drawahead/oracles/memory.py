"""What an oracle keeps of paths from round to round, so that what is committed need not be computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from drawahead.oracles.condition import Conditions
from drawahead.oracles.tokens import TokenOracle, with_condition

KEPT = "kept "
"""How the tensors of a memory are named among those of its paths."""
_SHARE = 4  # of the free memory there is, at most one part in so many
_ON_CPU = 2**31
_LITTLE = 2**26  # bytes that a GPU always has; to ask it takes time


@final
@dataclass(eq=False)
class Memory:
    """See `TokenOracle.remember`. Steps that are not committed may be in it: they are written over in time."""

    kept: dict[str, Tensor]  # (rows, ...) by name
    steps: Tensor  # (rows,) how many of each path's first steps are in it

    @staticmethod
    def of(
        oracle: TokenOracle, condition: Conditions, tokens: Tensor, rank: Tensor, *, always: bool = False
    ) -> Memory | None:
        """Of fresh paths (rows, n), with the rows of a condition; None where the oracle keeps nothing, or so much that
        it would not fit, unless it must."""
        first = {name: table[:1] for name, table in condition.items()}
        one = with_condition(oracle, first).remember(tokens[:1], rank[:1])
        size = sum(tensor.numel() * tensor.element_size() for tensor in one.values())
        if not one or not (always or _fits(size * len(tokens), tokens.device)):
            return None
        kept = with_condition(oracle, condition).remember(tokens, rank) if len(tokens) > 1 else one
        return Memory(kept, torch.zeros(len(tokens), dtype=torch.int64))

    def begin(self, oracle: TokenOracle, condition: Conditions, tokens: Tensor, rank: Tensor) -> None:
        """Make it that of other fresh paths."""
        for name, table in with_condition(oracle, condition).remember(tokens, rank).items():
            self.kept[name].copy_(table)

    def rows(self, start: int, stop: int) -> Memory:
        """Those of some paths: the same tensors, so that what is written here is written there."""
        return Memory({name: tensor[start:stop] for name, tensor in self.kept.items()}, self.steps[start:stop])

    def select(self, rows: Tensor) -> Memory:
        """A copy of these rows (m,), given on the CPU."""
        return Memory({name: tensor[rows.to(tensor.device)] for name, tensor in self.kept.items()}, self.steps[rows])

    def kept_before(self, prefix: Tensor) -> Tensor:
        """How many steps (rows,) are kept for good of paths whose first `prefix` (rows,) are committed: the last of
        these is not as it was guessed."""
        return torch.minimum(self.steps.to(prefix.device), (prefix - 1).clamp(min=0))

    def chain_rows(
        self, oracle: TokenOracle, path: tuple[Tensor, Tensor, Tensor], row: Tensor, prefix: Tensor, position: Tensor
    ) -> Tensor:
        """See `TokenOracle.chain_rows`, of cells (p,) on paths that go on from here; a path is as for `recalled`."""
        count = torch.bincount(row, minlength=len(path[0]))
        start = count.cumsum(0) - count
        column = torch.arange(int(count.max()), device=row.device)
        cell = start[:, None] + torch.minimum(column, count[:, None] - 1)  # a table: padding repeats a row's last cell
        needed = prefix[start + count - 1]
        first = self.kept_before(prefix[start])
        new = max(1, int((needed - first).max()))
        rows = recalled(oracle, self.kept, path, first, new, (prefix[cell], position[cell]))
        self.steps.copy_(needed)
        return rows[row, torch.arange(len(row), device=row.device) - start[row]]


def recalled(
    oracle: TokenOracle,
    kept: dict[str, Tensor],
    path: tuple[Tensor, Tensor, Tensor],
    first: Tensor,
    count: int,
    cells: tuple[Tensor, Tensor],
) -> Tensor:
    """The rows (r, c, q) of cells, prefixes and positions (r, c), on paths of which the steps before `first` (r,) are
    kept. The next `count` ones are computed and kept. A path is its tokens (r, n), order (r, n) and length (r,)."""
    tokens, order, length = path
    n = tokens.shape[1]
    step = first[:, None] + torch.arange(count, device=tokens.device)
    place = order.gather(1, step.clamp(max=n - 1))
    token = tokens.gather(1, place)
    return oracle.recalled_rows(kept, token, torch.where(step < length[:, None], place, n), step, *cells)


def _fits(size: int, device: torch.device) -> bool:
    if device.type != "cuda":
        return size <= _ON_CPU
    return size <= _LITTLE or size <= torch.cuda.mem_get_info(device)[0] // _SHARE
