"""A report as a matplotlib figure: what its page shows, for paper and notebooks."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from drawahead import plots
from drawahead.pages import summary
from drawahead.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAIN, _LIGHT, _GREY = "#0b6e64", "#b4d8d1", "#8b9197"


def report_figure(report: Report, path: str | Path | None = None) -> Figure:
    """Which step was committed in which round; what each round asked, committed and kept; rounds of each sample."""
    with plots.canvas(path, 9.0, 6.4) as figure:
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
    low, high = min(report.sample_rounds), max(report.sample_rounds)
    edges = [low - 0.5 + i * max(1, (high - low + 1) / 40) for i in range(min(high - low + 1, 40) + 1)]
    axes.hist(report.sample_rounds, bins=edges, color=_MAIN, rwidth=0.85)
    axes.axvline(report.mean_rounds, color="#1d2226", linestyle=(0, (2, 2)), linewidth=1.2)
    axes.locator_params(integer=True)
    axes.set_title(f"mean {summary.short(report.mean_rounds)}", loc="right")


def _nothing(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, "nothing to show", ha="center", va="center", color=_GREY, transform=axes.transAxes)
