"""docs/speed.md and its figure, from what was measured here and for proteins."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from drawahead.show import plots
from studies.estimates import Estimate
from studies.speed.ways import WAYS
from studies.tables import listed, table

Row = dict[str, Any]


def values(found: Row, proteins: list[Row]) -> dict[str, str | None]:
    """What the page says."""
    machine, fashion, text, law = (found[key] for key in ("machine", "fashion", "text", "law"))
    best = _best_sequential(found)
    numerics = next(iter(found["numerics"].values()))
    return (
        _remarks(found)
        | _law(law)
        | _new(found)
        | {
            "gpu": machine["gpu"],
            "torch": machine["torch"],
            "overview": _overview(found, proteins),
            "ways": _ways(found, proteins),
            "tuned_ratio": _ratio(best, _tuned(fashion)),
            "fashion": _one(fashion, best, _eager(found, "fashion")),
            "fashion_choice": _choice(fashion["auto"]),
            "fashion_beside_best": _beside_best(fashion),
            "text": _one(text, text["sequential"], _eager(found, "text")),
            "eager_rows": str(len(_eager(found, "fashion"))) if _eager(found, "fashion") else None,
            "text_choice": _choice(text["auto"]),
            "text_beside_best": _beside_best(text),
            "spread_rounds": _rounds(found["spread"]),
            "spread_ms": _ms(found["spread"]),
            "proteins": _proteins(proteins),
            "proteins_equal": ", ".join(f"{row['tokens_equal_to_sequential']:.1%}" for row in proteins),
            "outside": _outside(found["outside"]),
            "fashion_batches": _batches(fashion["batches"]),
            "text_batches": _batches(text["batches"]),
            "numerics": _numerics(found["numerics"]),
            "text_shape": f"{numerics['text']['tv_a_step_batch_shape_float32']:.1e}",
            "image_shape": f"{numerics['fashion']['kl_a_sample_batch_shape_float32']:.1e}",
        }
    )


def _new(found: Row) -> dict[str, str | None]:
    """Parts that older data lack: then their sections are left out."""
    parts = {"cold": _cold, "auto_again": _auto_again, "stacked": _stacked, "pipeline": _pipeline}
    parts |= {"policy": _policy, "memory": _memory}
    tables = {name: make(found[name]) if name in found else None for name, make in parts.items()}
    training = found.get("pipeline", {}).get("training")
    told = found.get("conditions")
    return tables | {
        "everyone": _everyone(found),
        "policy_half": f"{found['policy']['drawahead']['p50_rounds']:.0f}" if "policy" in found else None,
        "policy_most": f"{found['policy']['drawahead']['p99_rounds']:.0f}" if "policy" in found else None,
        "cold_processes": str(len(found["cold"]["fashion"]["auto"])) if "cold" in found else None,
        "unet": training and f"{training['parameters'] / 1e6:.1f}",
        "training": training and f"{training['seconds']:.0f}",
        "training_steps": training and str(training["steps"]),
        "condition": _condition(told) if told else None,
        "condition_samples": told and str(told["samples"]),
        "condition_steps": told and str(told["steps"]),
        "older": _older(found),
    }


_OLDER = {
    "ways": "plain loops, compiled times, and the image drawn one step after another",
    "text_batches": "texts drawn together",
    "pipeline": "the diffusers pipeline",
    "stacked": "reverse transition kernels and auto-regressive diffusion",
    "conditions": "other conditions",
    "outside": "the time outside the model",
    "spread": 'the order "spread"',
    "law": "the tests of the distribution",
    "numerics": "the model's numerics",
}


def _older(found: Row) -> str | None:
    """What was measured before the engine was rebuilt."""
    if "measured" not in found:
        return None
    return listed([words for part, words in _OLDER.items() if part not in found["measured"]]) or None


def _overview(found: Row, proteins: list[Row]) -> str:
    """The first table: what a reader wants to know, and no more."""
    ways = found.get("ways", {})
    rows = [
        ("an image of the shipped DDPM, 1000 steps", _best_sequential(found), found["fashion"]["auto"], "image"),
        ("a text of 256 characters", found["text"]["sequential"], found["text"]["auto"], "text"),
    ]
    others = {name: what for name, what in _PICTURES.items() if name in ways}
    rows += [(what, ways[name]["captured"], ways[name]["drawahead"], name) for name, what in others.items()]
    lines = [
        [
            *_overview_line(what, one["seconds"], ahead["seconds"], ahead["mean_rounds"]),
            _seconds(ways[name][_COMPILED]["seconds"]) if _COMPILED in ways.get(name, {}) else "",
        ]
        for what, one, ahead, name in rows
    ]
    for sides in [sides for name, sides in found.get("pipeline", {}).items() if name != "training"][:1]:
        what = "an image of a diffusers UNet, `DDPMPipeline` and `DrawaheadPipeline`"
        drawn = sides["drawahead"]
        lines.append(_overview_line(what, _once(sides["ddpm"]), _once(drawn), drawn["rounds"]))
    for name, what in _STACKED.items():
        if name in found.get("stacked", {}):
            row = found["stacked"][name]
            auto = row["auto"]
            lines.append(_overview_line(what, row["sequential"]["seconds"], auto["seconds"], auto["mean_rounds"]))
    if proteins:
        row = proteins[0]
        what = f"{row['samples']} protein sequences by ProteinMPNN, its own `sample()` and drawahead"
        seconds = row["median_seconds"]
        lines.append(_overview_line(what, seconds["published"], seconds["drawahead"], row["mean_passes"]))
    lines = [[*line, *[""] * (6 - len(line))] for line in lines]
    return table(["", "one step after another", "drawahead", "times faster", "rounds", "compiled"], lines)


_COMPILED = "drawahead, compiled"
_PICTURES = {
    "emoji 1000": "an emoji from words, guided, 1000 steps",
    "emoji 250": "the same in 250 steps",
}


def _policy(part: Row) -> str:
    """Latencies of a policy, as it is and compiled."""
    lines = [
        [
            what,
            str(row["calls"]),
            *(f"{row[key]:.1f}" for key in ("p50", "p95", "p99", "mean_rounds")),
            f"{row['ratio']:.2f}",
        ]
        for what, row in part.items()
    ]
    return table(["", "calls", "p50, ms", "p95, ms", "p99, ms", "rounds", "beside its rounds alone"], lines)


def _memory(rows: list[Row]) -> str:
    """MiB beside the weights, by window, for one sample and for eight."""
    lines = []
    for name in dict.fromkeys(row["model"] for row in rows):
        cells = {(row["live"], row["window"]): row for row in rows if row["model"] == name}
        for live in sorted({live for live, _ in cells}):
            shown = [f"{cells[live, w]['bytes'] / 2**20:.0f}" if (live, w) in cells else "" for w in (0, 8, 64)]
            lines.append([name, str(live), *shown])
    heading = ["model", "samples at once", "single steps", "window 8", "window 64"]
    return table(heading, lines)


def _by_way(found: Row, proteins: list[Row]) -> dict[str, dict[str, float]]:
    """Seconds of every way to draw from every model; of older data, of those that were measured."""
    models: dict[str, dict[str, float]] = {}
    for name, (what, part) in _MODELS.items():
        if name in found.get("ways", {}):
            models[what] = {way: row["seconds"] for way, row in found["ways"][name].items()}
        elif part is not None:
            one = _best_sequential(found) if part == "fashion" else found[part]["sequential"]
            models[what] = {"captured": one["seconds"], "drawahead": found[part]["auto"]["seconds"]}
    for sides in [sides for name, sides in found.get("pipeline", {}).items() if name != "training"][:1]:
        one = {"plain loop": _once(sides["ddpm"])}
        one |= {way: sides[key]["seconds"] for way, key in _CHAINS.items() if key in sides}
        models["an image of a diffusers pipeline"] = one | {"drawahead": _once(sides["drawahead"])}
    for row in proteins[:1]:
        seconds = row["median_seconds"]
        ways = {"plain loop": "published", "captured": "captured", "drawahead": "drawahead"}
        what = f"{row['samples']} protein sequences"
        models[what] = {way: seconds[key] for way, key in ways.items() if key in seconds}
    return models


_MODELS = {
    "image": ("an image, 1000 steps", "fashion"),
    "text": ("a text, 256 characters", "text"),
    **{name: (what, None) for name, what in _PICTURES.items()},
}
_CHAINS = {"captured": "sequential", "captured, compiled": "sequential compiled"}


def _ways(found: Row, proteins: list[Row]) -> str:
    lines = []
    for what, ways in _by_way(found, proteins).items():
        best = min(ways[way] for way in ways if way.startswith("drawahead"))
        others = [ways[way] for way in ways if not way.startswith("drawahead")]
        cells = [_seconds(ways[way]) if way in ways else "" for way in WAYS]
        times = [f"{seconds / best:.{0 if seconds >= 20 * best else 1}f}" for seconds in (max(others), min(others))]
        lines.append([what, *cells, " to ".join(reversed(times)) if times[0] != times[1] else times[0]])
    return table(["", *WAYS, "times faster"], lines)


def bars(found: Row, proteins: list[Row], path: Path) -> None:
    """Seconds of every way, one bar each."""
    models = _by_way(found, proteins)
    colours = ("#9aa0a6", "#6f7fb5", "#4c5c9c", "#e07b39", "#c8501e")
    with plots.canvas(path, 8.2, 1.0 + 0.95 * len(models)) as drawing:
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
        axes.set_yticks(range(len(models)), list(models))
        axes.invert_yaxis()
        axes.set_xlabel("seconds, on a logarithmic scale")
        drawing.legend(loc="outside lower center", ncols=3)


def _overview_line(what: str, one_by_one: float, ahead: float, rounds: float) -> list[str]:
    times = one_by_one / ahead
    return [what, _seconds(one_by_one), _seconds(ahead), f"**{times:.{0 if times >= 20 else 1}f}**", f"{rounds:.0f}"]


def _seconds(seconds: float) -> str:
    """Two digits and a bit: 15.2 s, 0.30 s, 0.024 s."""
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds:.3f} s"


def _once(row: Row) -> float:
    """Warm seconds, or those of the first call if there was no other."""
    return float(row["seconds"] or row["cold"])


def _everyone(found: Row) -> str | None:
    """Samplers as they come, beside their captured rounds alone."""
    lines = []
    for name, label in (("fashion", "image"), ("text", "text")):
        part = found[name]
        if "others" not in part:
            return None
        whole = [("Coupled()", row) for row in _windows(part) if row["window"] is None]
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


def _cold(part: Row) -> str:
    lines = []
    for name, label in (("fashion", "image"), ("text", "text")):
        if name not in part:
            continue
        first = {key: [row["first"] for row in rows] for key, rows in part[name].items()}
        middle = {key: statistics.median(seconds) for key, seconds in first.items()}
        load = statistics.median(row["load"] for rows in part[name].values() for row in rows)
        sides = [f"{middle[key]:.2f} {_range(first[key], 2)}" for key in ("sequential", "auto")]
        lines.append([f"one {label}", *sides, f"{middle['auto'] / middle['sequential']:.2f}", f"{load:.2f}"])
    return table(["first call", "`Sequential`, s", "`Auto`, s", "ratio", "loading the model, s"], lines, right=False)


def _auto_again(part: Row) -> str:
    lines = []
    for name, label in (("fashion", "image"), ("text", "text")):
        for row in part.get(name, ()):
            said, came = row["predicted_gain"], row["measured_gain"]
            lines.append(
                [
                    label,
                    f"`{_chosen({'sampler': row['chosen']})}`",
                    f"{row['auto'] * 1e3:.1f}",
                    f"{'all' if row['best'] == 'None' else row['best']}: {row['windows'][row['best']] * 1e3:.1f}",
                    f"{row['ratio']:.2f}",
                    "" if said is None else f"{said:.1f}",
                    f"{came:.1f}",
                ]
            )
    heading = ["one", "`Auto` chose", "ms", "best window: ms", "ratio", "predicted gain", "measured gain"]
    return table(heading, lines, right=False)


_STACKED = {
    "rtk": "reverse transition kernels: Langevin steps in 8 segments",
    "ardiffusion": "auto-regressive diffusion in 4 parts",
}


def _stacked(part: Row) -> str:
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
    return table(heading, lines, right=False)


def _pipeline(part: Row) -> str:
    lines = []
    for dtype, sides in part.items():
        if dtype == "training":
            continue
        for which, name in (("ddpm", "`DDPMPipeline`"), ("drawahead", "`DrawaheadPipeline`")):
            row = sides[which]
            rounds = row.get("rounds", row["steps"])
            cells = [f"{row['cold']:.2f}", _seconds(_once(row)), f"{rounds:.1f}"]
            lines.append([dtype, name, *cells, f"{_once(sides['ddpm']) / _once(row):.1f}"])
    return table(["UNet in", "pipeline", "first image, s", "next images", "rounds", "times less"], lines, right=False)


def _condition(part: Row) -> str:
    rows = (("the first call", "first"), ("another condition", "another"), ("another chain (`replace`)", "replaced"))
    lines = []
    for label, key in rows:
        row = part[key]
        kept = "yes" if row["graphs_kept"] else "no"
        lines.append([label, f"{row['seconds'] * 1e3:.1f}", f"{row['rounds']:.1f}", kept, str(row["captures"])])
    return table(["call", "ms", "rounds", "graphs used again", "captured"], lines, right=False)


def _remarks(found: Row) -> dict[str, str | None]:
    """What holds of some data only: how they were made, what was measured before, where `Auto` wavered."""
    first = found.get("first_run", {}).get("fashion")
    again = found["text"].get("eager_again") if _eager(found, "text") else None
    alone, together = _chosen(found["fashion"]["auto"]), _chosen(found["fashion"]["batches"][0]["auto"])
    return {
        "note": found.get("note"),
        "first_rounds": first and f"{first['auto']['mean_rounds']:.1f}",
        "first_ratio": first and _ratio(first["sequential"], first["auto"]),
        "eager_first": again and f"{again['first_seconds']:.2f}",
        "eager_again": again and f"{again['again_seconds']:.2f}",
        "eager_note": again and again["note"],
        "chosen_alone": None if alone == together else alone,
        "chosen_in_batches": None if alone == together else together,
    }


def _ratio(sequential: Row, row: Row, digits: int = 1) -> str:
    return f"{sequential['seconds'] / row['seconds']:.{digits}f}"


def _ms(row: Row) -> str:
    low, high = min(row["all_seconds"]), max(row["all_seconds"])
    return f"{row['seconds'] * 1e3:.1f} ({low * 1e3:.1f} - {high * 1e3:.1f})"


def _rounds(row: Row) -> str:
    error = row["rounds_standard_error"]
    return Estimate(row["mean_rounds"], error).rounded(1) if error else f"{row['mean_rounds']:.1f}"


def _best_sequential(found: Row) -> Row:
    """Of an image, the fastest that was measured."""
    rows = [found["fashion"]["sequential"]]
    rows += [row["captured"] for name, row in found.get("ways", {}).items() if name == "image" and "captured" in row]
    return min(rows, key=lambda row: row["seconds"])


def _tuned(part: Row) -> Row:
    """The best of the windows tried by hand."""
    return min(_windows(part), key=lambda row: row["seconds"])


def _windows(part: Row) -> list[Row]:
    """Those of this run; of others only the rounds are used, by the page about several GPUs."""
    return [row for row in part["coupled"] if not row.get("older")]


def _beside_best(part: Row) -> str:
    return f"{part['auto']['seconds'] / _tuned(part)['seconds']:.2f}"


def _choice(auto: Row) -> str:
    return f"{auto['sampler'].split('(')[0]}: {auto['choice']}"


def _chosen(row: Row) -> str:
    """The sampler of a row, without what hardly differs."""
    name: str = row["sampler"]
    return name.replace(", secant=True", "").split(", least")[0].rstrip(")").replace("()", "(") + ")"


def _eager(found: Row, name: str) -> Row:
    """Rows without graphs, if they are of the run that the others are of."""
    together = "measured" not in found or "eager" in found["measured"]
    return found[name].get("eager", {}) if together else {}


def _one(part: Row, sequential: Row, eager: Row) -> str:
    rows = [("Sequential, best", sequential)]
    rows += [(f"Coupled, window {row['window'] or 'all'}", row) for row in _windows(part)]
    rows += list(part.get("others", {}).items())
    rows += [("**Auto**", part["auto"])]
    rows += [(f"without graphs: {key}", row) for key, row in eager.items()]
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


def _outside(part: Row) -> str:
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
    return table(["model", "window", "ms per round", "the model alone, ms", "outside it"], lines, right=False)


def _batches(rows: list[Row]) -> str:
    heading = ["samples at once", "sequential, s", "coupled, s", "times less", "Auto, s", "times less", "Auto chose"]
    lines = [
        [
            str(row["batch"]),
            f"{row['sequential']['seconds']:.3f}",
            f"{row['coupled']['seconds']:.3f}",
            _ratio(row["sequential"], row["coupled"], 2),
            f"{row['auto']['seconds']:.3f}",
            _ratio(row["sequential"], row["auto"], 2),
            f"`{_chosen(row['auto'])}`",
        ]
        for row in rows
    ]
    return table(heading, lines, right=False)


def _law(law: Row) -> dict[str, str | None]:
    images, texts = law["fashion"], law["text"]
    power = texts.get("power")
    return {
        "law_samples": str(images["num_samples"]),
        "law_tests": str(images["tests"]),
        "law_images": f"{images['p']:.2f}",
        "law_visible": f"{_visible(images['num_samples'], 0.001 / images['tests']):.2f}",
        "law_features": str(texts["features"]),
        "law_texts": f"{texts['p']:.2f}",
        "law_permutations": str(texts["permutations"]),
        "law_power": power and ", ".join(f"{chance:.0%} for {float(share):.1%}" for share, chance in power.items()),
    }


def _visible(num: int, level: float) -> float:
    """The Kolmogorov-Smirnov distance that two samples of this size reach half of the time at this level."""
    return math.sqrt(-math.log(level / 2) / num)


def _numerics(part: Row) -> str:
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
    return table(heading, lines, right=False)


def figure(found: Row, proteins: list[Row], path: Path) -> None:
    """Times less against samples drawn together."""
    with plots.canvas(path, 6.4, 3.8) as drawing:
        axes = drawing.subplots()
        for name, colour, marker in (("fashion", "#0072B2", "o"), ("text", "#009E73", "v")):
            rows = found[name]["batches"]
            x = [row["batch"] for row in rows]
            for key, style in (("coupled", ":"), ("auto", "-")):
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
