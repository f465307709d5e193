"""The figures of the page, from the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from drawahead.show import plots
from studies.ardiffusion.shapes import Shapes
from studies.study import Data

COLOURS = {
    "auto-regressive": "#0072B2",
    "joint, transformer": "#D55E00",
    "joint, dense": "#999999",
}
# The bound is wide: where the path KL equals it, both show.
_LINES = {"bound": ("#cccccc", 5.0, "bound"), "path": ("#E69F00", 1.5, "path KL"), "kl": ("#0072B2", 1.5, "KL")}


def shapes(data: Data, path: Path) -> None:
    """Two lines, one for each task: images, then what ties bars to discs, then losses."""
    study = data["shapes"]
    most = max(row["steps"] for row in study)
    names = [name for name in COLOURS if name != "joint, dense"]
    with plots.canvas(path, 13.0, 5.2) as figure:
        grid: Any = figure.subplots(2, 6, width_ratios=[1, 1, 1, 1.05, 1.05, 1.4])
        for line, task in zip(grid, ("across", "within"), strict=True):
            chosen = [row for row in study if (row["task"], row["steps"], row["seed"]) == (task, most, 0)]
            rows = {row["model"]: row for row in chosen}
            real = Shapes(4, across=task == "across", seed=1).images
            _images(line[0], real, f"{task} parts: data")
            for axes, name in zip(line[1:3], names, strict=True):
                _images(axes, torch.tensor(rows[name]["examples"])[:4], name)
            for axes, name in zip(line[3:5], names, strict=True):
                disc, bar = (torch.tensor(part).flatten() for part in rows[name]["points"])
                axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
                axes.plot(disc, bar, ".", color=COLOURS[name], markersize=3)
                axes.set(xlim=(-0.15, 1.15), ylim=(-0.15, 1.15), aspect="equal")
                axes.set(xlabel="height of the disc", title=name)
            line[3].set_ylabel("height of its bar")
            for name, row in rows.items():
                line[5].plot(*zip(*row["losses"], strict=True), color=COLOURS[name], label=name, linewidth=1.3)
            line[5].set(xlabel="training steps", yscale="log", title="training loss")
            line[5].yaxis.set_major_formatter("{x:g}")
            line[5].yaxis.set_minor_formatter("{x:g}")
            line[5].tick_params(which="minor", labelsize=7)
        grid[0][5].legend(fontsize=8)


def _images(axes: Any, images: Any, title: str) -> None:
    """Four images in a square."""
    images = torch.nn.functional.pad(images.double(), (1, 1, 1, 1), value=1.0)
    square = torch.cat([torch.cat([images[0], images[1]], 1), torch.cat([images[2], images[3]], 1)])
    axes.imshow(square.numpy(), cmap="gray", vmin=-1, vmax=1)
    axes.set_axis_off()
    axes.set_title(title)


def bound(data: Data, path: Path) -> None:
    """A panel for each sweep."""
    sweeps = data["bound"]
    columns = 3
    lines = -(-len(sweeps) // columns)
    with plots.canvas(path, 3.5 * columns, 2.7 * lines) as figure:
        grid: Any = figure.subplots(lines, columns, squeeze=False)
        for axes, sweep in zip(grid.flat, sweeps, strict=False):
            x = [row["x"] for row in sweep["rows"]]
            for key, (colour, width, label) in _LINES.items():
                y = [row[key] for row in sweep["rows"]]
                axes.plot(x, y, color=colour, linewidth=width, marker="o", markersize=width + 2, label=label)
            axes.set(yscale="log", title=sweep["term"], xlabel=sweep["name"])
            if not sweep["exponential"]:
                axes.set_xscale("log")
                axes.set_xticks(x, [f"{value:g}" for value in x])
                axes.minorticks_off()
        for line in grid:
            line[0].set_ylabel("nats")
        grid.flat[0].legend()


def rounds(data: Data, path: Path) -> None:
    """Rounds against the number of parts: a panel for each inner sampler."""
    rows = data["rounds"]
    inners = list(dict.fromkeys(row["inner"] for row in rows))
    with plots.canvas(path, 3.6 * len(inners), 3.6) as figure:
        grid: Any = figure.subplots(1, len(inners), sharey=True, squeeze=False)
        for axes, inner in zip(grid[0], inners, strict=True):
            own = [row for row in rows if row["inner"] == inner]
            steps = {row["number"]: row["steps"] for row in own}
            axes.plot(list(steps), list(steps.values()), ":", color="#555555", linewidth=1, label="one by one")
            for sampler in dict.fromkeys(row["sampler"] for row in own):
                for dependence, style in (("strong", "-"), ("none", "--")):
                    line = [row for row in own if (row["sampler"], row["dependence"]) == (sampler, dependence)]
                    colour, marker = plots.style(sampler)
                    label = f"{sampler}, {'strong' if dependence == 'strong' else 'no'} dependence"
                    x, y = [row["number"] for row in line], [row["rounds"] for row in line]
                    axes.plot(x, y, style, color=colour, marker=marker, markersize=5, label=label)
            axes.set(xscale="log", yscale="log", xlabel="parts K", title=inner)
            axes.set_xticks(list(steps), [str(number) for number in steps])
            axes.minorticks_off()
        grid[0][0].set_ylabel("rounds per sample")
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


FIGURES = {"ardiffusion-shapes": shapes, "ardiffusion-bound": bound, "ardiffusion-rounds": rounds}
