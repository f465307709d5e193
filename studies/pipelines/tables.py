"""The table of pipelines, from data."""

from __future__ import annotations

from studies.study import Data
from studies.tables import table
from studies.template import Values


def beside(data: Data) -> Values:
    """What the section of docs/diffusers.md holds."""
    lines = [[f"`{row['class']}`", row["what"], _result(row)] for row in data["rows"]]
    return {
        "pipelines": table(["class", "what its loop does", "largest difference"], lines, right=False),
        "steps": str(data["steps"]),
        "images": str(data["images"]),
        "diffusers": data["diffusers"],
    }


def _result(row: Data) -> str:
    return f"{row['difference']:.0e}" if row["difference"] is not None else f"refused: {row['reason']}"
