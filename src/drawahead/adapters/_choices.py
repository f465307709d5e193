"""What a user asks of a design, as tables: letters that are omitted or biased, residues that are fixed or tied."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.adapters._mpnn_decoder import Steps
from drawahead.adapters.structures import Backbone
from drawahead.errors import InputError
from drawahead.models.oracles import HIDDEN
from drawahead.validate import as_float64, number, numbers, short, whole

ALPHABET = "ACDEFGHIKLMNPQRSTVWYX"
"""Token i is letter i. X, an unknown residue, may be known but is not drawn unless `omit` is empty."""

Fixed = str | Mapping[int | str, str] | Iterable[int | str] | None
Tied = Iterable[Iterable[int | str] | Mapping[int | str, float]]


def letters(name: str, given: Any) -> list[int]:
    """The tokens of letters, or an InputError that names them."""
    if not isinstance(given, str) or any(letter not in ALPHABET for letter in given):
        raise InputError(f"{name} must be of the letters {ALPHABET}, not {short(given)}")
    return [ALPHABET.index(letter) for letter in given]


def letter(name: str, given: Any) -> int:
    """The token of one letter."""
    if not isinstance(given, str) or len(given) != 1:
        raise InputError(f"{name} must be one letter of {ALPHABET}, not {short(given)}")
    return letters(name, given)[0]


def omitted(structure: Backbone, omit: str | Mapping[int | str, str], *, everywhere: bool = False) -> Tensor:
    """Which letters are never drawn where (n, 21), or only those omitted `everywhere`: X, unless nothing is omitted."""
    table = torch.zeros(len(structure), len(ALPHABET), dtype=torch.bool)
    given = omit if isinstance(omit, Mapping) else {"*": omit}
    if everywhere:
        given = {residues: which for residues, which in given.items() if residues == "*"}
    for residues, which in given.items():
        tokens = letters("omit" if residues == "*" else f"omit at {residues}", which)
        table[torch.tensor(structure.select(residues))[:, None], torch.tensor(tokens, dtype=torch.int64)] = True
    if omit != "":
        table[:, ALPHABET.index("X")] = True
    return table


def biases(structure: Backbone, bias: Any) -> Tensor:
    """What is added to the logits (n, 21): a number a letter, numbers by residue and letter, or the whole table."""
    offset = torch.zeros(len(structure), len(ALPHABET), dtype=torch.float64)
    if isinstance(bias, Mapping):
        for key, value in bias.items():
            where = structure.select(key) if isinstance(value, Mapping) else slice(None)
            for one, amount in value.items() if isinstance(value, Mapping) else [(key, value)]:
                name = f"bias of {one}" + (f" at {key}" if isinstance(value, Mapping) else "")
                offset[where, letter(name, one)] += _amount(name, amount)
    elif bias is not None:
        given = as_float64("bias", bias, "cpu")
        if given.shape != offset.shape:
            raise InputError(f"bias must be a number a letter or {tuple(offset.shape)}, not {tuple(given.shape)}")
        offset += given
    if bool((offset.isnan() | (offset == math.inf)).any()):
        raise InputError("bias must be numbers (minus infinity forbids a letter)")
    return offset


def _amount(name: str, value: Any) -> float:
    return -math.inf if isinstance(value, float) and value == -math.inf else number(name, value)


def evidence(structure: Backbone, fixed: Fixed, redesign: Any = None) -> Tensor:
    """The tokens of residues (n,) that are not designed; HIDDEN for all others.

    fixed: letters of some residues, or residues that keep the letter of the structure. redesign: the only residues
    that are not fixed; all others keep their letter.
    """
    known = torch.full((len(structure),), HIDDEN)
    native = torch.tensor([ALPHABET.index(one) if one in ALPHABET else len(ALPHABET) - 1 for one in structure.sequence])
    if redesign is not None:
        known = native.clone()
        known[structure.select(redesign)] = HIDDEN
    if isinstance(fixed, str):
        given = fixed.replace("/", "").replace("-", "X")
        if len(given) != len(structure):
            raise InputError(
                f"fixed has {len(given)} letters, but the structure has {len(structure)} residues: give a letter or - "
                "for each, or a list of residues to keep"
            )
        for i, one in enumerate(given):
            if one != "X":
                known[i] = letter(f"fixed residue {i}", one)
    elif isinstance(fixed, Mapping):
        for residues, one in fixed.items():
            known[structure.select(residues)] = letter(f"fixed residue {residues}", one)
    elif isinstance(fixed, Iterable):
        keep = structure.select(fixed)
        known[keep] = native[keep]
    elif fixed is not None:
        raise InputError(f"fixed must be a sequence, letters by residue or a list of residues, not {short(fixed)}")
    return known


def membrane_labels(structure: Backbone, membrane: Mapping[int | str, int] | int) -> Tensor:
    """Where residues lie in a membrane (n,): 0, 1 or 2."""
    labels = torch.zeros(len(structure), dtype=torch.int64)
    for residues, label in membrane.items() if isinstance(membrane, Mapping) else [("*", membrane)]:
        if whole(f"membrane of {residues}", label, 0) > 2:
            raise InputError(f"membrane of {residues} must be 0, 1 or 2, not {short(label)}")
        labels[structure.select(residues)] = label
    return labels


@final
@dataclass(frozen=True)
class Group:
    """Residues that share their amino acid, and how much each one's logits count."""

    members: tuple[int, ...]
    weights: tuple[float, ...]


