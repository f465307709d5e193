"""Chains whose state stacks several vectors (lanes) and whose steps mix them by small matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.affine import AffineChain
from drawahead.chains.chain import Worked
from drawahead.chains.lane_moves import LaneMoves
from drawahead.chains.stacked_plan import StackedPlan
from drawahead.errors import InputError
from drawahead.oracles.condition import Condition

StackedOracle = Callable[[Tensor, Tensor], Tensor]
"""(lanes (m, c, *shape), step (m,)) -> answers (m, *shape)."""


@final
class StackedChain(AffineChain):
    """Draws lanes of vectors by the steps of a plan.

    `oracle` is a callable `(lanes (m, c, *shape), step (m,)) -> answer (m, *shape)`; one call mixes steps freely.
    `start` fixes the first state, (c, *shape) or one for each sample, instead of the plan's `start`; a refresh before
    the first step still happens. `record` lists numbers of steps after which to keep the lanes, as the next step meets
    them: samples then have shape (num_samples, len(record) + 1, ...), the output last, and the plan's `final` makes
    every entry from its lanes. `dtype` is what the oracle is given and what samples come back as; laws are always
    worked out in float64.
    """

    noun: ClassVar[str] = "oracle"
    settings: ClassVar[tuple[str, ...]] = (
        *("oracle", "plan", "shape", "start", "record", "dtype", "device", "condition"),
    )

    def __init__(
        self,
        oracle: StackedOracle,
        plan: StackedPlan,
        shape: Sequence[int],
        *,
        start: Tensor | None = None,
        record: Sequence[int] = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
        condition: Condition = None,
    ) -> None:
        if not callable(oracle):
            raise InputError(f"an oracle must be a callable, not {type(oracle).__name__}")
        if not isinstance(plan, StackedPlan):
            raise InputError(f"plan must be a StackedPlan, not {type(plan).__name__}")
        self.oracle = oracle
        super().__init__(partial(LaneMoves, plan), shape, start, record, dtype, device, condition, torch.float64)
        self.built = True

    def deciding(self) -> dict[str, Any]:
        return super().deciding() | {"plan": Worked(self.plan)}
