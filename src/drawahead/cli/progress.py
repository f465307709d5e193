"""Progress of long work on stderr: shown on a terminal, silent anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from drawahead.report import Report

OnRound = Callable[[Report], None] | None
"""What `sample(on_round=...)` takes."""


class Watch:
    """Shows one task after another. Without a terminal every method does nothing and costs nothing."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, detail="") if progress else None

    def sampling(self, label: str, num_samples: int) -> OnRound:
        """Begin to show a call of `sample`."""
        if self._progress is None:
            return None
        self._begin(label, None)

        def on_round(report: Report) -> None:
            done = f"round {report.rounds}, {report.num_samples} of {num_samples} samples"
            self._update(total=num_samples * report.steps, completed=sum(report.committed), detail=done)

        return on_round

    def counting(self, label: str, done: int, total: int) -> None:
        """Show that `done` of `total` parts are finished, the last of them called `label`."""
        if self._progress is not None:
            self._begin(label, total)
            self._update(completed=done, detail=f"{done} of {total}")

    def _begin(self, label: str, total: int | None) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.reset(self._task, total=total, description=label, detail="")

    def _update(self, *, completed: int, detail: str, total: int | None = None) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=completed, total=total, detail=detail)


@contextmanager
def watching(quiet: bool = False) -> Iterator[Watch]:
    """A bar that is gone when the work is done, or a silent one."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Watch(None)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        yield Watch(progress)
