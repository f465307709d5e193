"""Imports go the way the picture in docs/design.md shows: from each room to the lines above it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "drawahead"
PICTURE = (ROOT / "docs" / "design.md").read_text().split("```")[1]
LINE = {room: i for i, line in enumerate(PICTURE.splitlines()) for room in re.split(", ?", line.split("  ")[0]) if room}


INNER = {room for room in LINE if "." in room}
"""Rooms inside a room, which stand higher than the rest of it."""


def room_of(module: str) -> str:
    """The room of a module such as drawahead.rounds.threads; of the package itself, nothing."""
    parts = module.removeprefix("drawahead").removeprefix(".").split(".")
    if "commands" in parts:  # a house brings its own commands along
        return "cli"
    inner = ".".join(parts[:2])
    return inner if inner in INNER else parts[0].removesuffix("_cuda")


def imported(path: Path) -> Iterator[str]:
    """The modules of drawahead that a file imports when it is loaded."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("drawahead"):
            inside = node.module in {"drawahead", *(f"drawahead.{room.split('.')[0]}" for room in INNER)}
            yield from (f"{node.module}.{alias.name}" for alias in node.names) if inside else [node.module]


def test_a_room_imports_from_above() -> None:
    below = []
    for path in SOURCE.rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if (own := room_of(f"drawahead.{name}")) == "__init__":
            continue
        assert own in LINE, f"{own} is not in the picture of docs/design.md"
        rooms = {module: room_of(module) for module in imported(path)}
        below += [(name, module) for module, room in rooms.items() if room != own and LINE[room] >= LINE[own]]
    assert not below, "a room may not import from its own line or from below"


def test_the_picture_shows_no_room_that_is_not_there() -> None:
    there = {room_of(f"drawahead.{path.stem}") for path in SOURCE.iterdir()}
    assert set(LINE) <= there | {room for room in INNER if (SOURCE / f"{room.replace('.', '/')}.py").is_file()}


HOUSES = ("adapters", "ardiffusion", "counting", "design", "jobs", "networks", "rtk", "targets", "teaching")


def test_what_shows_samples_loads_no_house() -> None:
    """A view, a page and a film of a user's own model: nothing is loaded that knows other models."""
    script = """
import sys, torch, drawahead as da
chain = da.TokenChain(lambda tokens: torch.zeros(*tokens.shape, 3).log_softmax(-1), length=6, vocab_size=3)
result = da.sample(chain, 2, sampler=da.Coupled(), seed=0)
assert da.show.page(chain, result).startswith("<!doctype html>") and result._repr_html_()
print(*{module.split(".")[1] for module in sys.modules if module.startswith("drawahead.")})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "show" in done.stdout.split() and not set(done.stdout.split()) & set(HOUSES)


def test_a_folder_is_looked_over_at_a_glance() -> None:
    files = list(SOURCE.rglob("*.py"))
    assert not {folder for folder, number in Counter(path.parent for path in files).items() if number > 12}
    assert not {path for path in files if len(path.read_text().splitlines()) > 300}
