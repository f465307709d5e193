"""What the model of a job is told about each sample, as a file of the job: the manifest holds its hash."""

from __future__ import annotations

from pathlib import Path

from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.oracles.condition import Given, fingerprint

NAME = "condition.safetensors"
_MOST_BYTES = 2**40


def write(folder: Path, given: Given) -> None:
    """Keep the tables, if there are any."""
    if given:
        from safetensors.torch import save

        files.write(folder / NAME, save({name: table.contiguous() for name, table in given.items()}))


def read(folder: Path, expected: str) -> Given:
    """The tables with this hash; anything else is an InputError."""
    if not expected:
        return {}
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = files.read(folder / NAME, "the condition", _MOST_BYTES)
    try:
        given: Given = load(data)
    except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"the condition {folder / NAME} is not readable: {error}") from None
    if fingerprint(given) != expected:
        raise InputError(f"the condition {folder / NAME} is damaged: it is not the one that the manifest tells of")
    return given
