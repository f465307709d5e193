"""A schedule that is worked out elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from drawahead.schedules.base import Plan, Schedule


@final
@dataclass(frozen=True, eq=False)
class Given(Schedule):
    """Coefficients given step by step, for chains that no other schedule here describes."""

    steps: Plan

    def plan(self) -> Plan:
        return self.steps
