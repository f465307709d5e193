"""What commands print. All of it passes here: it may hold text from outside, which a terminal must not obey."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

import typer

from drawahead.words import printable

if TYPE_CHECKING:
    from drawahead.report import Report

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
_LONGEST = 1200  # letters of a line on stderr
OnRound = Callable[["Report"], None] | None
"""What `sample(on_round=...)` takes."""


def say(*lines: str) -> None:
    """Print lines to stdout. Characters that would break a line in two or control the terminal are escaped."""
    typer.echo("\n".join(map(printable, lines)))


def say_json(values: Mapping[str, Any]) -> None:
    """Print plain values as one object, in ASCII alone."""
    typer.echo(json.dumps(values))


@final
class Stopped(Exception):
    """Ends a command, with a message and an exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def fail(message: str, status: int) -> int:
    """Say on stderr what went wrong, in one line of which the middle is left out if it is endless. -> the status."""
    line = printable(" ".join(message.split()))
    line = line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    print(f"drawahead: {line}", file=sys.stderr)  # noqa: T201
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


def usage(message: str) -> str:
    """The parser's message about an option or argument, in plain words."""
    for words, plain in _WORDS.items():
        message = message.replace(words, plain)
    return message


@contextmanager
def watching(quiet: bool = False) -> Iterator[Callable[[str, int], OnRound]]:
    """A progress line on stderr, gone when the work is done: a function of a label and a number of samples, which
    gives `sample` its `on_round`. Without a terminal it is silent and costs nothing."""
    from drawahead.show.progress import RunProgress, bar, visible
    from drawahead.show.progress import watching as shown

    if quiet or not visible(sys.stderr):
        yield lambda label, num_samples: None
        return
    with bar() as show:
        yield lambda label, num_samples: shown(
            None, lambda share, parts: show(share, [label, *parts]), RunProgress(num_samples)
        )
