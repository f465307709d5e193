"""The command line: what it prints, what it writes, and one clear line when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import drawahead as da
from drawahead.cli.app import run
from drawahead.samplers import SAMPLERS
from drawahead.targets import CHAINS, TARGETS


def test_sample_prints_the_samples_and_what_they_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sample", "pairs", "--num", "3", "--size", "10", "--seed", "4"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    drawn = da.sample(da.targets.Pairs(10), 3, seed=4).samples
    assert lines[:3] == ["".join(map(str, row)) for row in drawn.tolist()]
    assert "rounds" in shown.out and "queries" in shown.out
    assert shown.err == ""  # no progress where there is no terminal


def test_json_is_one_object_and_quiet_is_only_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sample", "ising", "--num", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["samples"]) == 2 == shown["report"]["num_samples"]
    assert run(["sample", "ising", "--num", "2", "--quiet"]) == 0
    assert capsys.readouterr().out.split() == ["".join(map(str, row)) for row in shown["samples"]]


def test_files_hold_the_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.npz", "a.json"):
        assert run(["sample", "markov", "--num", "2", "--size", "6", "--quiet", "--out", str(tmp_path / name)]) == 0
    samples = json.loads((tmp_path / "a.json").read_text())["samples"]
    assert np.load(tmp_path / "a.npz")["samples"].tolist() == samples
    assert capsys.readouterr().out == ""


def test_images_are_written_as_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sample", "digits", "--num", "2", "--window", "200"]) == 0
    shown = capsys.readouterr().out
    assert "wrote digits.png" in shown and "█" in shown
    assert (tmp_path / "digits.png").read_bytes()[:4] == b"\x89PNG"


def test_compare_has_a_row_for_every_sampler(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "urns", "--num", "40", "--size", "6"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in SAMPLERS) and "law" in shown
    assert run(["compare", "hypercube", "--num", "20", "--size", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["sampler"] for row in rows] == list(SAMPLERS)
    assert {row["sampler"]: row["exact"] for row in rows}["picard"] is False


def test_registries_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["targets"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*TARGETS, *CHAINS))
    assert run(["samplers"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in SAMPLERS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sample", "nothing"], "there is no target 'nothing'; the targets are product"),
        (["sample", "pairs", "--sampler", "nothing"], "the samplers are sequential"),
        (["sample", "pairs", "--size", "7"], "n must be even"),
        (["sample", "pairs", "--num", "0"], "num"),
        (["sample", "pairs", "--sampler", "sequential", "--window", "3"], "takes no window"),
        (["sample", "pairs", "--out", "a.txt"], "--out must end in"),
        (["sample", "pairs", "--out", "a.png"], "not images"),
        (["sample", "pairs", "--out", "/nowhere/a.npz"], "no folder"),
        (["sample", "ising", "--size", "40"], "12"),
        (["nothing"], "nothing"),
    ],
)
def test_bad_input_is_one_line_and_a_status(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) != 0
    shown = capsys.readouterr()
    assert shown.out == "" and words in shown.err and len(shown.err.splitlines()) == 1
