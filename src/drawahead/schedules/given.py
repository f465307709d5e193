"""A schedule that is worked out elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from drawahead.errors import InputError, short
from drawahead.schedules.base import Plan, Schedule


@final
@dataclass(frozen=True, eq=False)
class Given(Schedule):
    """Coefficients given step by step, for chains that no other schedule here describes."""

    steps: Plan

    def __post_init__(self) -> None:
        if not isinstance(self.steps, Plan):
            raise InputError(f"steps must be a Plan, not {short(self.steps)}")

    def plan(self) -> Plan:
        return self.steps
