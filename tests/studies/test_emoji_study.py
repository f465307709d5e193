"""The study of pictures from words runs on a CPU with tiny random weights, and its section says what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies.__main__ import main
from studies.emoji import values as values_of
from studies.study import data_path, read

pytest.importorskip("diffusers")


@pytest.mark.usefixtures("emoji_weights")
def test_it_runs_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.emoji.PROMPTS", ("red apple", "smiling cat face", "red cat", "green apple"))
    monkeypatch.setattr("studies.emoji.DOCS", tmp_path)  # so that only what is measured here is in the data
    main(["emoji", "--no-page", "--out", str(tmp_path), "--device", "cpu", "--steps", "9", "--schedulers", "DDPM"])
    data = read(data_path(tmp_path, "emoji"))
    assert [(row["steps"], row["batch"]) for row in data["rows"]] == [(9, 1), (9, 4)]
    values = values_of(data)
    assert values["emoji"] is not None and "| DDPM | 9 | 4 |" in values["emoji"]
