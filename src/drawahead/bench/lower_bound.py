"""The lower-bound benchmark: the target built to be hard, and a fixed order, beside what no sampler can beat."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drawahead import plots
from drawahead.bench.measure import Measurement
from drawahead.bench.page import Cell, exponent, number, origin, table
from drawahead.bench.rounds import Watch, measured
from drawahead.bench.settings import FIXED_ORDER, Plan, TokenSetting
from drawahead.bench.slopes import slopes

FULL = Plan(sizes=(64, 128, 256, 512, 1024, 2048, 4096), most_samples=8, recursive_seconds=0.0)
QUICK = Plan(sizes=(64, 128, 256), most_samples=2, recursive_seconds=0.0)
STUDIES = (("hard", "random"), ("pairs", "left to right"), ("pairs", "random"))
"""Targets and orders; the last is there to compare with."""


def run(folder: Path, *, quick: bool = False, watch: Watch | None = None) -> list[Path]:
    """Measure, then write `data/lower-bound.json`, `figures/lower-bound.png` and `lower-bound.md`. -> their paths."""
    plots.check()
    chosen = [TokenSetting(target, sampler, order) for target, order in STUDIES for sampler in FIXED_ORDER]
    bench = measured(QUICK if quick else FULL, chosen, watch)
    bench["command"] = f"drawahead bench lower-bound{' --quick' if quick else ''} --out {folder}"
    paths = [folder / "data" / "lower-bound.json", folder / "figures" / "lower-bound.png", folder / "lower-bound.md"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    paths[0].write_text(json.dumps(bench, indent=1) + "\n")
    figure(bench, paths[1])
    paths[2].write_text(page(bench))
    return paths


_INTRODUCTION = """\
A sampler asks an oracle for conditional probabilities, as many as it likes in a round. How few rounds can be enough?
**No fewer than about n^(1/3) on the worst target**, if the number of queries is a polynomial in n (Anari, Gao and
Rubinstein, "Parallel sampling via counting", STOC 2024). About n^(1/2) rounds are always enough, up to logarithms
("Parallel sampling via autospeculation", arXiv 2511.07869). What is true between the two is an open question.

The dotted line is n^(1/3), the *guide*. The bound has a constant factor that is not known here, so only the slope of
the guide means something, not its height; and it speaks of the worst target: easy ones may stay below it. Cells are
means over samples with their standard errors; all samplers are exact. *Slanted* numbers hold by definition: a
sequential run takes n rounds."""

_EXPONENTS = """\
The slope of log rounds and of log queries against log n, with the standard error of the fit: how far from a straight
line the points are, which is not how sure the slope is for longer sequences. The last column is rounds / n^(1/3) at
n = {largest}."""

_HARD = """\
`HardCode` is our own construction, not one from a paper, and nothing is proved about it here. A hidden random partition
cuts the positions into about n^(1/3) blocks. A block is a random codeword: its tokens are uniform until k of them are
known, and then all others are determined. The k are spaced out, so that a random order brings one block after the
other to its k, and a draft made before that cannot know the tokens that follow.

Stepwise and block stop a draft there, about once for each block, and keep close to the guide: their exponent is
{best} between n = {middle} and {largest}, beside 1/3. An exponent below 1/3 does not contradict the bound, which is
about the worst target there is; it says that ours, at these lengths and for these samplers, is not quite as hard.

Coupled takes more rounds here, not fewer. It asks about whole guesses, and past its k a block of guesses is no codeword
as long as one of them is wrong. What is probable given something impossible is for the oracle to say: this one reads a
codeword off the first k known positions of a block, and one wrong guess among them spoils all the others. So a block is
mended a few tokens a round, and rounds grow with the length of a block, which is about n^(2/3). A window of n saves
some rounds and costs many queries."""

_FIXED = """\
*Pairs* is uniform on x1 = x2, x3 = x4, ..., here with two values, drawn left to right. A draft gives both tokens of a
pair before either is known, so they differ in half of all pairs. Stepwise and block keep a draft up to its first
fault, so of a window of any length a few tokens are kept: rounds grow like n, and the fixed order fails completely. In
a random order (below) the two tokens of a pair seldom fall into the same short window, and the same samplers do well.

