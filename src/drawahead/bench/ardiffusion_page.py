"""The page of auto-regressive diffusion, from the data of its benchmark."""

from __future__ import annotations

from typing import Any

from drawahead.bench import ardiffusion_tables as tables
from drawahead.bench import ardiffusion_text as text
from drawahead.bench.ardiffusion_parallel import SIZE
from drawahead.bench.ardiffusion_shapes import UNRELATED
from drawahead.bench.ardiffusion_words import compared, mean_of

Row = dict[str, Any]


def page(bench: dict[str, Any]) -> str:
    """The whole page, from the data that `ardiffusion.json` holds."""
    shapes = "![Images, bars against discs, and training losses](figures/ardiffusion-shapes.png)"
    bound = "![KL, path KL and bound against what is varied](figures/ardiffusion-bound.png)"
    rounds = "![Rounds against the number of parts](figures/ardiffusion-rounds.png)"
    parts = ["# Auto-regressive diffusion", _origin(bench), text.WHAT, text.EXAMPLE, text.PIECES]
    parts += ["## When to use it", words(bench)]
    parts += ["## Dependence across parts, and within", shapes, _shapes(bench), tables.shapes(bench["shapes"])]
    parts += ["## Two toys", _toy(bench), tables.exact_pairs(bench["exact pairs"])]
    parts += [tables.trained_pairs(bench["trained pairs"]), text.LEMMA, tables.lemma(bench["lemma"])]
    parts += ["## The bound, term by term", bound, text.BOUND, tables.bound(bench["bound"])]
    samples = bench["rounds"][0]["samples"]
    parts += ["## Parts in parallel", rounds, text.ROUNDS.format(size=SIZE, samples=samples)]
    parts += [tables.rounds(bench["rounds"]), _timed(bench), tables.timed(bench["timed"]), _agreed(bench["agreed"])]
    parts += ["## What was chosen, and when", text.CHOICES]
    return "\n\n".join(parts) + "\n"


def words(bench: dict[str, Any]) -> str:
    """When to use it, said from the numbers."""
    return "\n".join(f"* {line}" for line in (*_rules(bench), _gaussian(bench), _cost(bench)))


def _rules(bench: dict[str, Any]) -> list[str]:
    most = max(row["steps"] for row in bench["shapes"])
    lines = []
    for task, meaning in (("across", "ties parts together"), ("within", "stays inside parts")):
        rows = [row for row in bench["shapes"] if (row["task"], row["steps"]) == (task, most)]
        ours, joint = (
            mean_of(row["relation_error"] for row in rows if row["model"] == name)
            for name in ("auto-regressive", "joint, transformer")
        )
        lines.append(
            f"**Where a rule {meaning}**: relation error {ours} with parts one by one, {joint} jointly.\n"
            f"  In short: {compared(ours, joint)}."
        )
    return lines


def _gaussian(bench: dict[str, Any]) -> str:
    width = min(row["width"] for row in bench["trained pairs"])
    rows = [row for row in bench["trained pairs"] if row["width"] == width]
    ours, joint = (mean_of(row[kind]["kl"] for row in rows) for kind in tables.KINDS)
    exact = [row["auto-regressive"]["kl"] / row["joint"]["kl"] for row in bench["exact pairs"]]
    return (
        f"**Where all is Gaussian**, x2 = x1 + {width:g} times noise: KL {ours} with two parts, {joint} jointly, for\n"
        f"  trained networks. In short: {compared(ours, joint)}. With exact answers and as many calls, the KL\n"
        f"  with parts is {min(exact):.1f} to {max(exact):.1f} times the joint chain's, whose steps are half as long."
    )


def _cost(bench: dict[str, Any]) -> str:
    most = max(row["number"] for row in bench["timed"])
    first = next(row for row in bench["timed"] if row["number"] == most)
    rows = [row for row in bench["timed"] if (row["inner"], row["number"]) == (first["inner"], most)]
    best = min(rows, key=lambda row: float(row["rounds"]))
    return (
        f"**What it costs**: {most} parts take {first['steps']:.0f} dependent steps one by one; "
        f"`{best['sampler'].title()}` takes {best['rounds']:.0f} rounds and\n  {best['queries']:.0f} queries. "
        f"Measured {_where(bench)} that is {best['ratio']:.1f} times less time, with the same law."
    )


def _origin(bench: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in bench["versions"].items())
    return (
        f"This page is generated: `{bench['command']}` writes it, [its data](data/ardiffusion.json) and its figures.\n"
        f"Measured {_where(bench)} with {versions}, in {bench['seconds'] / 60:.0f} min."
    )


def _where(bench: dict[str, Any]) -> str:
    return "on one core of a shared CPU" if bench["machine"] == "CPU" else f"on one {bench['machine']}"


def _shapes(bench: dict[str, Any]) -> str:
    plan = bench["plan"]
    return text.SHAPES.format(
        batch=plan["batch"],
        dense=4 * plan["batch"],
        drawn=plan["drawn"],
        steps=plan["sampling_steps"],
        seeds=plan["seeds"],
        real=max(row["relation_error"] for row in bench["real"]),
        unrelated=UNRELATED,
    )


def _toy(bench: dict[str, Any]) -> str:
    rows = bench["trained pairs"]
    return text.TOY.format(
        draws=bench["exact pairs"][0]["draws"],
        sizes=" and ".join(str(rows[0][kind]["parameters"]) for kind in tables.KINDS),
        steps=rows[0]["steps"],
        seeds=len({row["seed"] for row in rows}),
    )


def _timed(bench: dict[str, Any]) -> str:
    return text.TIMED.format(machine=_where(bench), repeats=bench["timed"][0]["repeats"])


def _agreed(rows: list[Row]) -> str:
    smallest = min(row["p_value"] for row in rows)
    return text.AGREED.format(
        number=rows[0]["number"], compared=rows[0]["compared"], tests=len(rows), smallest=smallest
    )
