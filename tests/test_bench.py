"""The benchmarks measure what they say, and their pages are made from what they measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drawahead.bench import diffusion, lower_bound, rounds
from drawahead.bench.coupled import run as run_coupled
from drawahead.bench.page import page
from drawahead.bench.settings import Plan, Setting, TokenSetting
from drawahead.bench.slopes import slopes

PLAN = Plan(sizes=(8, 16, 32), most_samples=3, recursive_seconds=5.0)


def test_rounds_are_measured_and_written(tmp_path: Path) -> None:
    chosen: list[Setting] = [TokenSetting("pairs", sampler) for sampler in ("sequential", "recursive", "block")]
    chosen.append(TokenSetting("pairs", "block", "left to right"))
    bench = rounds.measured(PLAN, chosen) | {"command": "test"}
    cells = {(cell["sampler"], cell["order"], cell["n"]): cell for cell in bench["measurements"]}
    assert cells["sequential", "random", 16]["rounds"] == 16 == cells["sequential", "random", 16]["queries"]
    assert cells["block", "random", 32]["rounds"] < 32
    paths = rounds.write(tmp_path, "rounds", bench, page(bench))
    assert all(path.stat().st_size > 0 for path in paths)
    assert "| sequential | 1.00 ± 0.00 |" in paths[2].read_text()
    sequential = [slope for slope in bench["slopes"] if slope["sampler"] == "sequential"]
    assert sequential and all(slope["exponent"] == pytest.approx(1.0) for slope in sequential)


def test_a_diffusion_is_measured() -> None:
    chosen = [diffusion.DiffusionSetting("hypercube", 4, sampler) for sampler in ("sequential", "coupled", "block")]
    bench = rounds.measured(PLAN, chosen)
    cells = {(cell["sampler"], cell["n"]): cell for cell in bench["measurements"]}
    assert cells["sequential", 32]["queries"] == 32 and 1 <= cells["coupled", 32]["rounds"] < 32
    assert all(cell["status"] == "measured" for cell in bench["measurements"])


def test_no_slope_from_two_points() -> None:
    assert slopes([]) == []


def test_the_figures_of_the_coupled_page(tmp_path: Path) -> None:
    paths = run_coupled(tmp_path)
    assert [path.name for path in paths] == ["coupled-mirror.png", "coupled-guesses.png", "coupled-committed.png"]
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in paths)


def test_the_lower_bound_page_is_made_from_what_was_measured(tmp_path: Path) -> None:
    paths = lower_bound.run(tmp_path, quick=True)
    assert all(path.stat().st_size > 0 for path in paths)
    bench = json.loads(paths[0].read_text())
    rounds_of = {(cell["target"], cell["order"], cell["sampler"], cell["n"]): cell for cell in bench["measurements"]}
    assert rounds_of["hard", "random", "sequential", 256]["rounds"] == 256
    fixed, free = (rounds_of["pairs", order, "block", 256]["rounds"] for order in ("left to right", "random"))
    assert fixed > 3 * free  # what the page says of a fixed order
    assert paths[2].read_text() == lower_bound.page(bench)