def groups(structure: Backbone, tied: Tied | None) -> list[Group]:
    """Tied groups as they were given: residues, or residues with their weights."""
    found: list[Group] = []
    seen: set[int] = set()
    for i, group in enumerate([] if tied is None else _entries("tied", tied)):
        given = group.items() if isinstance(group, Mapping) else [(one, 1.0) for one in _entries(f"tied[{i}]", group)]
        pairs = [
            (at, number(f"weight of {key} in tied[{i}]", weight))
            for key, weight in given
            for at in structure.select(key)
        ]
        for at, _ in pairs:
            if at in seen:
                raise InputError(
                    f"tied[{i}]: residue {structure.labels[at]} is tied already; each is in one group at most"
                )
            seen.add(at)
        if pairs:
            found.append(Group(tuple(at for at, _ in pairs), tuple(weight for _, weight in pairs)))
    return found


def _entries(name: str, given: Any) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{name} must be a list, such as [['A1', 'B1'], ['A2', 'B2']], not {short(given)}")
    return list(given)


def symmetric(
    structure: Backbone, chains: Sequence[str], weights: Sequence[float] | None = None
) -> list[dict[int | str, float]]:
    """Groups that tie chains of one length residue by residue, as `tied=` takes them."""
    amounts = [1.0] * len(chains) if weights is None else list(numbers("weights", weights))
    if len(amounts) != len(chains):
        raise InputError(f"weights must be {len(chains)}, one a chain, not {len(amounts)}")
    for chain in chains:
        if chain not in structure.chains:
            raise InputError(f"the structure has no chain {chain}: it has {', '.join(structure.chains)}")
    places = {chain: _places(structure, chain) for chain in chains}
    first = places[chains[0]] if chains else {}
    for chain, other in places.items():
        if other.keys() != first.keys():
            odd = sorted(other.keys() ^ first.keys())
            raise InputError(
                f"chains {chains[0]} and {chain} cannot be tied: they have {len(first)} and {len(other)} residues, and "
                f"differ at place {odd[0] + 1}; tie the residues that both have by hand"
            )
    return [{places[chain][at]: amount for chain, amount in zip(chains, amounts, strict=True)} for at in first]


def _places(structure: Backbone, chain: str) -> dict[int, int]:
    """The positions of a chain's residues by their place along it."""
    return {int(structure.index[i]): i for i, of in enumerate(structure.chain) if of == chain}


def steps(length: int, tied: Sequence[Group]) -> Steps:
    """The steps of a design: one for each group, in the place of its first residue, and one for each other residue."""
    if not tied:
        return Steps.single(length)
    by_residue = {at: group for group in tied for at in group.members}
    most = max(2, *(len(group.members) for group in tied))  # a weight of a single residue counts, too
    members, weights, count, done = [], [], [], set()
    for at in range(length):
        group = by_residue.get(at, Group((at,), (1.0,)))
        if group.members[0] not in done:
            done.add(group.members[0])
            count.append(len(group.members))
            short_by = most - len(group.members)
            members.append([*group.members, *[group.members[0]] * short_by])
            weights.append([weight / len(group.members) for weight in group.weights] + [0.0] * short_by)
    return Steps(torch.tensor(members), torch.tensor(weights, dtype=torch.float64), torch.tensor(count))
