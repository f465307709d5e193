"""FASTA files with the header fields that ProteinMPNN writes, so that scripts which read those read these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from drawahead.proteins.structures.files import Backbone
from drawahead.words import printable


@final
@dataclass(frozen=True)
class Native:
    """The first entry: the sequence of the structure."""

    name: str
    score: float
    global_score: float
    fixed_chains: Sequence[str]
    designed_chains: Sequence[str]
    model: str
    ca_only: bool
    seed: int
    sequence: str

    def header(self) -> str:
        model = "CA_model_name" if self.ca_only else "model_name"
        return (
            f"{printable(self.name)}, score={decimal(self.score)}, global_score={decimal(self.global_score)}, "
            f"fixed_chains={list(self.fixed_chains)}, designed_chains={list(self.designed_chains)}, "
            f"{model}={printable(self.model)}, git_hash=unknown, seed={self.seed}"
        )


@final
@dataclass(frozen=True)
class Designed:
    """An entry of a sequence that was drawn."""

    temperature: float
    number: int
    """From 1 on, at each temperature."""
    score: float
    global_score: float
    recovery: float
    rounds: int
    sequence: str

    def header(self) -> str:
        return (
            f"T={self.temperature}, sample={self.number}, score={decimal(self.score)}, "
            f"global_score={decimal(self.global_score)}, seq_recovery={decimal(self.recovery)}"
        )


def written(native: Native, designed: Iterable[Designed]) -> str:
    """The file."""
    entries: list[Native | Designed] = [native, *designed]
    return "".join(f">{entry.header()}\n{entry.sequence}\n" for entry in entries)


def decimal(value: float) -> str:
    """Four digits after the point, as many as are not zero for certain."""
    return np.format_float_positional(np.float32(value), unique=False, precision=4)


def spelled(structure: Backbone, letters: str, chains: Sequence[str]) -> str:
    """The sequence of these chains, sorted, with / between them: X where residues are missing from the file, and the
    letter of the file where one was left out because an atom is missing."""
    parts = []
    for chain in sorted(chains):
        there = {
            int(place): letter
            for of, place, letter in zip(structure.chain, structure.index, letters, strict=True)
            if of == chain
        }
        there |= {place: letter for of, place, letter in structure.absent if of == chain}
        parts.append("".join(there.get(place, "X") for place in range(max(there) + 1)))
    return "/".join(parts)
