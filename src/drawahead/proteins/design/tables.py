"""JSONL files in the formats of ProteinMPNN's own tools: chains, fixed and tied positions, omitted letters, biases,
PSSMs. Positions in them count from 1 along each chain, gaps included."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.jobs.files import sha256
from drawahead.proteins.design.options import Options
from drawahead.proteins.structures.files import Backbone
from drawahead.validate import as_float64, short

_FORMS = {
    "chains": "[[designed], [fixed]]",
    "fixed": "{chain: [positions]}",
    "tied": "[{chain: [positions]}, ...], or [positions], [weights] in a list instead of positions",
    "omit_at": "{chain: [[[positions], letters], ...]}",
    "bias": "{letter: number}",
    "bias_file": "{chain: a row of 21 numbers for each position}",
    "pssm": "{chain: {pssm_coef: numbers, pssm_bias: rows of 21, pssm_log_odds: rows of 21}}",
}

ChoiceTables = Mapping[str, Mapping[str, Any]]
"""The contents of the files, by option and by the name of the structure; those of `bias` by letter. An option that
names no file is not among them."""


def read_tables(options: Options) -> tuple[ChoiceTables, dict[str, str]]:
    """The files that options name, and their checksums."""
    read: dict[str, dict[str, Any]] = {}
    sums: dict[str, str] = {}
    for option in _FORMS:
        value = getattr(options, option)
        if is_file(value) or (option in ("bias_file", "pssm") and value):
            read[option], sums[option] = _read(option, Path(value))
    return read, sums


def is_file(value: str) -> bool:
    """Whether an option names a file instead of holding the choice itself."""
    return value.endswith((".jsonl", ".json"))


def entries(tables: ChoiceTables, name: str) -> dict[str, Any]:
    """The entries of all files about a structure, by option."""
    for option, table in tables.items():
        if option != "bias" and name not in table:
            raise InputError(f"the file of {_flag(option)} has no entry {name}: it has {short(list(table))}")
    return {option: table if option == "bias" else table[name] for option, table in tables.items()}


def _read(option: str, path: Path) -> tuple[dict[str, Any], str]:
    """All lines that can be read. If none can, or if they are about all structures, one that cannot is an error."""
    try:
        data = path.read_bytes()
        lines = data.decode().splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{_flag(option)} cannot be read from {path}: {error}") from None
    found: dict[str, Any] = {}
    wrong: list[str] = []
    for i, line in enumerate(lines, 1):
        if line.strip():
            try:
                found |= dict(json.loads(line).items())
            except (ValueError, AttributeError, RecursionError) as error:
                wrong.append(f"line {i}: {error}")
    if not found or (wrong and option == "bias"):
        raise InputError(f"{_flag(option)}: every line of {path} must be a JSON object; {[*wrong, 'it has none'][0]}")
    return found, sha256(data)


@contextmanager
def _reading(option: str, entry: Any) -> Iterator[None]:
    """If reading fails because an entry has another form, say which form it must have."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError):
        raise InputError(f"{_flag(option)}: an entry must be {_FORMS[option]}, not {short(entry)}") from None


def chains_of(entry: Any) -> tuple[list[str], list[str]]:
    """The chains that are designed, and those that are not."""
    with _reading("chains", entry):
        designed, fixed = entry
        if not isinstance(designed, list) or not isinstance(fixed, list):
            raise TypeError("names of chains must be in lists")
        return designed, fixed


def fixed_positions(structure: Backbone, entry: Any) -> list[int]:
    """The residues that are not designed."""
    with _reading("fixed", entry):
        return [i for chain, wanted in entry.items() for i in _positions("fixed", structure, chain, wanted)]


def omitted_letters(structure: Backbone, entry: Any) -> dict[int | str, str]:
    """The letters that are omitted at residues."""
    omitted: dict[int | str, str] = {}
    with _reading("omit_at", entry):
        for chain, rules in entry.items():
            for positions, letters in rules:
                for i in _positions("omit_at", structure, chain, positions):
                    omitted[i] = omitted.get(i, "") + letters
    return omitted


def tied_groups(structure: Backbone, entry: Any) -> list[dict[int | str, float]]:
    """Groups of residues that share their amino acid, each with its weight."""
    groups: list[dict[int | str, float]] = []
    with _reading("tied", entry):
        for group in entry:
            groups.append({})
            for chain, wanted in group.items():
                weighted = bool(wanted) and all(isinstance(part, list) for part in wanted)
                places, weights = wanted if weighted else (wanted, [1.0] * len(wanted))
                if len(places) != len(weights):
                    raise InputError(f"--tied: chain {chain} has {len(places)} positions, but {len(weights)} weights")
                for place, weight in zip(places, weights, strict=True):
                    groups[-1] |= dict.fromkeys(_positions("tied", structure, chain, [place]), weight)
    return groups


def by_residue(option: str, structure: Backbone, entry: Any, key: str = "", width: int = 21) -> Tensor:
    """A row for every residue (n, width), from rows for every place of a chain. Chains that are not named, or empty,
    have zeros."""
    table = torch.zeros(len(structure), width, dtype=torch.float64)
    with _reading(option, entry):
        for chain, found in entry.items():
            if key and not found:
                continue
            rows = as_float64(f"{_flag(option)} of chain {chain}", found[key] if key else found, "cpu")
            rows = rows[:, None] if width == 1 and rows.dim() == 1 else rows
            mine = [i for i, of in enumerate(structure.chain) if of == chain]
            if rows.dim() != 2 or rows.shape[1] != width or (mine and int(structure.index[mine].max()) >= len(rows)):
                raise InputError(f"{_flag(option)}: chain {chain} must have {width} numbers for each of its places")
            table[mine] = rows[structure.index[mine]]
    return table


def _positions(option: str, structure: Backbone, chain: str, wanted: Any) -> list[int]:
    """The residues at these places of a chain, counted from 1. Places where a residue is missing are passed over."""
    if chain not in structure.chains:
        raise InputError(f"{_flag(option)} names chain {chain}: the structure has {', '.join(structure.chains)}")
    places = structure.places(chain)
    last = max([*places, *(place for of, place, _ in structure.absent if of == chain)])
    for place in wanted:
        if type(place) is not int or not 1 <= place <= last + 1:
            raise InputError(f"{_flag(option)}: chain {chain} has places 1 ... {last + 1}, not {short(place)}")
    return [places[place - 1] for place in wanted if place - 1 in places]


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"
