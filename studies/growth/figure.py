"""Rounds against the length, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drawahead.show import plots

Cell = Mapping[str, Any]


def scaling(data: Mapping[str, Any], path: Path) -> None:
    """Rounds against length on logarithmic axes, a panel for each target.

    Samplers without pipelining are left to the tables; of the fixed order, `Block` is shown.
    """
    cells = [cell for cell in data["measurements"] if cell["rounds"] is not None and _shown(cell)]
    targets = list(dict.fromkeys(cell["target"] for cell in cells))
    columns = min(4, len(targets))
    lines = -(-len(targets) // columns)
    with plots.canvas(path, 3.1 * columns, 2.7 * lines + 0.8) as figure:
        grid: Any = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        panels = list(grid.flat)
        for axes, target in zip(panels, targets, strict=False):
            _guides(axes, data["sizes"])
            own = [cell for cell in cells if cell["target"] == target]
            for sampler, order in dict.fromkeys((cell["sampler"], cell["order"]) for cell in own):
                line = [cell for cell in own if (cell["sampler"], cell["order"]) == (sampler, order)]
                if order == "random":
                    draw_line(axes, line, sampler)
                else:
                    draw_line(axes, line, f"{sampler}, {order}", "another", solid=True)
            axes.set_title(target)
        for axes in panels[len(targets) :]:
            axes.set_visible(False)
        for axes in panels[-columns:]:
            axes.set_xlabel("length n")
        for axes in panels[::columns]:
            axes.set_ylabel("rounds per sample")
        handles = {text: line for axes in panels for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))


def draw_line(axes: Any, cells: Sequence[Cell], label: str, look: str = "", *, solid: bool = False) -> None:
    """Rounds of one sampler, in the look of the sampler that the label begins with, or of another."""
    sampler, _, variant = label.partition(", ")
    colour, marker = plots.style(look or sampler)
    # Squares are larger: where Stepwise and Block agree, they show behind the triangles.
    size = 7.5 if marker == "s" else 5
    axes.plot(
        [cell["n"] for cell in cells],
        [cell["rounds"] for cell in cells],
        color=colour,
        marker=marker,
        markersize=size,
        linestyle="--" if variant and not solid else "-",
        linewidth=1.5,
        label=label,
    )
    cut = [(cell["n"], cell["rounds"]) for cell in cells if cell["status"] == "stopped"]
    if cut:  # only a lower bound: an open marker
        open_marker = {"color": colour, "markersize": size, "markerfacecolor": "white"}
        axes.plot(*zip(*cut, strict=True), marker, **open_marker, label=f"{label}, at least")


def log_axes(axes: Any, sizes: Sequence[int]) -> None:
    """Both logarithmic, with every other length for a tick."""
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(sizes[::2], [str(n) for n in sizes[::2]])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")


def _shown(cell: Cell) -> bool:
    if cell["order"] != "random":
        return bool(cell["sampler"] == "block")
    return "not pipelined" not in cell["sampler"]


def _guides(axes: Any, sizes: Sequence[int]) -> None:
    """The powers of n to read slopes against."""
    low, high = min(sizes), max(sizes)
    for power, name in ((1, "n"), (2 / 3, "n$^{2/3}$"), (1 / 2, "n$^{1/2}$")):
        axes.plot([low, high], [low**power, high**power], color="#aaaaaa", linewidth=1, linestyle=(0, (1, 2)), zorder=1)
        words = {"xytext": (7, -3), "textcoords": "offset points", "fontsize": 8.5, "color": "#666666"}
        axes.annotate(name, (high, high**power), **words)
    log_axes(axes, sizes)
