"""What a film is, as a page gets it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, final

from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class Reel:
    """How one sample was drawn."""

    number: int
    steps: int
    """Which is also the rounds it takes one by one."""
    progress: tuple[int, ...]
    """Steps that drawahead had committed after each round, from 0 on."""
    picture: dict[str, Any]
    """What is seen, as JSON."""


@final
@dataclass(frozen=True)
class Film:
    """How a few samples were drawn, ready for a page."""

    reels: tuple[Reel, ...]
    note: str = ""
    """What a viewer should know."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return asdict(self)
