"""The page: the data in tables and numbers, and the words that follow from them."""

from __future__ import annotations

import itertools
from typing import Any

from studies.ardiffusion import tables
from studies.ardiffusion.parallel import INNER, SAMPLERS, SIZE
from studies.ardiffusion.shapes import UNRELATED
from studies.ardiffusion.words import compared
from studies.estimates import Estimate, mean
from studies.study import Data, origin
from studies.tables import listed

Row = dict[str, Any]


def values(data: Data) -> dict[str, str | None]:
    """What the page says."""
    made = origin(data, "ardiffusion")
    del made["seconds"]
    return (
        made
        | _when_to_use_it(data)
        | _shapes(data)
        | _toy(data)
        | _agreed(data["agreed"])
        | {
            "minutes": f"{data['seconds'] / 60:.0f}",
            "where": "on one core of a shared CPU" if data["machine"] == "CPU" else f"on one {data['machine']}",
            "shapes": tables.shapes(data["shapes"]),
            "exact_pairs": tables.exact_pairs(data["exact pairs"]),
            "trained_pairs": tables.trained_pairs(data["trained pairs"]),
            "lemma": tables.lemma(data["lemma"]),
            "bound": tables.bound(data["bound"]),
            "size": str(SIZE),
            "samples": str(data["rounds"][0]["samples"]),
            "rounds": tables.rounds(data["rounds"]),
            "repeats": str(data["timed"][0]["repeats"]),
            "timed": tables.timed(data["timed"]),
        }
    )


def _when_to_use_it(data: Data) -> dict[str, str]:
    """Said from the numbers."""
    found = _gaussian(data) | _cost(data["timed"])
    most = max(row["steps"] for row in data["shapes"])
    for task in ("across", "within"):
        rows = [row for row in data["shapes"] if (row["task"], row["steps"]) == (task, most)]
        parts, jointly = (
            mean(row["relation_error"] for row in rows if row["model"] == name)
            for name in ("auto-regressive", "joint, transformer")
        )
        found |= _verdict(task, parts, jointly)
    return found


def _verdict(case: str, parts: Estimate, jointly: Estimate) -> dict[str, str]:
    return {
        f"{case}_parts": str(parts),
        f"{case}_jointly": str(jointly),
        f"{case}_verdict": compared(parts, jointly),
    }


def _gaussian(data: Data) -> dict[str, str]:
    width = min(row["width"] for row in data["trained pairs"])
    rows = [row for row in data["trained pairs"] if row["width"] == width]
    exact = [row["auto-regressive"]["kl"] / row["joint"]["kl"] for row in data["exact pairs"]]
    more = {"width": f"{width:g}", "exact_least": f"{min(exact):.1f}", "exact_most": f"{max(exact):.1f}"}
    return _verdict("gaussian", *(mean(row[kind]["kl"] for row in rows) for kind in tables.KINDS)) | more


def _cost(timed: list[Row]) -> dict[str, str]:
    """Of the first inner sampler with the most parts, by the sampler with the fewest rounds."""
    most = max(row["number"] for row in timed)
    first = next(row for row in timed if row["number"] == most)
    rows = [row for row in timed if (row["inner"], row["number"]) == (first["inner"], most)]
    best = min(rows, key=lambda row: float(row["rounds"]))
    return {
        "cost_parts": str(most),
        "cost_steps": f"{first['steps']:.0f}",
        "cost_sampler": best["sampler"].title(),
        "cost_rounds": f"{best['rounds']:.0f}",
        "cost_queries": f"{best['queries']:.0f}",
        "cost_ratio": f"{best['ratio']:.1f}",
    }


def _shapes(data: Data) -> dict[str, str]:
    plan = data["plan"]
    return {
        "batch": str(plan["batch"]),
        "dense": str(4 * plan["batch"]),
        "drawn": str(plan["drawn"]),
        "drawing_steps": str(plan["sampling_steps"]),
        "shape_seeds": str(plan["seeds"]),
        "real": f"{max(row['relation_error'] for row in data['real']):.3f}",
        "unrelated": f"{UNRELATED:.3f}",
    }


def _toy(data: Data) -> dict[str, str]:
    rows = data["trained pairs"]
    return {
        "draws": str(data["exact pairs"][0]["draws"]),
        "sizes": " and ".join(str(rows[0][kind]["parameters"]) for kind in tables.KINDS),
        "toy_steps": str(rows[0]["steps"]),
        "toy_seeds": str(len({row["seed"] for row in rows})),
    }


def _agreed(rows: list[Row]) -> dict[str, str | None]:
    """What two-sample tests found; a test that the data lack is named."""
    found = {(row["inner"], row["sampler"]) for row in rows}
    lacking = [key for key in itertools.product(INNER, SAMPLERS) if key not in found]
    return {
        "untested": listed([f"{sampler} ({inner})" for inner, sampler in lacking]) if lacking else None,
        "number": str(rows[0]["number"]),
        "compared": str(rows[0]["compared"]),
        "tests": str(len(rows)),
        "smallest": f"{min(row['p_value'] for row in rows):.2g}",
    }
