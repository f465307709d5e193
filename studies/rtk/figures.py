"""The figures of the RTK page, from its data."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drawahead.show import plots
from studies.rtk.scaling import DIMENSION, EPSILON, THEORY

# Okabe and Ito's colours, told apart with any kind of colour vision; markers tell them apart without any.
STYLES: dict[str, tuple[str, str]] = {
    "DDPM": ("#555555", "o"),
    "ODE": ("#E69F00", "s"),
    "DPOM": ("#CC79A7", "D"),
    "DPUM": ("#8C564B", "p"),
    "RTK-ULA": ("#56B4E9", "X"),
    "RTK-ULD": ("#0072B2", "^"),
    "RTK-MALA": ("#D55E00", "v"),
    "RTK-ProjectedMALA": ("#F0A050", "P"),
    "RTK-HMC": ("#009E73", "*"),
}
LINES = {"even": "-", "geometric": (0, (4, 2)), "from L": (0, (1, 1.2))}
PICTURED = (("DDPM", "even"), ("DDPM", "geometric"), ("RTK-ULD", "even"), ("RTK-MALA", "even"))
SHOWN = (*PICTURED, ("RTK-ULD", "geometric"), ("RTK-MALA", "geometric"), ("RTK-ULD", "from L"), ("RTK-MALA", "from L"))
QUANTITIES = {
    "marginal accuracy": "1 - marginal accuracy",
    "total variation": "total variation, plane",
    "wasserstein": "sliced W$_1$",
}


def claim(data: dict[str, Any], path: Path) -> None:
    """DDPM, RTK-ULD and RTK-MALA: each distance against calls, a column for each dimension."""
    dimensions = list(data["samples"])
    with plots.canvas(path, 3.4 * len(dimensions), 7.6) as canvas:
        panels: Any = canvas.subplots(len(QUANTITIES), len(dimensions), sharex=True, sharey="row", squeeze=False)
        for column, d in enumerate(dimensions):
            for row, (quantity, label) in enumerate(QUANTITIES.items()):
                axes = panels[row][column]
                for method, grid in SHOWN:
                    _curve(axes, data, d, method, grid, quantity)
                _floor(axes, data, d, quantity, named=column == 0)
                axes.set(xscale="log", yscale="log")
                if column == 0:
                    axes.set_ylabel(label)
            panels[0][column].set_title(f"d = {d}")
            panels[-1][column].set_xlabel("calls per sample")
        for line, quantity in zip(panels, QUANTITIES, strict=True):
            _errors(line, [_error(quantity, row[quantity]) for row in data["rows"]])
        _calls(panels[-1], data)
        lines, labels = panels[0][0].get_legend_handles_labels()
        canvas.legend(lines, labels, loc="outside lower center", ncols=4)


def every(data: dict[str, Any], path: Path) -> None:
    """All methods: marginal accuracy against calls, a line of panels for each grid."""
    dimensions = list(data["samples"])
    grids = ("even", "geometric")
    with plots.canvas(path, 3.4 * len(dimensions), 6.2) as canvas:
        panels: Any = canvas.subplots(len(grids), len(dimensions), sharex=True, sharey="row", squeeze=False)
        for column, d in enumerate(dimensions):
            for row, grid in enumerate(grids):
                axes = panels[row][column]
                for method in STYLES:
                    _curve(axes, data, d, method, grid, "marginal accuracy", label=method)
                _floor(axes, data, d, "marginal accuracy", named=column == 0)
                axes.set(xscale="log", yscale="log")
                axes.set_title(f"d = {d}, {grid}")
            panels[-1][column].set_xlabel("calls per sample")
        for line in panels:
            line[0].set_ylabel("1 - marginal accuracy")
            _errors(line, [1 - row["marginal accuracy"] for row in data["rows"]])
        _calls(panels[-1], data)
        lines, labels = panels[0][0].get_legend_handles_labels()
        canvas.legend(lines, labels, loc="outside lower center", ncols=5)


def _curve(
    axes: Any, data: dict[str, Any], d: str, method: str, grid: str, quantity: str, label: str | None = None
) -> None:
    own = [row for row in data["rows"] if (str(row["d"]), row["method"], row["grid"]) == (d, method, grid)]
    colour, marker = STYLES[method]
    axes.plot(
        [row["calls"] for row in own],
        [_error(quantity, row[quantity]) for row in own],
        color=colour,
        marker=marker,
        markersize=5,
        linewidth=1.5,
        linestyle=LINES[grid] if label is None else "-",
        markerfacecolor=colour if grid == "even" or label else "white",
        label=label or f"{method}, {grid}",
    )


def _error(quantity: str, value: float) -> float:
    """What is shown: an error, lower is better."""
    return 1 - value if quantity == "marginal accuracy" else value


def _floor(axes: Any, data: dict[str, Any], d: str, quantity: str, *, named: bool) -> None:
    """What exact samples get: nothing can be seen beyond it."""
    floor = data["floors"][d][quantity]
    mean = _error(quantity, floor["mean"])
    axes.axhspan(mean - 2 * floor["noise"], mean + 2 * floor["noise"], color="#dddddd", zorder=0)
    if named:
        words = {"ha": "left", "va": "center", "fontsize": 8, "color": "#555555"}
        axes.annotate("exact samples", (0.02, mean), xycoords=("axes fraction", "data"), **words)


def _errors(panels: Any, values: list[float]) -> None:
    ticks = [tick for tick in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if min(values) < tick < max(values)]
    for axes in panels:
        axes.set_ylim(0.75 * min(values), 1.25 * max(values))
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()


def _calls(panels: Any, data: dict[str, Any]) -> None:
    ticks = [*data["budgets"], data["most"]]
    for axes in panels:
        axes.set_xticks(ticks, [str(calls) for calls in ticks])
        axes.minorticks_off()


def samples(data: dict[str, Any], path: Path) -> None:
    """A few samples of each."""
    pictures = data["pictures"]
    with plots.canvas(path, 2.35 * len(pictures), 2.9) as canvas:
        panels: Any = canvas.subplots(1, len(pictures), sharex=True, sharey=True)
        for axes, picture in zip(panels, pictures, strict=True):
            axes.scatter(*zip(*picture["points"], strict=True), s=2.5, color="#0072B2", alpha=0.6, linewidths=0)
            axes.set(xlim=(-1.9, 1.9), ylim=(-1.9, 1.9), aspect="equal", xticks=(), yticks=())
            axes.set_title(picture["label"].replace(": ", "\n"), fontsize=9.5)
            axes.grid(False)
            axes.set_frame_on(False)


def scaling(data: dict[str, Any], path: Path) -> None:
    """Calls against d and against 1 / eps, with the theorems' powers as guides."""
    rows = data["scaling"]["rows"]
    with plots.canvas(path, 8.6, 3.9) as canvas:
        panels: Any = canvas.subplots(1, 2, sharey=True)
        for axes, against in zip(panels, ("d", "eps"), strict=True):
            for method in THEORY:
                own = [row for row in rows if row["method"] == method]
                own = [row for row in own if (row["eps"] == EPSILON if against == "d" else row["d"] == DIMENSION)]
                own.sort(key=lambda row: row["d"] if against == "d" else -row["eps"])
                x = [row["d"] if against == "d" else 1 / row["eps"] for row in own]
                colour, marker = STYLES[method]
                axes.plot(x, [row["calls"] for row in own], color=colour, marker=marker, linewidth=1.5)
                near = [row for row in rows if row["method"] != method and _close(row, own[-1])]
                lift = 5 * sum(1 if row["calls"] < own[-1]["calls"] else -1 for row in near)
                axes.annotate(
                    method,
                    (x[-1], own[-1]["calls"]),
                    xytext=(6, lift - 3),
                    textcoords="offset points",
                    fontsize=9,
                    color=colour,
                    annotation_clip=False,
                )
                _guide(axes, method, against, x, own[0]["calls"])
            axes.set(xscale="log", yscale="log", ylim=(3, 3e4))
            axes.minorticks_off()
            axes.yaxis.set_major_formatter("{x:g}")
        panels[0].set(xlabel="d", ylabel="calls", title=f"for a total variation of {EPSILON:g}")
        panels[0].plot(
            [], [], color="#888888", linestyle=(0, (1, 2)), label="the theorem's growth, from the first point"
        )
        canvas.legend(loc="outside lower center")
        panels[1].set(xlabel="1 / eps", title=f"for d = {DIMENSION}")
        for axes, key in zip(panels, ("d", "eps"), strict=True):
            values = sorted({row[key] if key == "d" else 1 / row["eps"] for row in rows})
            axes.set_xticks(values, [f"{value:g}" for value in values])


def _close(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether their labels would collide."""
    return (row["d"], row["eps"]) == (other["d"], other["eps"]) and 0.5 < row["calls"] / other["calls"] < 2


def _guide(axes: Any, method: str, against: str, x: list[float], first: float) -> None:
    """The theorem's growth, through the first point."""
    growth: dict[tuple[str, str], Callable[[float], float]] = {
        ("DDPM", "d"): lambda value: value,
        ("DDPM", "eps"): lambda value: value**2,
        ("RTK-ULD", "d"): lambda value: value**0.5,
        ("RTK-ULD", "eps"): lambda value: value,
        ("RTK-MALA", "d"): lambda value: value**2 * math.log(value / EPSILON),
        ("RTK-MALA", "eps"): lambda value: math.log(DIMENSION * value),
    }
    grow = growth[method, against]
    axes.plot(
        x,
        [first * grow(value) / grow(x[0]) for value in x],
        color=STYLES[method][0],
        linewidth=1,
        linestyle=(0, (1, 2)),
    )


FIGURES: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "rtk": claim,
    "rtk-methods": every,
    "rtk-samples": samples,
    "rtk-scaling": scaling,
}
