"""Which structures a job designs: files, and the structure files of folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drawahead.errors import InputError
from drawahead.proteins.structures.atoms import SUFFIXES


def named(path: Path) -> str:
    """The name of the structure in a file: that of the file without its endings."""
    stem = path.name.removesuffix(".gz")
    return next((stem.removesuffix(suffix) for suffix in SUFFIXES if stem.lower().endswith(suffix)), stem)


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
                    f"the folder has no structures: files that end in {', '.join(SUFFIXES)}, or .gz of them"
                )
        for file in files:
            name = named(file)
            if name in found:
                wrong[str(file)] = f"{found[name]} is called {name}, too: give one of them another name"
            else:
                found[name] = file
    if not found and not wrong:
        raise InputError("name at least one structure file, or a folder of them")
    return found, wrong


def _is_structure(path: Path) -> bool:
    return path.is_file() and path.name.lower().removesuffix(".gz").endswith(SUFFIXES) and not path.name.startswith(".")
