"""Every error drawahead raises on purpose. Each message names the input at fault and says what to do."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drawahead.sample import Result


class DrawaheadError(Exception):
    """Base class: catch this to catch every error drawahead raises on purpose."""


class InputError(DrawaheadError, ValueError):
    """An argument has the wrong shape, value or type."""


def whole(name: str, value: object, least: int | None = None) -> int:
    """`value` as an integer, or an InputError that names it."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # arrays have __index__, too, and fail only now
        number = None
    if number is None or isinstance(value, bool):
        raise InputError(f"{name} must be a whole number, not {short(value)}")
    if least is not None and number < least:
        raise InputError(f"{name} must be at least {least}, not {short(number)}")
    return number


def short(value: object) -> str:
    """A value in a message, on one line however long it is."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 80 else shown[:77] + "..."


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
