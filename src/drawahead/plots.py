"""Figures. They need matplotlib, which the core does without: pip install 'drawahead[plots]'."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drawahead.errors import InputError
from drawahead.report import Report

if TYPE_CHECKING:
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


def images(samples: Tensor, path: str | Path) -> None:
    """Images (number, height, width), white on black, or (number, 1 or 3, height, width), in colour if 3, with values
    from -1 to 1, as a grid as square as their number allows."""
    if samples.dim() == 4:
        samples = samples[:, 0] if samples.shape[1] == 1 else (samples.movedim(1, -1).clamp(-1, 1) + 1) / 2
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
