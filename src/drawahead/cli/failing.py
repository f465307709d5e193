"""How a command ends early: one line on stderr and an exit status."""

from __future__ import annotations

import sys
from typing import final

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""


@final
class Stopped(Exception):
    """Ends a command, with a message and an exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def fail(message: str, status: int) -> int:
    """Say why on stderr, in one line. -> the exit status."""
    print(f"drawahead: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return status
