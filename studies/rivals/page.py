"""What compare.md says of rivals: tables, sentences and one figure, from what was recorded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from drawahead.show import plots
from studies.rivals.protocol import CHURNS
from studies.study import Data, origin
from studies.tables import listed, table

PASSES = 0.01
"""A p-value from which two sets of samples are taken for alike."""
PARTS = {"pixels": "pixels", "detail": "fine detail"}
Row = dict[str, Any]


def values(rivals: Data, causal: Data, rollouts: Data) -> dict[str, str | None]:
    """What the places of the page stand for."""
    return (
        _trees(rivals["trees"]["rows"])
        | _laws(rivals["laws"]["rows"])
        | _tolerances(rivals["tolerances"]["rows"])
        | _image(rivals["image"]["rows"])
        | _policies(rollouts)
        | {"tokens_window": _jacobi(causal["jacobi"]["rounds"]), "rivals_versions": origins(rivals)}
    )


def origins(rivals: Data) -> str:
    """The seconds of every part, and with what it was measured."""
    parts = {name: origin(rivals[name]["made"], "rivals") for name in ("trees", "laws", "tolerances", "image")}
    cpu = sum(float(parts[name]["seconds"]) for name in ("trees", "laws", "tolerances"))
    return (
        f"{parts['trees']['versions']}, in {cpu:.0f} seconds on a CPU; the image with {parts['image']['versions']}, in"
        f" {parts['image']['seconds']} seconds on an {rivals['image']['rows']['gpu']}"
    )


def _named(row: Row) -> str:
    if row.get("ahead"):
        return f"`{row['name']}`"
    shape = f"chain of {row['levels']}" if row["children"] == 1 else f"tree of {row['children']} x {row['levels']}"
    swept = {0: "", 1: ", 1 sweep", 2: ", 2 sweeps"}[row["sweeps"]]
    return f"{row['name']}, {shape}{swept}"


def _trees(rows: list[Row]) -> dict[str, str | None]:
    part = [row for row in rows if not row.get("whole") and row["name"] != "Auto"]
    steps = part[0]["steps"]
    names = list(dict.fromkeys(map(_named, part)))
    by = {(_named(row), row["churn"]): row for row in part}
    lines = [["one by one", *[str(steps)] * len(CHURNS), str(steps)]]
    for name in names:
        own = [by[name, churn] for churn in CHURNS]
        queries = sum(row["queries"] for row in own) / len(own)
        lines.append([name, *(f"{row['calls']:.1f}" for row in own), f"{queries:.0f}"])
    heading = ["calls per sample", *(f"churn {churn:g}" for churn in CHURNS), "queries, in the mean"]
    best = {
        churn: min(row["calls"] for row in part if not row.get("ahead") and row["churn"] == churn) for churn in CHURNS
    }
    ours = {churn: by["`Coupled(window=15)`", churn]["calls"] for churn in CHURNS}
    again = [row for row in part if row.get("published")]
    beside = [[_named(row), f"{row['churn']:g}", f"{row['published']:.2f}", f"{row['times']:.2f}"] for row in again]
    whole = [row for row in rows if row.get("whole") and row["name"] == "Coupled(window=15)"]
    return {
        "draft_trees": table(heading, lines),
        "published": table(["times fewer calls", "churn", "published", "here"], beside),
        "published_off": f"{max(abs(row['times'] / row['published'] - 1) for row in again):.0%}",
        "rivals_best": _range([steps / calls for calls in best.values()], 1),
        "ours_times": _range([steps / calls for calls in ours.values()], 1),
        "ours_fewer": _range([best[churn] / ours[churn] for churn in CHURNS], 1),
        "random_steps": str(steps),
        "whole_steps": str(whole[0]["steps"]),
        "whole_rounds": _range([row["calls"] for row in whole], 1),
        "trajectories": str(part[0]["samples"]),
        "our_samples": str(next(row["samples"] for row in part if row.get("ahead"))),
    }


def _range(found: list[float], digits: int) -> str:
    return f"{min(found):.{digits}f} to {max(found):.{digits}f}"


def _p(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 else f"{value:.0e}" if value > 1e-12 else "below 1e-12"


def _laws(rows: list[Row]) -> dict[str, str | None]:
    lines = []
    for name in dict.fromkeys(row["name"] for row in rows if "step" in row):
        own = {row["kind"]: row for row in rows if row["name"] == name}
        cells = [own[kind][part] for part in ("step", "chain") for kind in ("right", "uncorrected", "unverified")]
        lines.append([name, *map(_p, cells)])
    heading = ["p-value", "one step", "uncorrected", "unverified", "whole chain", "uncorrected", "unverified"]
    ours = next(row for row in rows if row["name"] == "Coupled")
    return {"rule_laws": table(heading, lines), "law_draws": f"{rows[0]['draws']:,}", "our_law": _p(ours["chain"])}


def _passes(row: Row) -> bool:
    return bool(min(row["p"], row["p_value"]) >= PASSES)


def _tolerances(rows: list[Row]) -> dict[str, str | None]:
    lines = []
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        row = next((row for row in own if _passes(row)), None)
        if row is None:
            last = own[-1]
            lines.append(
                [name, f"none of {_setting(last)}", "-", "-", _percent(last), _p(min(last["p"], last["p_value"]))]
            )
            continue
        rounds = f"{row['rounds']:.1f}" if "pipelined" not in row else f"{row['rounds']:.0f} ({row['pipelined']:.0f})"
        cells = [rounds, f"{row['queries']:.0f}", _percent(row), _p(min(row["p"], row["p_value"]))]
        lines.append([name, _setting(row), *cells])
    heading = ["", "loosest that passes", "rounds", "queries", "distance, %", "p-value"]
    return {
        "tolerances": table(heading, lines),
        "tolerance_samples": f"{rows[0]['samples']:,}",
        "tolerance_steps": f"{rows[0]['rounds']:.0f}",
        "passes": f"{PASSES:g}",
    }


def _setting(row: Row) -> str:
    if "tolerance" in row:
        return f"tolerance {row['tolerance']:g}"
    return f"{row['steps']} steps" if "steps" in row else "-"


def _percent(row: Row, part: str = "") -> str:
    found = row[part] if part else row
    return f"{100 * found['share']:.2f} ({100 * found['low']:.2f} to {100 * found['high']:.2f})"


def _image(found: Row) -> dict[str, str | None]:
    rows: list[Row] = found["ways"]
    parts, lines = _parts(rows), []
    for row in rows:
        setting = _setting(row) if row["family"] not in ("reference", "drawahead") else f"{row['steps']} steps"
        lines.append(
            [row["name"], setting, f"{row['ms']:.0f}", str(row["samples"]), *(_percent(row, part) for part in parts)]
        )
    ahead = next(row for row in rows if row["family"] == "drawahead")
    alone = next(row for row in rows if row["family"] == "reference")
    solvers = [row for row in rows if row["family"] == "solver"]
    names = list(dict.fromkeys(row["name"] for row in solvers))
    seen = {name: [f"{row['steps']}" for row in solvers if row["name"] == name and not _alike(row)] for name in names}
    told = [f"{name} up to {steps[-1]} steps" for name, steps in seen.items() if steps]
    affordable = max(row["steps"] for row in solvers if row["ms"] <= ahead["ms"] * 1.02)
    return {
        "image": table(
            ["", "", "ms per image", "samples", *(f"distance of {PARTS[part]}, %" for part in parts)], lines
        ),
        "fine": PARTS["detail"] if "detail" in parts else None,
        "image_gpu": found["gpu"],
        "ahead_ms": f"{ahead['ms']:.0f}",
        "alone_ms": f"{alone['ms']:.0f}",
        "ahead_steps": str(affordable),
        "told_apart": listed(told),
        "ahead_p": listed([_p(ahead[part]["p_value"]) for part in parts]),
    }


def _alike(row: Row) -> bool:
    return all(row[part]["p_value"] >= PASSES for part in _parts([row]))


def _parts(rows: list[Row]) -> list[str]:
    """What distances were measured of."""
    return [part for part in PARTS if part in rows[0]]


def _jacobi(rounds: Row) -> str:
    rows = [[window, f"{own['resampled']:.0f}", f"{own['coupled']:.0f}"] for window, own in rounds.items()]
    return table(["window", "drawn anew and judged (SJD)", "noise fixed once (`Coupled`)"], rows)


def _policies(rollouts: Data) -> dict[str, str | None]:
    methods = {row["method"]: row for row in rollouts["methods"]}
    episodes = methods["drawahead"]["episodes"]
    against = rollouts["against_sequential"]["ddim8"]
    ahead = _paired(methods["drawahead"]["by_seed"], methods["ddim8"]["by_seed"])
    return {
        "policy_episodes": str(episodes),
        "own_failed": str(episodes - methods["sequential"]["successes"]),
        "ahead_failed": str(episodes - methods["drawahead"]["successes"]),
        "ddim_failed": listed([episodes - methods[name]["successes"] for name in _FEW]),
        "ddim_steps": listed([name.removeprefix("ddim") for name in _FEW]),
        "ahead_less": f"{100 * ahead[0]:.1f}",
        "ahead_between": f"{100 * ahead[1]:.1f} to {100 * ahead[2]:.1f}",
        "ddim_less": f"{-100 * against['difference']:.1f}",
        "ddim_between": f"{-100 * against['high']:.1f} to {-100 * against['low']:.1f}",
        "ddim_left": listed([f"{methods[name]['left'] / episodes:.0%}" for name in _FEW]),
        "own_left": listed([f"{methods[name]['left'] / episodes:.0%}" for name in ("sequential", "drawahead")]),
    }


def _paired(first: list[int], second: list[int]) -> tuple[float, float, float]:
    """How much more often one method succeeds, start by start, with Agresti and Min's 95% interval."""
    n, apart = len(first), [a - b for a, b in zip(first, second, strict=True)]
    more, differ = sum(apart), sum(map(abs, apart))
    middle = more / (n + 2)
    spread = 1.96 * math.sqrt(differ + 1 - more**2 / (n + 2)) / (n + 2)
    return more / n, middle - spread, middle + spread


_FEW = ("ddim16", "ddim10", "ddim8")
_LOOKS = {
    "DDIM": ("#E69F00", "s"),
    "DPM-Solver++ (2M)": ("#0072B2", "^"),
    "DPM-Solver++ (2M), Karras levels": ("#D55E00", "P"),
    "Picard": ("#56B4E9", "X"),
    "SRDS-type": ("#CC79A7", "D"),
    "drawahead": ("#009E73", "*"),
    "one by one": ("#555555", "o"),
}


def figure(rivals: Data, path: Path) -> None:
    """Distance against milliseconds, of pixels and of fine detail; below the grey band chance alone is seen."""
    rows: list[Row] = rivals["image"]["rows"]["ways"]
    with plots.canvas(path, 9.6, 4.4) as drawn:
        parts = _parts(rows)
        both: Any = drawn.subplots(1, len(parts), sharey=True, squeeze=False)[0]
        for axes, part in zip(both, parts, strict=True):
            _panel(axes, rows, part)
            axes.set(title=PARTS[part].capitalize(), xlabel="milliseconds for one image", xscale="log")
            axes.set_xticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1000"])
            axes.minorticks_off()
        both[0].set_ylabel("distance to the model's own samples, %")
        handles, names = both[0].get_legend_handles_labels()
        drawn.legend(handles, names, loc="outside lower center", ncols=4)


def _panel(axes: Any, rows: list[Row], part: str) -> None:
    floor = next(row for row in rows if row["family"] == "reference")[part]
    axes.axhspan(100 * floor["low"], 100 * floor["high"], color="#dddddd", alpha=0.6, linewidth=0)
    for name, (colour, marker) in _LOOKS.items():
        own = sorted((row for row in rows if row["name"] == name), key=lambda row: float(row["ms"]))
        height = [100 * row[part]["share"] for row in own]
        low, high = ([100 * row[part][end] for row in own] for end in ("low", "high"))
        errors = [[max(0.0, y - a) for y, a in zip(height, low, strict=True)]]
        errors.append([max(0.0, b - y) for y, b in zip(height, high, strict=True)])
        axes.errorbar(
            *([row["ms"] for row in own], height, errors),
            color=colour,
            marker=marker,
            markersize=13 if name == "drawahead" else 6,
            linewidth=1.4,
            elinewidth=0.8,
            label=name,
            zorder=3 if name == "drawahead" else 2,
        )
    axes.set_yscale("symlog", linthresh=0.3, linscale=0.7)
    axes.set_yticks([-1, -0.3, 0, 0.3, 1, 3], ["-1", "-0.3", "0", "0.3", "1", "3"])
