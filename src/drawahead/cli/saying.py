"""What commands print: all of it passes here, since it may hold text from outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer

from drawahead.words import printable


def say(*lines: str) -> None:
    """Print lines to stdout. What would make more lines of one, or be obeyed by a terminal, is written out."""
    typer.echo("\n".join(map(printable, lines)))


def say_json(found: Mapping[str, Any]) -> None:
    """Print plain values as one object, in ASCII alone."""
    typer.echo(json.dumps(found))
