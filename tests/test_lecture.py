"""The notebook for a lecture runs from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "lecture.ipynb"


def test_the_notebook_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    book = json.loads(NOTEBOOK.read_text())
    code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    titles = [cell["source"][0] for cell in book["cells"] if cell["cell_type"] == "markdown"]
    assert [title.split(".")[0] for title in titles[1:]] == [f"## {number}" for number in range(1, 11)]
    assert all(cell.get("outputs") == [] for cell in book["cells"] if cell["cell_type"] == "code")
    scope: dict[str, Any] = {}
    for cell in code:
        exec(compile(cell, str(NOTEBOOK), "exec"), scope)
    shown = capsys.readouterr().out
    assert "rounds instead of 1000" in shown and "rounds instead of 48" in shown
