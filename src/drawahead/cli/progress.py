"""Progress of commands that do one thing after another: a line on stderr, shown on a terminal, silent anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

from drawahead.report import Report
from drawahead.show.progress import Show, Standing, bar, visible
from drawahead.show.progress import watching as shown

OnRound = Callable[[Report], None] | None
"""What `sample(on_round=...)` takes."""


@final
class Watch:
    """Shows one task after another. Without a terminal every method does nothing and costs nothing."""

    def __init__(self, show: Show | None) -> None:
        self._show = show

    def sampling(self, label: str, num_samples: int) -> OnRound:
        """Begin to show a call of `sample`."""
        show = self._show
        if show is None:
            return None
        return shown(None, lambda share, parts: show(share, [label, *parts]), Standing(num_samples))


@contextmanager
def watching(quiet: bool = False) -> Iterator[Watch]:
    """A line that is gone when the work is done, or silence."""
    if quiet or not visible(sys.stderr):
        yield Watch(None)
        return
    with bar() as show:
        yield Watch(show)
