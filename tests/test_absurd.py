"""Absurd sizes are refused with an estimate before anything is allocated; tests/fuzz tries Ctrl-C."""

from __future__ import annotations

import pytest

from drawahead.cli.app import run
from drawahead.cli.registry import entries
from drawahead.oracles import needs

Output = pytest.CaptureFixture[str]
HUGE = "1000000000000000000"
SMALL = {
    "emoji": ["--prompt", "cat", "--steps", "2"],
    "emoji-tokens": ["--prompt", "cat"],
    "fashion": ["--steps", "2"],
    "text": ["--size", "4"],
}
NAMES = {entry.name: entry for entry in entries()}


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "free_memory", lambda: 2**30)


def refused(capsys: Output, *words: str) -> str:
    assert run(words) in (1, 2)
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1
    return shown.err


@pytest.mark.usefixtures("emoji_weights")
@pytest.mark.parametrize("name", NAMES)
def test_more_samples_than_memory_holds(name: str, capsys: Output) -> None:
    told = refused(capsys, "sample", name, *SMALL.get(name, []), "--num", HUGE)
    assert "GiB" in told and "--out DIR" in told


@pytest.mark.parametrize("name", [entry.name for entry in entries() if "size" in entry.options])
def test_sizes_that_no_target_has(name: str, capsys: Output) -> None:
    assert refused(capsys, "sample", name, "--size", HUGE)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("compare pairs --num 1000000000", "GiB"),
        ("verify pairs --num 1000000000", "GiB"),
        ("sample dpp --kernel random:9999", "1 to 4000 items"),
        ("sample dpp --kernel line:99999", "there is no such file"),
        ("sample tree --graph grid:999999x999999", "1 to 100,000 nodes"),
        ("sample tree --graph complete:1000", "GiB"),
        ("sample matching --graph grid:300", "GiB"),
        ("sample fashion --steps 1000000000", "between 1 and 1000"),
        ("sample text --num 1000000000000 --json", "GiB"),
    ],
)
def test_other_absurd_numbers(words: str, told: str, capsys: Output) -> None:
    assert told in refused(capsys, *words.split())
