"""Pipelines of diffusers, tiny and with random weights, one by one beside their own loops, with the same noise.

make bench STUDY=pipelines                # a minute, with diffusers: the table of docs/diffusers.md
"""

from __future__ import annotations

import argparse

import drawahead as da
from studies.emoji import page
from studies.pipelines.beside import STEPS, difference
from studies.pipelines.catalogue import CASES
from studies.pipelines.parts import diffusers
from studies.study import Data, Stamp, Study, Watch


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Every case of the catalogue."""
    stamp, rows = Stamp(arguments), list[Data]()
    for done, case in enumerate(CASES):
        watch(case.kind, done, len(CASES))
        row: Data = {"class": case.kind, "what": case.what, "difference": None, "reason": ""}
        try:
            row["difference"] = float(f"{difference(case):.1e}")
        except da.InputError as error:
            row["reason"] = str(error)
        rows.append(row)
    rows.sort(key=lambda row: str(row["class"]))
    return {**stamp.made(), "diffusers": diffusers.__version__, "steps": STEPS, "images": 2, "rows": rows}


STUDY = Study("pipelines", measure, page, {}, page="diffusers", sources=("emoji", "pipelines"))
