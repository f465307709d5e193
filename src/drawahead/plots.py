"""Figures. They need matplotlib, which the core does without: pip install 'drawahead[plots]'."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drawahead.errors import DrawaheadError
from drawahead.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart with any kind of colour vision; markers tell them apart without any.
_STYLES: dict[str, tuple[str, str]] = {
    "sequential": ("#555555", "o"),
    "recursive": ("#CC79A7", "D"),
    "stepwise": ("#E69F00", "s"),
    "block": ("#0072B2", "^"),
    "coupled": ("#009E73", "v"),
}
_OTHER = ("#D55E00", "P")
_LOOK = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "savefig.dpi": 160,
}


class PlotsError(DrawaheadError):
    """A figure was asked for without matplotlib."""


def check() -> None:
    """Raise at once, with an instruction, where no figure can be made."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotsError("figures need matplotlib: pip install 'drawahead[plots]'") from None


def progress(reports: Mapping[str, Report], path: str | Path, sample: int = 0) -> None:
    """Steps committed against rounds, for one sample drawn by each of the named samplers."""
    with _figure(path, 6.4, 4.0) as figure:
        axes = figure.add_subplot()
        steps = max(report.steps for report in reports.values())
        for name, report in reports.items():
            committed = report.progress[sample]
            colour, marker = _STYLES.get(name, _OTHER)
            rounds = len(committed) - 1
            axes.step(range(rounds + 1), committed, where="post", color=colour, linewidth=2, alpha=0.9)
            label = f"{name}, {rounds} round{'s' * (rounds != 1)}"
            axes.plot(range(rounds + 1), committed, marker, color=colour, markersize=5, label=label)
        axes.set(xlabel="rounds", ylabel="steps committed", ylim=(0, steps * 1.05), title="One sample, round by round")
        axes.set_xlim(left=0)
        axes.axhline(steps, color="#999999", linewidth=1, linestyle=(0, (4, 3)))
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(loc="lower right")
