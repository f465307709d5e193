"""Figures. They need matplotlib, which the core does without: pip install 'drawahead[plots]'."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drawahead.errors import InputError
from drawahead.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

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
            end = f"{rounds} round{'s' * (rounds != 1)}" if committed[-1] == steps else f"stopped at {rounds} rounds"
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


def scaling(bench: Mapping[str, Any], path: str | Path) -> None:
    """Rounds against length on logarithmic axes, a panel for each target, from the data of the rounds benchmark.

    Samplers without pipelining are left to the tables; of the fixed order, `Block` is shown.
    """
    cells = [cell for cell in bench["measurements"] if cell["rounds"] is not None and _shown(cell)]
    targets = list(dict.fromkeys(cell["target"] for cell in cells))
    columns = min(4, len(targets))
    lines = -(-len(targets) // columns)
    with canvas(path, 3.1 * columns, 2.7 * lines + 0.8) as figure:
        grid: Any = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        panels: list[Axes] = list(grid.flat)
        for axes, target in zip(panels, targets, strict=False):
            _guides(axes, bench["sizes"])
            own = [cell for cell in cells if cell["target"] == target]
            for setting in dict.fromkeys((cell["sampler"], cell["order"]) for cell in own):
                _line(axes, [cell for cell in own if (cell["sampler"], cell["order"]) == setting])
            axes.set_title(target)
        for axes in panels[len(targets) :]:
            axes.set_visible(False)
        for axes in panels[-columns:]:
            axes.set_xlabel("length n")
        for axes in panels[::columns]:
            axes.set_ylabel("rounds a sample")
        handles = {text: line for axes in panels for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))


def images(samples: Tensor, path: str | Path) -> None:
    """Images (number, height, width), white on black, as a grid as square as their number allows."""
    columns = math.ceil(math.sqrt(len(samples)))
    lines = -(-len(samples) // columns)
    with canvas(path, 0.9 * columns + 0.1, 0.9 * lines + 0.1) as figure:
        grid: Any = figure.subplots(lines, columns, squeeze=False)
        for axes in grid.flat:
            axes.set_axis_off()
        for axes, image in zip(grid.flat, samples.tolist(), strict=False):
            axes.imshow(
                image, cmap="gray", vmin=-1, vmax=1, interpolation="bicubic"
            )  # coarse pixels are harder to read


def _shown(cell: Mapping[str, Any]) -> bool:
    if cell["order"] != "random":
        return bool(cell["sampler"] == "block")
    return "not pipelined" not in cell["sampler"]


def _guides(axes: Axes, sizes: Sequence[int]) -> None:
    """The powers of n to read slopes against."""
    low, high = min(sizes), max(sizes)
    for power, name in ((1, "n"), (2 / 3, "n$^{2/3}$"), (1 / 2, "n$^{1/2}$")):
        axes.plot([low, high], [low**power, high**power], color="#aaaaaa", linewidth=1, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            name, (high, high**power), xytext=(7, -3), textcoords="offset points", fontsize=8.5, color="#666666"
        )
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(sizes[::2], [str(n) for n in sizes[::2]])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")


def _line(axes: Axes, cells: Sequence[Mapping[str, Any]]) -> None:
    label, order = cells[0]["sampler"], cells[0]["order"]
    sampler, _, variant = label.partition(", ")
    colour, marker = style(sampler)
    if order != "random":
        (colour, marker), label = _OTHER, f"{label}, {order}"
    n, rounds = [cell["n"] for cell in cells], [cell["rounds"] for cell in cells]
    # Squares are larger: where Stepwise and Block agree, they show behind the triangles.
    size = 7.5 if marker == "s" else 5
    axes.plot(
        n,
        rounds,
        color=colour,
        marker=marker,
        markersize=size,
        linestyle="--" if variant else "-",
        linewidth=1.5,
        label=label,
    )
    cut = [(cell["n"], cell["rounds"]) for cell in cells if cell["status"] == "stopped"]
    if cut:  # only a lower bound: an open marker
        axes.plot(
            *zip(*cut, strict=True),
            marker,
            color=colour,
            markersize=size,
            markerfacecolor="white",
            label=f"{label}, at least",
        )


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
