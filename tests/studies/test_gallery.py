"""The gallery shows every target, and its samples are those of the commands beside them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from PIL import Image

from drawahead.cli import lookup
from drawahead.cli.app import run
from studies.gallery import ENTRIES, STUDY, Entry, draw
from studies.study import DOCS

DATA = STUDY.data(DOCS)[0]
QUICK = [entry for entry in ENTRIES if entry.key == "dpp-fixed" or entry.name in ("pairs", "matching", "table")]


def test_no_target_is_left_out() -> None:
    assert {entry.name for entry in ENTRIES} == {row["name"] for row in lookup.target_rows()}
    assert len({entry.figure for entry in ENTRIES}) == len(ENTRIES)


def test_pictures_are_small() -> None:
    sizes = [(DOCS / "figures" / f"{entry.figure}.png").stat().st_size for entry in ENTRIES]
    assert sum(sizes) < 1_500_000


@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.figure)
def test_commands_draw_what_is_shown(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(entry.command)
    assert words[0] == "drawahead" and run([*words[1:], "--json"]) == 0
    report, drawn = json.loads(capsys.readouterr().out)["report"], DATA["pictures"][entry.figure]
    assert report["mean_rounds"] == drawn["rounds"] and report["steps"] == drawn["steps"]
    assert len(drawn["samples"]) == entry.samples


@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.figure)
def test_pictures_are_made_from_the_data(entry: Entry, tmp_path: Path) -> None:
    draw(entry, DATA, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as one, Image.open(DOCS / "figures" / f"{entry.figure}.png") as other:
        assert one.size == other.size and one.convert("RGB").tobytes() == other.convert("RGB").tobytes()
