"""Samples on disk: .npz for numpy, .json for everything else, .png for images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy

from drawahead import plots
from drawahead.errors import InputError
from drawahead.sample import Result

FORMATS = (".npz", ".json", ".png")


def check(path: Path, *, image: bool) -> None:
    """Refuse, before anything is drawn, a file that cannot be written."""
    if path.suffix not in FORMATS:
        raise InputError(f"--out must end in {', '.join(FORMATS)}, not {path.name!r}")
    if path.suffix == ".png":
        if not image:
            raise InputError(f"--out {path.name!r}: the samples of this target are not images; write .npz or .json")
        plots.check()
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}")


def to_dict(name: str, result: Result) -> dict[str, Any]:
    """Samples and report as plain values, ready for json.dumps."""
    return {"target": name, "samples": result.samples.tolist(), "report": result.report.to_dict()}


def write(path: Path, name: str, result: Result) -> None:
    """Write samples and report in the format that the file's name asks for; an image holds the samples alone."""
    if path.suffix == ".png":
        plots.images(result.samples, path)
        return
    if path.suffix == ".json":
        path.write_text(json.dumps(to_dict(name, result)) + "\n")
        return
    report = json.dumps(result.report.to_dict())
    with path.open("wb") as file:
        numpy.savez_compressed(file, samples=result.samples.numpy(), target=name, report=report)
