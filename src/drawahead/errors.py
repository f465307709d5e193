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
    """A model returned something that is not a distribution (NaN, not normalised, wrong shape)."""


class SamplingError(DrawaheadError, RuntimeError):
    """Sampling stopped early. `result` holds every finished sample; `__cause__` says why it stopped."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during sampling. `result` holds every finished sample."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class JobError(DrawaheadError, RuntimeError):
    """A job stopped early. Finished shards are in `folder`, and the job can be resumed; `__cause__` says why it
    stopped.
    """

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder
