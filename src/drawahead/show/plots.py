"""Figures. They need matplotlib, which the core does without: pip install 'drawahead[plots]'."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drawahead.errors import InputError
from drawahead.report import Report
from drawahead.show import summary
from drawahead.words import counted

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
    "picard": ("#56B4E9", "X"),
}
_OTHER = ("#D55E00", "P")
_LOOK: dict[Any, Any] = {
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
_MAIN, _LIGHT, _GREY = "#0b6e64", "#b4d8d1", "#8b9197"


def style(sampler: str) -> tuple[str, str]:
    """The colour and marker of a sampler, the same in every figure."""
    return _STYLES.get(sampler, _OTHER)


def check() -> None:
    """Raise at once, with an instruction, where no figure can be made."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'drawahead[plots]'") from None


def progress(
    reports: Mapping[str, Report], path: str | Path, *, sample: int = 0, title: str = "One sample, round by round"
) -> None:
    """Steps committed against rounds, for one sample drawn by each of the named samplers."""
    with canvas(path, 7.2, 3.8) as figure:
        axes = figure.add_subplot()
        steps = max(report.steps for report in reports.values())
        axes.axhline(steps, color="#999999", linewidth=1, linestyle=(0, (4, 3)))
        for name, report in reports.items():
            committed = report.progress[sample]
            rounds = len(committed) - 1
            colour, marker = style(name)
            # Markers show single rounds while there are few, then only where the sample ends.
            every = 1 if rounds <= 24 else [rounds]
            end = counted(rounds, "round") if committed[-1] == steps else f"stopped at {rounds} rounds"
            axes.plot(
                range(rounds + 1),
                committed,
                drawstyle="steps-post",
                color=colour,
                linewidth=1.8,
                marker=marker,
                markersize=5.5,
                markevery=every,
                clip_on=False,
                label=f"{name}: {end}",
            )
        axes.set(xlabel="rounds", ylabel="steps committed", ylim=(-steps * 0.03, steps * 1.04), title=title)
        axes.set_xlim(left=0)
        axes.locator_params(axis="both", integer=True)
        figure.legend(loc="outside right center")


@contextmanager
def canvas(path: str | Path | None, width: float, height: float) -> Iterator[Figure]:
    """A figure that is saved at the end, if it has a path. It is made without pyplot: no window, no global state."""
    check()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_LOOK):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        if path is not None:
            figure.savefig(path)


def of_report(report: Report, path: str | Path | None = None) -> Figure:
    """Which step was committed in which round; what each round asked, committed and kept; rounds of each sample."""
    with canvas(path, 9.0, 6.4) as figure:
        figure.suptitle(summary.headline(report), x=0.01, ha="left", fontsize=14, fontweight="bold")
        grid = figure.add_gridspec(2, 2, height_ratios=[3, 2])
        _speculation(figure.add_subplot(grid[0, :]), report)
        axes = figure.add_subplot(grid[1, 0])
        _rounds(axes, report)
        if report.drafted:
            halves = grid[1, 0].subgridspec(2, 1, height_ratios=[5, 2])
            axes.set_subplotspec(halves[0])
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
            _drafts(figure.add_subplot(halves[1], sharex=axes), report)
        _spread(figure.add_subplot(grid[1, 1]), report)
    return figure


def _speculation(axes: Axes, report: Report) -> None:
    axes.set(title="which round committed which steps", xlabel="steps", ylabel="round")
    traced = [(number, steps) for number, steps in report.progress.items() if len(steps) > 1]
    if not traced:
        _nothing(axes)
        return
    for _, steps in traced[1:]:
        axes.plot(steps, [i + 0.5 for i in range(len(steps))], color=_LIGHT, linewidth=1, zorder=1.5)
    number, steps = traced[0]
    rounds = len(steps) - 1
    stretches = list(pairwise(steps))
    axes.barh(
        range(1, rounds + 1),
        [b - a for a, b in stretches],
        left=[a for a, _ in stretches],
        height=0.8 if rounds < 100 else 1,
        color=_MAIN,
        zorder=2,
        label=f"sample {number}",
    )
    reached = min(rounds, report.steps)
    axes.plot([0, reached], [0.5, reached + 0.5], color=_GREY, linestyle=(0, (4, 3)), label="one by one")
    axes.set(xlim=(0, report.steps), ylim=(rounds + 0.5, 0.5))
    axes.locator_params(axis="y", integer=True)
    axes.legend(loc="upper right")


def _rounds(axes: Axes, report: Report) -> None:
    axes.set(title="queries and committed steps in each round", xlabel="round")
    if not report.widths:
        _nothing(axes)
        return
    edges = [0.5 + i for i in range(len(report.widths) + 1)]
    axes.stairs(report.widths, edges, fill=True, color=_LIGHT, label="queries")
    axes.stairs(report.committed, edges, fill=True, color=_MAIN, label="steps committed")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 1.3 * max(*report.widths, *report.committed))  # room for the legend
    axes.locator_params(integer=True)
    axes.legend(loc="upper right", ncols=2)


def _drafts(axes: Axes, report: Report) -> None:
    """The share of drafts that each round kept; no point where it had none to judge."""
    shares = [kept / drafts if drafts else math.nan for drafts, kept in zip(report.drafts, report.kept, strict=True)]
    marker = "." if len(shares) <= 100 else ","
    axes.plot(range(1, len(shares) + 1), shares, color=_MAIN, linewidth=1.2, marker=marker, clip_on=False)
    axes.set(xlabel="round", ylabel="kept", ylim=(0, 1))
    axes.set_yticks([0, 1], ["0%", "100%"])
    axes.locator_params(axis="x", integer=True)


def _spread(axes: Axes, report: Report) -> None:
    axes.set(title="rounds per sample", xlabel="rounds", ylabel="samples")
    if not report.sample_rounds:
        _nothing(axes)
        return
    spread = summary.spread(report.sample_rounds)
    low, size, counts = spread["low"], spread["size"], spread["counts"]
    axes.bar([low + size * i + (size - 1) / 2 for i in range(len(counts))], counts, 0.85 * size, color=_MAIN)
    axes.set_xlim(low - 0.5, low + size * len(counts) - 0.5)
    axes.axvline(spread["mean"], color="#1d2226", linestyle=(0, (2, 2)), linewidth=1.2)
    axes.locator_params(integer=True)
    axes.set_title(f"mean {spread['told']}", loc="right")


def _nothing(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, "nothing to show", ha="center", va="center", color=_GREY, transform=axes.transAxes)
