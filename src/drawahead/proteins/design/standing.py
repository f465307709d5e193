"""How far a design job has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass
class Standing:
    """How far a job has come."""

    structures: int
    sequences: int
    done: int = 0
    """Structures finished or failed."""
    drawn: int = 0
    """Sequences finished."""
    rounds: int = 0
    seconds: float = 0.0
    earlier: int = 0
    """Structures that were finished before the job was resumed."""

    def parts(self) -> list[str]:
        """In words."""
        found = [f"{self.done}/{self.structures} structures", f"{self.drawn}/{self.sequences} sequences"]
        found.append(f"{self.rounds} rounds")
        new = self.done - self.earlier
        if new and self.done < self.structures:
            left = round(self.seconds / new * (self.structures - self.done))
            found.append(f"{left // 60}:{left % 60:02} left")
        return found

    @property
    def share(self) -> float:
        """Of the structures, those that are done."""
        return self.done / self.structures if self.structures else 0.0
