"""Imports go the way the picture in docs/design.md shows: from each room to the lines above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "drawahead"
PICTURE = (ROOT / "docs" / "design.md").read_text().split("```")[1]
LINE = {room: i for i, line in enumerate(PICTURE.splitlines()) for room in re.split(", ?", line.split("  ")[0]) if room}


def room_of(module: str) -> str:
    """The room of a module such as drawahead.engine.threads; of the package itself, nothing."""
    name = module.removeprefix("drawahead").removeprefix(".")
    return "engine.threads" if name.startswith("engine.threads") else name.split(".")[0].removesuffix("_cuda")


def imported(path: Path) -> Iterator[str]:
    """The modules of drawahead that a file imports when it is loaded."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("drawahead"):
            inside = node.module in ("drawahead", "drawahead.engine")
            yield from (f"{node.module}.{alias.name}" for alias in node.names) if inside else [node.module]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_from_above(path: Path) -> None:
    own = room_of("drawahead." + ".".join(path.relative_to(SOURCE).with_suffix("").parts))
    if own == "__init__":
        return
    assert own in LINE, f"{own} is not in the picture of docs/design.md"
    below = [module for module in imported(path) if (room := room_of(module)) != own and LINE[room] >= LINE[own]]
    assert not below, f"{own} may not import from its own line or from below: {below}"


def test_the_picture_shows_no_room_that_is_not_there() -> None:
    there = {room_of(f"drawahead.{path.stem}") for path in SOURCE.iterdir()} | {"engine.threads"}
    assert set(LINE) <= there
