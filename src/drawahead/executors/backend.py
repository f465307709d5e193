"""What a pool asks of whatever starts its workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Died(Exception):
    """The worker is gone, and what it was doing with it."""


class Raised(Exception):
    """What the worker was told to do raised an error, `__cause__`."""


class Backend(Protocol):
    """Where workers come from. A worker and a task are whatever the backend makes of them."""

    def start(self) -> Any:
        """A new worker; it need not be running yet."""

    def build(self, worker: Any) -> Any:
        """Have a worker build its replica. -> a task whose result is what it says about it."""

    def evaluate(self, worker: Any, shard: Any) -> Any:
        """Have a worker evaluate a shard. -> a task with what came of it, and a remark about memory or none."""

    def heard(self, worker: Any) -> float:
        """When a busy worker was last known to get on, as `time.monotonic` has it; 0.0 if nobody asks."""

    def wait(self, tasks: Sequence[Any], seconds: float) -> list[Any]:
        """The tasks that have ended, one way or another; at least one unless so many seconds pass."""

    def result(self, task: Any) -> Any:
        """What an ended task returned; raises `Died` or `Raised`."""

    def stop(self, worker: Any) -> None:
        """End a worker at once, dead or alive."""

    def resources(self) -> str:
        """What there is to run workers on, in words."""
