"""What is measured against the length is what it says, and pages are made from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from studies import diffusion, rounds
from studies.__main__ import run
from studies.estimates import mean, slope
from studies.growth.figure import scaling
from studies.growth.grid import measured
from studies.growth.settings import Plan, Setting, TokenSetting
from studies.growth.slopes import slopes
from studies.localization import DIMENSIONS, ERRORS, error_table

PLAN = Plan(sizes=(8, 16, 32), most_samples=3, recursive_seconds=1e9)
MADE = {"versions": {"drawahead": "0"}, "seconds": 1.0}


def silent(label: str, done: int, total: int) -> None:
    assert 1 <= done <= total


def test_rounds_are_measured_and_shown(tmp_path: Path) -> None:
    chosen: list[Setting] = [TokenSetting("pairs", sampler) for sampler in ("sequential", "recursive", "block")]
    chosen.append(TokenSetting("pairs", "block", "left to right"))
    data = json.loads(json.dumps(MADE | measured(PLAN, chosen, silent)))
    cells = {(cell["sampler"], cell["order"], cell["n"]): cell for cell in data["measurements"]}
    assert cells["sequential", "random", 16]["rounds"] == 16 == cells["sequential", "random", 16]["queries"]
    assert cells["block", "random", 32]["rounds"] < 32
    page = rounds.STUDY.render([data])
    assert "| sequential | 1.00 ± 0.00 |" in page
    assert "| pairs, n = 1024, block: rounds | at most 22 | - | - |" in page  # not tried
    sequential = [fit for fit in data["slopes"] if fit["sampler"] == "sequential"]
    assert sequential and all(fit["exponent"] == pytest.approx(1.0) for fit in sequential)
    scaling(data, tmp_path / "rounds.png")
    assert (tmp_path / "rounds.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_settings_are_measured_side_by_side() -> None:
    chosen = [TokenSetting("pairs", sampler) for sampler in ("block", "coupled")]
    alone, together = (measured(PLAN, chosen, silent, workers) for workers in (1, 2))
    for one, other in zip(alone["measurements"], together["measurements"], strict=True):
        assert one | {"seconds": 0} == other | {"seconds": 0}


def test_a_diffusion_is_measured() -> None:
    chosen = [diffusion.DiffusionSetting("hypercube", 4, sampler) for sampler in ("sequential", "coupled", "block")]
    data = MADE | measured(PLAN, chosen, silent)
    cells = {(cell["sampler"], cell["n"]): cell for cell in data["measurements"]}
    assert cells["sequential", 32]["queries"] == 32 and 1 <= cells["coupled", 32]["rounds"] < 32
    assert all(cell["status"] == "measured" for cell in data["measurements"])
    page = diffusion.STUDY.render([data | {"delta": 0.1, "aims": [], "localization": error_table(draws=200)}])
    assert "### hypercube, d = 4" in page and "| sequential | 8.0 ± 0.0 / 8 ± 0 |" in page


def test_no_slope_from_two_points() -> None:
    cell = {"target": "t", "sampler": "s", "order": "random", "status": "measured", "rounds": 1.0, "queries": 1.0}
    assert slopes([]) == [] == slopes([cell | {"n": n} for n in (2, 4)])
    assert len(slopes([cell | {"n": n} for n in (2, 4, 8)])) == 2


def test_estimates() -> None:
    line = slope([0, 1, 2], [1.0, 3.0, 5.0])
    assert (line.value, line.error) == (pytest.approx(2), pytest.approx(0, abs=1e-9))
    assert slope([0, 1, 2], [0.0, 0.0, 3.0]).error == pytest.approx((1.5 / 2) ** 0.5)
    assert (mean([1.0, 3.0]).value, mean([1.0, 3.0]).error) == (2.0, pytest.approx(1.0)) and mean([4.0]).error == 0.0
    assert str(mean([0.0121, 0.0123])) == "0.0122 ± 0.0001" and mean([-0.001]).rounded(2) == "0.00 ± 0.00"


def test_the_error_table() -> None:
    rows = error_table(draws=2000)["rows"]
    assert [(row["dimension"], row["asked"]) for row in rows] == [(d, e) for d in DIMENSIONS for e in ERRORS]
    assert all(0 <= row["measured"] < row["asked"] for row in rows)


def test_the_figures_of_the_coupled_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("coupled", ["--out", str(tmp_path)])
    names = ["coupled-mirror.png", "coupled-guesses.png", "coupled-committed.png"]
    paths = [tmp_path / "figures" / name for name in names]
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in paths)
    assert capsys.readouterr().out.splitlines() == [f"wrote {path}" for path in paths]


@pytest.mark.slow
def test_the_lower_bound_page_is_made_from_what_was_measured(tmp_path: Path) -> None:
    run("lower-bound", ["--quick", "--out", str(tmp_path)])
    data = json.loads((tmp_path / "data" / "lower-bound.json").read_text())
    rounds_of = {(cell["target"], cell["order"], cell["sampler"], cell["n"]): cell for cell in data["measurements"]}
    assert rounds_of["hard", "random", "sequential", 256]["rounds"] == 256
    fixed, free = (rounds_of["pairs", order, "block", 256]["rounds"] for order in ("left to right", "random"))
    assert fixed > 3 * free  # what the page says of a fixed order
    assert data["options"] == "--quick" and "OPTIONS='--quick'" in (tmp_path / "lower-bound.md").read_text()
    assert (tmp_path / "figures" / "lower-bound.png").stat().st_size > 0
