"""JSONL files in the formats of ProteinMPNN's own tools: chains, fixed and tied positions, omitted letters, biases,
PSSMs. Positions in them count from 1 along each chain, gaps included."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.jobs.files import sha256
from drawahead.proteins.design.options import Options
from drawahead.proteins.structures.files import Backbone
from drawahead.validate import as_float64 as numbers_of
from drawahead.validate import short

_OPTIONS = ("chains", "fixed", "tied", "omit_at", "bias", "bias_file", "pssm")


ChoiceTables = Mapping[str, Mapping[str, Any]]
"""What the files say, by option and by the name of the structure; those of `bias` by letter. An option that names no
file is not among them."""


def entry(tables: ChoiceTables, option: str, name: str) -> Any:
    """What the file of an option says about a structure."""
    if name not in tables[option]:
        raise InputError(f"the file of {_flag(option)} has no entry {name}: it has {short(list(tables[option]))}")
    return tables[option][name]


def read_tables(asked: Options) -> tuple[ChoiceTables, dict[str, str]]:
    """The files that are named, and their checksums."""
    read: dict[str, dict[str, Any]] = {}
    sums: dict[str, str] = {}
    for option in _OPTIONS:
        value = getattr(asked, option)
        if is_file(value) or (option in ("bias_file", "pssm") and value):
            read[option], sums[option] = _read(option, Path(value))
    return read, sums


def is_file(value: str) -> bool:
    """Whether an option names a file, and does not say it itself."""
    return value.endswith((".jsonl", ".json"))


def _read(option: str, path: Path) -> tuple[dict[str, Any], str]:
    """What the lines say that can be read; where none can, or where they speak of all structures, one error."""
    try:
        data = path.read_bytes()
        lines = [line for line in data.decode().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{_flag(option)} cannot be read from {path}: {error}") from None
    found: dict[str, Any] = {}
    wrong = [f"line {i}: {why}" for i, line in enumerate(lines, 1) if (why := _take(line, found))]
    if not found or (wrong and option == "bias"):
        why = wrong[0] if wrong else "it has none"
        raise InputError(f"{_flag(option)}: every line of {path} must be a JSON object; {why}")
    return found, sha256(data)


def _take(line: str, found: dict[str, Any]) -> str:
    """Add what a line says. -> what is wrong with it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        return str(error)
    if not isinstance(entry, dict):
        return f"{short(entry)} is none"
    found |= entry
    return ""


def positions(option: str, structure: Backbone, chain: str, wanted: Any) -> list[int]:
    """The residues at these places of a chain, counted from 1. Places where a residue is missing are passed over."""
    if not isinstance(wanted, Iterable) or isinstance(wanted, str):
        raise InputError(f"{_flag(option)}: positions of chain {chain} must be a list, not {short(wanted)}")
    if chain not in structure.chains:
        raise InputError(f"{_flag(option)} names chain {chain}: the structure has {', '.join(structure.chains)}")
    places = {int(structure.index[i]): i for i, of in enumerate(structure.chain) if of == chain}
    last = max([*places, *(place for of, place, _ in structure.absent if of == chain)])
    found = []
    for place in wanted:
        if type(place) is not int or not 1 <= place <= last + 1:
            raise InputError(f"{_flag(option)}: chain {chain} has places 1 ... {last + 1}, not {short(place)}")
        if place - 1 in places:
            found.append(places[place - 1])
    return found


def fixed_positions(structure: Backbone, entry: Any) -> list[int]:
    """From {chain: [positions]}."""
    return [i for chain, wanted in by_chain("fixed", entry) for i in positions("fixed", structure, chain, wanted)]


def omitted_letters(structure: Backbone, entry: Any) -> dict[int | str, str]:
    """From {chain: [[[positions], letters], ...]}."""
    found: dict[int | str, str] = {}
    for chain, rules in by_chain("omit_at", entry):
        for rule in rules if isinstance(rules, list) else [rules]:
            if not isinstance(rule, list) or len(rule) != 2 or not isinstance(rule[1], str):
                raise InputError(
                    f"--omit-at: a rule of chain {chain} must be [[positions], letters], not {short(rule)}"
                )
            for i in positions("omit_at", structure, chain, rule[0]):
                found[i] = found.get(i, "") + rule[1]
    return found


def tied_groups(structure: Backbone, entry: Any) -> list[dict[int | str, float]]:
    """From [{chain: [positions]} or {chain: [[positions], [weights]]}, ...]."""
    if not isinstance(entry, list):
        raise InputError(f"--tied: groups must be a list, not {short(entry)}")
    groups: list[dict[int | str, float]] = []
    for given in entry:
        group: dict[int | str, float] = {}
        for chain, wanted in by_chain("tied", given):
            lists = wanted if isinstance(wanted, list) else [wanted, wanted, wanted]
            weighted = bool(lists) and all(isinstance(part, list) for part in lists)
            if not isinstance(wanted, list) or (weighted and len(lists) != 2):
                raise InputError(f"--tied: chain {chain} must have [positions], or [[positions], [weights]]")
            places, weights = lists if weighted else (lists, [1.0] * len(lists))
            if len(places) != len(weights):
                raise InputError(f"--tied: chain {chain} has {len(places)} positions, but {len(weights)} weights")
            for place, weight in zip(places, weights, strict=True):
                group |= dict.fromkeys(positions("tied", structure, chain, [place]), weight)
        groups.append(group)
    return groups


def by_residue(option: str, structure: Backbone, entry: Mapping[str, Any], key: str = "", width: int = 21) -> Tensor:
    """From {chain: rows} or {chain: {key: rows}}, a row for every place of a chain -> (n, width). Chains that are not
    named have zeros."""
    found = torch.zeros(len(structure), width, dtype=torch.float64)
    for chain, given in by_chain(option, entry):
        if key and not (isinstance(given, Mapping) and key in given):
            raise InputError(f"{_flag(option)}: chain {chain} must have {key}, not be {short(given)}")
        rows = numbers_of(f"{_flag(option)} of chain {chain}", given[key] if key else given, "cpu")
        rows = rows[:, None] if width == 1 and rows.dim() == 1 else rows
        mine = [i for i, of in enumerate(structure.chain) if of == chain]
        if rows.dim() != 2 or rows.shape[1] != width or (mine and int(structure.index[mine].max()) >= len(rows)):
            raise InputError(f"{_flag(option)}: chain {chain} must have {width} numbers for each of its places")
        found[mine] = rows[structure.index[mine]]
    return found


def by_chain(option: str, entry: Any) -> Iterable[tuple[str, Any]]:
    """The chains that an entry names, and what it says of each."""
    if not isinstance(entry, Mapping):
        raise InputError(f"{_flag(option)}: an entry must name chains, not be {short(entry)}")
    return entry.items()


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"