Coupled mends every pair of its window in the round after, and does not mind. But that is luck with this target: with
answers in one fixed order only, no sampler can take a number of rounds that grows more slowly than n on every target,
as the authors of arXiv 2511.07869 point out. Any-order answers and a random order make few rounds possible."""


def page(bench: dict[str, Any]) -> str:
    """The whole page, from the data that `lower-bound.json` holds."""
    sizes: list[int] = bench["sizes"]
    later = _later(bench)
    hard = [exponent(later.get(("hard", sampler, "random", "rounds"))) for sampler in ("stepwise", "block")]
    text = {
        "hard": _HARD.format(best=" and ".join(dict.fromkeys(hard)), middle=sizes[len(sizes) // 2], largest=sizes[-1]),
        "pairs": _FIXED,
    }
    parts = [
        "# Beside the lower bound",
        origin(bench, "lower-bound"),
        "![Rounds against length beside the guide n^(1/3)](figures/lower-bound.png)",
        _INTRODUCTION,
        "## How rounds and queries grow",
        _EXPONENTS.format(largest=sizes[-1]),
        _exponents(bench, later),
        "## The hard instance",
        text["hard"],
        _by_length(bench, "hard", "random"),
        "## A fixed order",
        text["pairs"],
        "Left to right:",
        _by_length(bench, "pairs", "left to right"),
        "In a random order:",
        _by_length(bench, "pairs", "random"),
    ]
    return "\n\n".join(parts) + "\n"


def _of(cells: Sequence[Cell], target: str, order: str, sampler: str) -> list[Cell]:
    wanted = (target, order, sampler)
    return [cell for cell in cells if (cell["target"], cell["order"], cell["sampler"]) == wanted]


def _later(bench: dict[str, Any]) -> dict[tuple[str, str, str, str], dict[str, Any]]:
    """The slopes over the longer half of the lengths, by target, sampler, order and quantity."""
    middle = bench["sizes"][len(bench["sizes"]) // 2]
    long = [Measurement(**cell) for cell in bench["measurements"] if cell["n"] >= middle]
    return {(s.target, s.sampler, s.order, s.quantity): s.to_dict() for s in slopes(long)}


def _exponents(bench: dict[str, Any], later: dict[tuple[str, str, str, str], dict[str, Any]]) -> str:
    overall = {(s["target"], s["sampler"], s["order"], s["quantity"]): s for s in bench["slopes"]}
    rows = []
    for target, order in STUDIES:
        for sampler in FIXED_ORDER:
            last = _of(bench["measurements"], target, order, sampler)[-1]
            key = (target, sampler, order)
            rows.append(
                [
                    f"{target}, {order}{' order' * (order == 'random')}: {sampler}",
                    exponent(overall.get((*key, "rounds"))),
                    exponent(later.get((*key, "rounds"))),
                    exponent(overall.get((*key, "queries"))),
                    f"{last['rounds'] / last['n'] ** (1 / 3):.1f}",
                ]
            )
    middle = bench["sizes"][len(bench["sizes"]) // 2]
    return table(["target and sampler", "rounds", f"rounds, n >= {middle}", "queries", "beside the guide"], rows)


def _by_length(bench: dict[str, Any], target: str, order: str) -> str:
    sizes: list[int] = bench["sizes"]
    rows = []
    for quantity in ("rounds", "queries"):
        for sampler in FIXED_ORDER:
            own = _of(bench["measurements"], target, order, sampler)
            rows.append([f"{quantity}, {sampler}", *(number(cell, quantity) for cell in own)])
    return table(["n", *map(str, sizes)], rows)


def figure(bench: dict[str, Any], path: Path) -> None:
    """A panel for each study, all with the guide."""
    sizes: list[int] = bench["sizes"]
    ends = [sizes[0], sizes[-1]]
    with plots.canvas(path, 3.4 * len(STUDIES), 3.7) as canvas:
        panels: Any = canvas.subplots(1, len(STUDIES), sharex=True, sharey=True)
        for axes, (target, order) in zip(panels, STUDIES, strict=True):
            guide = [n ** (1 / 3) for n in ends]
            axes.plot(ends, guide, color="#888888", linewidth=1.6, linestyle=(0, (1, 1.5)), label="guide, n$^{1/3}$")
            for label in FIXED_ORDER:
                own = _of(bench["measurements"], target, order, label)
                name, _, variant = label.partition(", ")
                colour, marker = plots.style(name)
                axes.plot(
                    [cell["n"] for cell in own],
                    [cell["rounds"] for cell in own],
                    color=colour,
                    marker=marker,
                    markersize=7.5 if marker == "s" else 5,  # larger: shows behind the triangles
                    linestyle="--" if variant else "-",
                    linewidth=1.5,
                    label=label,
                )
            axes.set(xscale="log", yscale="log", xlabel="length n")
            axes.set_title(f"{target}, {order}{' order' * (order == 'random')}")
            axes.set_xticks(sizes[::2], [str(n) for n in sizes[::2]])
            axes.minorticks_off()
            axes.yaxis.set_major_formatter("{x:g}")
        panels[0].set_ylabel("rounds a sample")
        lines, labels = panels[0].get_legend_handles_labels()
        canvas.legend(lines, labels, loc="outside lower center", ncols=len(labels))
