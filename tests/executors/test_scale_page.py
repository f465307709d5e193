"""The page on scale says what its data say, and its formulas are right."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def sizing(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    yield importlib.import_module("sizing")
    for name in ("sizing", "scale_page"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("sizing")
def test_the_page_is_up_to_date() -> None:
    pytest.importorskip("matplotlib")
    scale_page = importlib.import_module("scale_page")
    text = (ROOT / "docs" / "scale.md").read_text()
    again = scale_page.page(text, ROOT / "docs" / "data" / "executors.json")
    assert again == text, "run `python benchmarks/executors.py --page docs/data/executors.json`"


def test_the_best_number_of_workers_is_the_best(sizing: ModuleType) -> None:
    line = sizing.Line.through([(w, 0.002 + 0.0005 * w) for w in (1.0, 2.0, 8.0)])
    overhead = sizing.Overhead(line, 0.001)
    assert math.isclose(line.start, 0.002, rel_tol=1e-6) and line.worst < 1e-6
    best = sizing.best_workers(64, 0.01, overhead)
    seconds = {w: 64 * 0.01 / w + overhead(w) for w in (best / 1.1, best, best * 1.1)}
    assert min(seconds, key=seconds.__getitem__) == best


def test_shares_of_samples_and_of_rounds(sizing: ModuleType) -> None:
    device, flat = sizing.Line(0.001, 0.0001, ()), sizing.Line(0.0, 0.0, ())
    model = sizing.Model("a model", device, ((10, 5.0),), ((1, 0.1), (4, 0.2)), 0.0, 0.0)
    assert model.by_samples(1, 100) == 0.1 and model.by_samples(8, 2) == 0.2
    assert math.isclose(model.by_samples(9, 1), 0.2 + 0.2 + 0.1)
    free = sizing.Overhead(flat, 0.0)
    assert math.isclose(model.by_rounds(1, 1, free), 5 * (0.001 + 10 * 0.0001))
    assert math.isclose(model.by_rounds(1, 10**6, free), 5 * (0.001 + 0.0001)), "no shard is smaller than an item"
    assert math.isclose(model.floor(10), 1.0)
