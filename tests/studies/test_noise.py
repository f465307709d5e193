"""The study of noise: the law of a random order is right, and its page is made from what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from drawahead import Noisy
from drawahead.targets import DenseLogistic, Pairs, Table
from studies import noise
from studies.__main__ import run
from tests.exactness import averaged_law


def test_the_law_of_a_random_order() -> None:
    for oracle in (DenseLogistic(4, beta=2.0), Noisy(Table.random(3, q=3), 0.1), Noisy(Pairs(4), 0.05)):
        law = noise.random_order_law(oracle)
        assert torch.allclose(law, averaged_law(oracle), atol=1e-12)


def test_it_is_measured_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(noise, "TARGETS", {"table": lambda: Table.random(4)})
    monkeypatch.setattr(noise, "ROUNDS_LENGTH", 16)
    monkeypatch.setattr(noise, "QUICK", noise.Plan(400, 10, errors=(0.03, 0.1), sampled=(0.1,), rounds_samples=2))
    run("noise", ["--quick", "--out", str(tmp_path)])
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    assert written == {"data/noise.json", "figures/noise.png", "noise.md"}
    assert (tmp_path / "figures" / "noise.png").read_bytes()[:4] == b"\x89PNG"
    page = (tmp_path / "noise.md").read_text()
    assert "| a constant, errors at random | 1.00 |" in page
    assert "`make bench STUDY=noise OPTIONS='--quick'`" in " ".join(page.split())
