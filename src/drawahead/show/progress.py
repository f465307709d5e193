"""How far a run has come, in a line that is rewritten a few times a second."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TextIO

from drawahead.report import Report
from drawahead.words import printable

EVERY = 0.1  # seconds between two looks
_SETTLED = 3.0  # seconds before which no time left is told, unless a sample is finished: first rounds commit little
_CELLS = 20


@dataclass(frozen=True)
class RunProgress:
    """How far a call of `sample`, or a job of many, has come."""

    num_samples: int
    """Samples asked for."""
    done: int = 0
    """Samples finished."""
    steps: int = 0
    """The most steps a sample takes."""
    committed: int = 0
    """Steps committed."""
    rounds: int = 0
    queries: int = 0
    seconds: float = 0.0
    earlier: int = 0
    """Steps of `committed` that were not drawn in these seconds, but before."""

    def plus(self, report: Report) -> RunProgress:
        """Where a job stands whose call under way has come this far."""
        return replace(
            self,
            done=self.done + report.num_samples,
            steps=report.steps,
            committed=self.committed + sum(report.committed),
            rounds=self.rounds + report.rounds,
            queries=self.queries + report.queries,
            seconds=self.seconds + report.seconds,
        )

    @property
    def share(self) -> float:
        """Of all steps, those committed."""
        return self.committed / (self.num_samples * self.steps) if self.steps else 0.0

    def parts(self) -> list[str]:
        """In words."""
        rate = (self.committed - self.earlier) / self.seconds if self.seconds else 0.0
        parts = [
            f"{self.done}/{self.num_samples} samples",
            f"steps {self.share:.0%}" + (f" ({_short(rate)}/s)" if rate else ""),
            f"round {self.rounds}",
            f"{_short(self.queries)} queries",
        ]
        if rate and (self.done or self.seconds > _SETTLED):
            parts.append(f"{clock((self.num_samples * self.steps - self.committed) / rate)} left")
        return parts


Show = Callable[[float, list[str]], None]
"""Shows the share of the work that is done, and words about it."""


@contextmanager
def bar(stream: TextIO | None = None) -> Iterator[Show]:
    """A line on stderr; what it gives may be called as often as there is something new.

    It is shown on a terminal and in a notebook. Where output goes to a file or a pipe, as in continuous integration,
    nothing is written. The line is gone when the work is done, or is interrupted.
    """
    to = sys.stderr if stream is None else stream
    if not visible(to):
        yield lambda share, parts: None
        return

    def show(share: float, parts: list[str]) -> None:
        to.write("\r" + line(share, parts, shutil.get_terminal_size().columns - 1) + "\x1b[K")
        to.flush()

    try:
        yield show
    finally:
        to.write("\r\x1b[K")
        to.flush()


def line(share: float, parts: list[str], width: int) -> str:
    """The parts, as many as fit, the first and the last before those between; and a bar, if there is room for one."""
    while len(", ".join(parts)) > width and len(parts) > 2:
        parts = [*parts[:-2], parts[-1]]
    text = printable(", ".join(parts))
    cells = min(_CELLS, width - len(text) - 3)
    full = round(cells * min(1.0, share))
    return f"[{'#' * full}{'.' * (cells - full)}] {text}" if cells >= 4 else text[:width]


def visible(stream: TextIO) -> bool:
    """Whether somebody watches this stream: it is a terminal, or a notebook's."""
    return bool(getattr(stream, "isatty", bool)()) or type(stream).__module__.startswith("ipykernel")


def watching(
    on_round: Callable[[Report], None] | None, show: Show | None, before: RunProgress
) -> Callable[[Report], None] | None:
    """What `on_round` does in every round, and showing where it stands now and then: reading a report costs time."""
    if show is None:
        return on_round
    show(before.share, before.parts())
    last = time.perf_counter()

    def watch(report: Report) -> None:
        nonlocal last
        if time.perf_counter() - last >= EVERY:
            here = before.plus(report)
            show(here.share, here.parts())
            last = time.perf_counter()
        if on_round is not None:
            on_round(report)

    return watch


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            unit = 1e3 if letter == "k" else size
            return f"{number / unit:.1f}{letter}"
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
