"""A schedule that is worked out elsewhere."""

from __future__ import annotations

from typing import final

from torch import Tensor

from drawahead.errors import InputError
from drawahead.schedules.base import Plan, Schedule
from drawahead.schedules.spread import Spread
from drawahead.validate import as_float64, number, short
from drawahead.values import dataclass


@final
@dataclass(frozen=True, eq=False, repr=False)
class Given(Schedule):
    """Coefficients given step by step, for chains that no other schedule here describes."""

    steps: Plan

    def __post_init__(self) -> None:
        if not isinstance(self.steps, Plan):
            raise InputError(f"steps must be a Plan, not {short(self.steps)}")
        count = as_float64("a", self.steps.a).numel()
        for name, size in (("a", 0), ("b", 0), ("s", 0), ("time", 0), ("signal", 1), ("noise", 1)):
            given = getattr(self.steps, name)
            if not isinstance(given, Tensor) or given.shape != (count + size,) or not bool(given.isfinite().all()):
                raise InputError(f"{name} of a plan must be a tensor of {count + size} finite numbers")
        c, spread = self.steps.c, self.steps.spread
        if spread is not None and not isinstance(spread, Spread):
            raise InputError(f"spread of a plan must be a LearnedVariance() or a LearnedRange, not {short(spread)}")
        if c is not None and not isinstance(c, Tensor):
            raise InputError(f"c of a plan must be a tensor of {count} finite numbers, not {short(c)}")
        if c is not None and (c.shape != (count,) or not bool(c.isfinite().all()) or bool(c[:1].any())):
            raise InputError(f"c of a plan must be a tensor of {count} finite numbers, the first of them 0")
        if not count or bool((self.steps.s < 0).any()):
            raise InputError("a plan must have at least one step, and no s below 0")
        number("start", self.steps.start, least=0)
        number("final", self.steps.final)

    def plan(self) -> Plan:
        return self.steps
