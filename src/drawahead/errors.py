"""Every error drawahead raises on purpose. Each message names the input at fault and says what to do."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drawahead.rounds.run import Result


class DrawaheadError(Exception):
    """Base class: catch this to catch every error drawahead raises on purpose."""


class InputError(DrawaheadError, ValueError):
    """An argument has the wrong shape, value or type."""


class FrozenError(InputError, FrozenInstanceError):
    """Something tried to change a value; the message says how to make another."""


class AnswerError(DrawaheadError, ValueError):
    """An oracle answered with something that is not a law (NaN, unnormalised, wrong shape)."""


class SamplingError(DrawaheadError, RuntimeError):
    """Sampling stopped early. `result` holds every sample that was finished before; `__cause__` says why."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while samples were drawn. `result` holds every sample that was finished before."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class JobError(DrawaheadError, RuntimeError):
    """A job stopped early. What is finished is in `folder`, and resuming goes on from there; `__cause__` says why."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder
