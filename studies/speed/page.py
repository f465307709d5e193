"""docs/speed.md and its figure, from what was measured here and for proteins."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from drawahead.show import plots
from studies.estimates import Estimate
from studies.speed.ways import WAYS
from studies.tables import table

Row = dict[str, Any]


def values(found: Row, proteins: list[Row]) -> dict[str, str | None]:
    """What the page says."""
    fashion, text, tuned = found["fashion"], found["text"], _tuned(found["fashion"])
    fixed: dict[str, str | None] = {
        "gpu": found["machine"]["gpu"],
        "torch": found["machine"]["torch"],
        "overview": _overview(found),
        **_days(found["days"]),
        "fashion": _one(fashion),
        "fashion_choice": _choice(fashion["auto"]),
        "fashion_beside_best": f"{fashion['auto']['seconds'] / tuned['seconds']:.2f}",
        "tuned_ratio": _ratio(fashion["sequential"], tuned),
        "text": _one(text),
        "text_choice": _choice(text["auto"]),
        "text_beside_best": f"{text['auto']['seconds'] / _tuned(text)['seconds']:.2f}",
        "everyone": _everyone(found),
        "proteins": _proteins(proteins),
        "proteins_equal": ", ".join(f"{row['tokens_equal_to_sequential']:.1%}" for row in proteins),
        "fashion_batches": _batches(fashion["batches"]) if "batches" in fashion else None,
        "text_batches": _batches(text["batches"]) if "batches" in text else None,
    }
    for name, (names, make) in _PARTS.items():
        fixed |= make(found[name]) if name in found else dict.fromkeys(names)
    return fixed


_SECTIONS = {"sharing": "two processes on one GPU", "numerics": "the model's own numerics"}


def _days(days: dict[str, str]) -> dict[str, str | None]:
    """When it was measured; and what was measured on another day than most."""
    last = max(days.values())
    others = [f"{_SECTIONS.get(name, name)} ({_day(day)})" for name, day in days.items() if day != last]
    return {"day": _day(last), "other_days": " and ".join(others) or None}


def _day(iso: str) -> str:
    return f"{(day := date.fromisoformat(iso)).day} {day:%B %Y}"


def _overview(found: Row) -> str:
    """The first table: every model in every way, as far as it was measured."""
    lines = []
    for what, ways, rounds in _rows(found):
        cells = [_seconds(ways[way]) if way in ways else "" for way in WAYS]
        times = ways["captured"] / ways["drawahead"]
        lines.append([what, *cells, f"{rounds:.0f}", f"**{times:.{0 if times >= 20 else 1}f}**"])
    return table(["", *WAYS, "rounds", "times faster"], lines)


def _rows(found: Row) -> list[tuple[str, dict[str, float], float]]:
    """What is drawn, the seconds of every way, and drawahead's rounds."""
    rows = []
    for name, (what, part) in _MODELS.items():
        ways = {way: row["seconds"] for way, row in found.get("ways", {}).get(name, {}).items()}
        ahead = found["ways"][name]["drawahead"] if part is None and ways else found.get(part)
        if part is not None:
            one, ahead = found[part]["sequential"], found[part]["auto"]
            ways |= {"captured": one["seconds"], "drawahead": ahead["seconds"]}
        if "captured" in ways and "drawahead" in ways:
            rows.append((what, ways, ahead["mean_rounds"]))
    if "policy" in found:
        own = found["policy"]
        ways = {"captured": own["one by one"]["p50"] / 1e3}
        ways |= {way: own[way]["p50"] / 1e3 for way in WAYS if way in own}
        rows.append(
            ("a robot's next actions, a policy of 63M parameters, 100 steps", ways, own["drawahead"]["mean_rounds"])
        )
    if "sequential" in (sides := _sides(found.get("pipeline", {}))):
        ways = {"plain loop": sides["ddpm"]["seconds"] or sides["ddpm"]["cold"]}
        names = {way: way.replace("captured", "sequential") for way in WAYS[1:]}
        ways |= {way: sides[name]["seconds"] for way, name in names.items() if name in sides}
        rows.append(
            (
                "an image of a diffusers UNet, by `DDPMPipeline` and `DrawaheadPipeline`",
                ways,
                sides["drawahead"]["rounds"],
            )
        )
    for name, row in found.get("stacked", {}).items():
        one, ahead = row["sequential"], row["auto"]
        rows.append((_STACKED[name], {"captured": one["seconds"], "drawahead": ahead["seconds"]}, ahead["mean_rounds"]))
    for row in found["fashion"].get("batches", ()):
        if row["batch"] >= 64:
            ways = {"captured": row["sequential"]["seconds"], "drawahead": row["auto"]["seconds"]}
            rows.append((f"{row['batch']} images at once", ways, row["auto"]["mean_rounds"]))
    return rows


_MODELS = {
    "image": ("an image of the shipped DDPM, 1000 steps", "fashion"),
    "text": ("a text of 256 characters", "text"),
    "emoji 1000": ("an emoji from words, guided, 1000 steps", None),
    "emoji 250": ("the same in 250 steps", None),
}


def _policy(part: Row) -> dict[str, str | None]:
    """Latencies of a policy, as it is and compiled, and what of their spread is rounds."""
    ahead, lines = part["drawahead"], []
    for what, row in part.items():
        cells = [f"{row[key]:.1f}" for key in ("p50", "p95", "p99", "p50_alone", "p99_alone", "mean_rounds")]
        lines.append([what, str(row["calls"]), *cells, f"{row['ratio']:.2f}"])
    heading = ["", "calls", "p50, ms", "p95", "p99", "rounds alone: p50", "p99", "rounds", "beside its rounds alone"]
    return {
        "policy": table(heading, lines),
        "policy_half": f"{ahead['p50_rounds']:.0f}",
        "policy_most": f"{ahead['p99_rounds']:.0f}",
        "policy_spread": f"{ahead['p99'] / ahead['p50']:.2f}",
        "policy_floor": f"{ahead['p99_alone'] / ahead['p50_alone']:.2f}",
        "policy_added": f"{ahead['p50'] - ahead['p50_alone']:.1f}",
    }


def _memory(rows: list[Row]) -> dict[str, str | None]:
    """MiB beside the weights, by window, for one sample and for eight."""
    lines = []
    for name in dict.fromkeys(row["model"] for row in rows):
        cells = {(row["live"], row["window"]): row for row in rows if row["model"] == name}
        for live in sorted({live for live, _ in cells}):
            shown = [f"{cells[live, w]['bytes'] / 2**20:.0f}" if (live, w) in cells else "" for w in (0, 8, 64)]
            lines.append([name, str(live), *shown])
    heading = ["model", "samples at once", "single steps", "window 8", "window 64"]
    return {"memory": table(heading, lines)}


def bars(found: Row, proteins: list[Row], path: Path) -> None:
    """Seconds of every way, one bar each, of what is drawn one by one."""
    models = {what.split(", by `")[0]: ways for what, ways, _ in _rows(found) if "at once" not in what}
    colours = ("#9aa0a6", "#6f7fb5", "#4c5c9c", "#e07b39", "#c8501e")
    with plots.canvas(path, 8.2, 1.0 + 0.75 * len(models)) as drawing:
        axes = drawing.subplots()
        for i, ways in enumerate(models.values()):
            there = [way for way in WAYS if way in ways]
            for j, way in enumerate(there):
                y, seconds = i + 0.8 * (j + 0.5) / len(there) - 0.4, ways[way]
                label = way if way not in axes.get_legend_handles_labels()[1] else None
                axes.barh(y, seconds, 0.72 / len(there), color=colours[WAYS.index(way)], label=label)
                axes.text(seconds * 1.06, y, _seconds(seconds), va="center", fontsize=7)
        axes.set_xscale("log")
        axes.set_xlim(right=axes.get_xlim()[1] * 3)
        axes.set_yticks(range(len(models)), [textwrap.fill(what, 34) for what in models], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel("seconds, on a logarithmic scale")
        drawing.legend(loc="outside lower center", ncols=3)


def _seconds(seconds: float) -> str:
    """Two digits and a bit: 15.2 s, 0.30 s, 0.024 s."""
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds:.3f} s"


def _everyone(found: Row) -> str:
    """Samplers as they come, beside their captured rounds alone."""
    lines = []
    for name, label in (("fashion", "image"), ("text", "text")):
        part = found[name]
        whole = [("Coupled()", row) for row in part["coupled"] if row["window"] is None]
        rows = [("Sequential()", part["sequential"]), *whole, *part["others"].items(), ("Auto()", part["auto"])]
        for sampler, row in rows:
            alone = row.get("rounds_alone_seconds")
            lines.append(
                [
                    label,
                    f"`{sampler}`",
                    _ms(row),
                    _rounds(row),
                    _per_round(row),
                    "not captured" if alone is None else f"{alone * 1e3:.1f}",
                    "" if alone is None else f"{row['beside_rounds_alone']:.2f}",
                ]
            )
    heading = ["one", "sampler", "ms", "rounds", "ms per round", "captured rounds alone, ms", "ratio"]
    return table(heading, lines, right=False)


def _per_round(row: Row) -> str:
    return f"{row['seconds'] / row['batch_rounds'] * 1e3:.2f}"


def _cold(part: Row) -> dict[str, str | None]:
    lines, processes = [], []
    for name, label in (("fashion", "image"), ("text", "text")):
        if name not in part:
            continue
        processes.append(f"{len(part[name]['auto'])} for one {label}")
        first = {key: [row["first"] for row in rows] for key, rows in part[name].items()}
        middle = {key: statistics.median(seconds) for key, seconds in first.items()}
        load = statistics.median(row["load"] for rows in part[name].values() for row in rows)
        sides = [f"{middle[key]:.2f} {_range(first[key], 2)}" for key in ("sequential", "auto")]
        lines.append([f"one {label}", *sides, f"{middle['auto'] / middle['sequential']:.2f}", f"{load:.2f}"])
    heading = ["first call", "`Sequential`, s", "`Auto`, s", "ratio", "loading the model, s"]
    processes = {
        label: len(part[name]["auto"]) for name, label in (("fashion", "image"), ("text", "text")) if name in part
    }
    words = " and ".join(f"{number} for one {label}" for label, number in processes.items())
    return {"cold": table(heading, lines, right=False), "cold_processes": words}


_STACKED = {
    "rtk": "reverse transition kernels: Langevin steps in 8 segments",
    "ardiffusion": "auto-regressive diffusion in 4 parts",
}


def _stacked(part: Row) -> dict[str, str | None]:
    lines = []
    for name, label in _STACKED.items():
        if name not in part:
            continue
        for key in ("sequential", "coupled", "auto"):
            row = part[name][key]
            sampler = f"Auto: `{_chosen(row)}`" if key == "auto" else f"`{_chosen(row)}`"
            captured = "yes" if row["captured"] else "no"
            ratio = _ratio(part[name]["sequential"], row)
            lines.append([label, sampler, _ms(row), _rounds(row), _per_round(row), captured, ratio])
    heading = ["one sample", "sampler", "ms", "rounds", "ms per round", "captured", "times less"]
    return {"stacked": table(heading, lines, right=False)}


def _pipeline(part: Row) -> dict[str, str | None]:
    """How the network of the pipelines came about, and their first calls."""
    training, sides = part["training"], _sides(part)
    return {
        "unet": f"{training['parameters'] / 1e6:.1f}",
        "training": f"{training['seconds']:.0f}",
        "training_steps": str(training["steps"]),
        "first_ddpm": _seconds(sides["ddpm"]["cold"]),
        "first_drawahead": _seconds(sides["drawahead"]["cold"]),
    }


def _sides(part: Row) -> Row:
    """Of the pipelines, in the precision that was measured."""
    return next((sides for name, sides in part.items() if name != "training"), {})


def _sharing(rows: list[Row]) -> dict[str, str | None]:
    """Two processes on one GPU: how long a call of each takes."""
    lines = []
    for row in rows:
        one, half, two = (max(each["seconds"] for each in row[name]) for name in ("one", "half", "two"))
        cells = [f"{seconds * 1e3:.0f}" for seconds in (one, half, two)]
        lines.append([str(row["samples"]), *cells, f"{one / two:.2f}", f"{one / half:.2f}"])
    heading = ["images", "one process, ms", "half of them, ms", "two processes, half each, ms", "gain", "with two GPUs"]
    return {"sharing": table(heading, lines)}


def _condition(part: Row) -> dict[str, str | None]:
    rows = (("the first call", "first"), ("another condition", "another"), ("another chain (`replace`)", "replaced"))
    lines = []
    for label, key in rows:
        row = part[key]
        kept = "yes" if row["graphs_kept"] else "no"
        lines.append([label, f"{row['seconds'] * 1e3:.1f}", f"{row['rounds']:.1f}", kept, str(row["captures"])])
    shown = table(["call", "ms", "rounds", "graphs used again", "captured"], lines, right=False)
    return {"condition": shown, "condition_samples": str(part["samples"]), "condition_steps": str(part["steps"])}


def _ratio(sequential: Row, row: Row, digits: int = 1) -> str:
    return f"{sequential['seconds'] / row['seconds']:.{digits}f}"


def _ms(row: Row) -> str:
    low, high = min(row["all_seconds"]), max(row["all_seconds"])
    return f"{row['seconds'] * 1e3:.1f} ({low * 1e3:.1f} - {high * 1e3:.1f})"


def _rounds(row: Row) -> str:
    error = row["rounds_standard_error"]
    return Estimate(row["mean_rounds"], error).rounded(1) if error else f"{row['mean_rounds']:.1f}"


def _tuned(part: Row) -> Row:
    """The best of the windows tried by hand."""
    return min(part["coupled"], key=lambda row: row["seconds"])


def _choice(auto: Row) -> str:
    return f"{auto['sampler'].split('(')[0]}: {auto['choice']}"


def _chosen(row: Row) -> str:
    """The sampler of a row, without what hardly differs."""
    name: str = row["sampler"]
    return name.replace(", secant=True", "").split(", least")[0].rstrip(")").replace("()", "(") + ")"


def _one(part: Row) -> str:
    sequential = part["sequential"]
    rows = [("Sequential", sequential)]
    rows += [(f"Coupled, window {row['window'] or 'all'}", row) for row in part["coupled"]]
    rows += [*part["others"].items(), ("**Auto**", part["auto"])]
    lines = [
        [name, _ms(row), _rounds(row), _per_round(row), f"{row['queries_per_sample']:.0f}", _ratio(sequential, row)]
        for name, row in rows
    ]
    return table(["sampler", "ms", "rounds", "ms per round", "queries", "times less"], lines, right=False)


def _proteins(rows: list[Row]) -> str:
    heading = ["residues", "temperature", "sequences", "package's `sample()`, s", "drawahead, s", "times less"]
    lines = [
        [
            str(row["residues"]),
            str(row["temperature"]),
            str(row["samples"]),
            f"{row['median_seconds']['published']:.3f} {_range(row['seconds']['published'], 3)}",
            f"{row['median_seconds']['drawahead']:.4f} {_range(row['seconds']['drawahead'], 4)}",
            f"{row['speedup']:.1f}",
            f"{row['speedup_with_encoder']:.1f}",
            f"{row['mean_passes']:.1f}",
        ]
        for row in rows
    ]
    return table([*heading, "with encoder", "passes"], lines, right=False)


def _range(seconds: list[float], digits: int) -> str:
    return f"({min(seconds):.{digits}f} - {max(seconds):.{digits}f})"


def _outside(part: Row) -> dict[str, str | None]:
    rows = [("DDPM", row) for row in part["fashion"]] + [("text", part["text"])]
    lines = [
        [
            name,
            str(row["window"]),
            f"{row['round'] * 1e3:.2f}",
            f"{row['model'] * 1e3:.2f}",
            f"{row['share_outside']:.1%}",
        ]
        for name, row in rows
    ]
    heading = ["model", "window", "ms per round", "the model alone, ms", "outside it"]
    return {"outside": table(heading, lines, right=False)}


def _batches(rows: list[Row]) -> str:
    heading = ["samples at once", "sequential, s", "coupled, s", "times less", "Auto, s", "times less", "Auto chose"]
    lines = [
        [
            str(row["batch"]),
            f"{row['sequential']['seconds']:.3f}",
            f"{row['coupled']['seconds']:.3f}" if "coupled" in row else "",
            _ratio(row["sequential"], row["coupled"], 2) if "coupled" in row else "",
            f"{row['auto']['seconds']:.3f}",
            _ratio(row["sequential"], row["auto"], 2),
            f"`{_chosen(row['auto'])}`",
        ]
        for row in rows
    ]
    return table(heading, lines, right=False)


def _law(law: Row) -> dict[str, str | None]:
    images, texts = law["fashion"], law["text"]
    return {
        "law_samples": str(images["num_samples"]),
        "law_tests": str(images["tests"]),
        "law_images": f"{images['p']:.2f}",
        "law_visible": f"{_visible(images['num_samples'], 0.001 / images['tests']):.2f}",
        "law_features": str(texts["features"]),
        "law_texts": f"{texts['p']:.2f}",
        "law_permutations": str(texts["permutations"]),
    }


def _visible(num: int, level: float) -> float:
    """The Kolmogorov-Smirnov distance that two samples of this size reach half of the time at this level."""
    return math.sqrt(-math.log(level / 2) / num)


def _numerics(part: Row) -> dict[str, str | None]:
    heading = [
        "network in",
        "text: TV of a step",
        "text: TV of all 256, at most",
        "image: KL of all 1000 steps",
        "image: TV, at most",
        "image: KL from batch shape alone",
        "text: tokens equal to sequential",
    ]
    lines = [
        [
            label,
            f"{row['text']['tv_a_step']:.1e}",
            f"{row['text']['tv_a_sample_at_most']:.3f}",
            f"{row['fashion']['kl_a_sample']:.1e}",
            f"{row['fashion']['tv_a_sample_at_most']:.3f}",
            f"{row['fashion']['kl_a_sample_batch_shape']:.1e}",
            f"{row['text']['tokens_equal_to_sequential']:.2%}",
        ]
        for label, row in part.items()
    ]
    first = next(iter(part.values()))
    return {
        "numerics": table(heading, lines, right=False),
        "text_shape": f"{first['text']['tv_a_step_batch_shape_float32']:.1e}",
        "image_shape": f"{first['fashion']['kl_a_sample_batch_shape_float32']:.1e}",
    }


_LAW = ("samples", "tests", "images", "visible", "features", "texts", "permutations")
_PARTS: dict[str, tuple[tuple[str, ...], Callable[[Any], dict[str, str | None]]]] = {
    "policy": (("policy", *(f"policy_{name}" for name in ("half", "most", "spread", "floor", "added"))), _policy),
    "memory": (("memory",), _memory),
    "cold": (("cold", "cold_processes"), _cold),
    "stacked": (("stacked",), _stacked),
    "pipeline": (("unet", "training", "training_steps", "first_ddpm", "first_drawahead"), _pipeline),
    "sharing": (("sharing",), _sharing),
    "conditions": (("condition", "condition_samples", "condition_steps"), _condition),
    "outside": (("outside",), _outside),
    "law": (tuple(f"law_{name}" for name in _LAW), _law),
    "numerics": (("numerics", "text_shape", "image_shape"), _numerics),
    "spread": (("spread_rounds", "spread_ms"), lambda row: {"spread_rounds": _rounds(row), "spread_ms": _ms(row)}),
}
"""By the part of the data: what the page says of it, nothing where it was not measured."""


def figure(found: Row, proteins: list[Row], path: Path) -> None:
    """Times less against samples drawn together."""
    with plots.canvas(path, 6.4, 3.8) as drawing:
        axes = drawing.subplots()
        for name, colour, marker in (("fashion", "#0072B2", "o"), ("text", "#009E73", "v")):
            for key, style in (("coupled", ":"), ("auto", "-")):
                rows = [row for row in found[name]["batches"] if key in row]
                x = [row["batch"] for row in rows]
                y = [row["sequential"]["seconds"] / row[key]["seconds"] for row in rows]
                axes.plot(x, y, style, color=colour, marker=marker, label=f"{name}, {key}")
        axes.axhline(1.0, color="#555555", linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        ticks = sorted({row["batch"] for name in ("fashion", "text") for row in found[name]["batches"]})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        marks = [0.25, 0.5, 1, 2, 4, 8, 16, 32]
        axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
        axes.set_xlabel("samples drawn together")
        axes.set_ylabel("times less time than sequential")
        axes.legend()
