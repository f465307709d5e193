"""`drawahead doctor`: what it says is so, and a self-test that fails is said."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
import torch

import drawahead as da
from drawahead.cli.app import run as main


def test_it_says_what_is_installed_and_how_rounds_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"drawahead   {da.__version__}, Python") and f"torch {version('torch')}" in shown
    assert "self-test   passed" in shown
    if not torch.cuda.is_available():
        assert "GPU         none" in shown and "rounds      not captured: the model is not on a GPU" in shown


def test_a_model_of_ones_own_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "ising", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    steps = da.TokenChain(da.targets.Ising.grid(4, 4)).steps
    assert facts["rounds"]["one_by_one"]["rounds"] == steps > facts["rounds"]["drawahead"]["rounds"] > 0
    assert facts["self_test"]["passed"] and facts["packages"]["numpy"] == version("numpy")


def test_a_self_test_that_fails_is_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = da.targets.Ising.rows

    def by_company(self: da.targets.Ising, tokens: torch.Tensor) -> torch.Tensor:
        """Answers that depend on the place in the batch."""
        told = honest(self, tokens)
        tilt = torch.linspace(0, 1, len(told), dtype=told.dtype)[:, None, None] * torch.arange(told.shape[-1])
        return (told + tilt).log_softmax(-1)

    monkeypatch.setattr(da.targets.Ising, "rows", by_company)
    assert main(["doctor", "pairs"]) == 3
    assert "self-test   FAILED: " in capsys.readouterr().out


def test_an_unknown_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "no-such"]) == 1
    assert "no-such" in capsys.readouterr().err
