"""How a command ends early: one line on stderr and an exit status."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from drawahead.words import printable

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""
_WORDS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "it must be a number",
    "Input should be greater than or equal to": "it must be at least",
    "Input should be less than or equal to": "it must be at most",
    "Input should be": "it must be",
    "Missing argument 'TARGET'.": "Which target? `drawahead targets` lists them; ising is one.",
    "Missing argument 'MODEL'.": "Which model? Give file.py:name for your own, or a name from `drawahead targets`.",
    "Missing argument 'DIR'.": "Which job? Give its folder; `drawahead sample NAME --out DIR` begins one.",
}


@final
class Stopped(Exception):
    """Ends a command, with a message and an exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def usage(message: str) -> str:
    """What is wrong with an option or an argument: the parser's words, made plain."""
    for words, plain in _WORDS.items():
        message = message.replace(words, plain)
    return message


def fail(message: str, status: int) -> int:
    """Say why on stderr, in one line. -> the exit status."""
    print(f"drawahead: {printable(' '.join(message.split()))}", file=sys.stderr)  # noqa: T201
    return status


@contextmanager
def warnings_told() -> Iterator[None]:
    """Say what the library warns of in a line each."""

    def tell(message: Warning | str, *_: object, **__: object) -> None:
        fail(str(message), 0)

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = tell
        yield
