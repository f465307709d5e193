"""The choices of a design as tables: letters that are omitted or biased, residues that are fixed or tied, labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN
from drawahead.proteins.mpnn.encoded import Steps
from drawahead.proteins.structures.backbone import Backbone
from drawahead.validate import as_float64, number, numbers, short, whole

ALPHABET = "ACDEFGHIKLMNPQRSTVWYX"
"""Token i is letter i. X, an unknown residue, may be fixed but is not drawn unless `omit` is empty."""

Fixed = str | Mapping[int | str, str] | Iterable[int | str] | None
Tied = Iterable[Iterable[int | str] | Mapping[int | str, float]]
Group: TypeAlias = dict[int, float]
"""Residues that share their amino acid, by position, and how much each one's logits count."""


def letters(name: str, text: str) -> list[int]:
    """The tokens of letters, or an InputError that names them."""
    if any(letter not in ALPHABET for letter in text):
        raise InputError(f"{name} must be of the letters {ALPHABET}, not {short(text)}")
    return [ALPHABET.index(letter) for letter in text]


def letter(name: str, text: str) -> int:
    """The token of one letter."""
    if len(text) != 1:
        raise InputError(f"{name} must be one letter of {ALPHABET}, not {short(text)}")
    return letters(name, text)[0]


def omitted(structure: Backbone, omit: str | Mapping[int | str, str], *, everywhere: bool = False) -> Tensor:
    """Which letters are never drawn where (n, 21), or only those omitted `everywhere`: X, unless nothing is omitted."""
    table = torch.zeros(len(structure), len(ALPHABET), dtype=torch.bool)
    for residues, text in omit.items() if isinstance(omit, Mapping) else [("*", omit)]:
        if residues == "*" or not everywhere:
            tokens = letters("omit" if residues == "*" else f"omit at {residues}", text)
            table[torch.tensor(structure.select(residues))[:, None], torch.tensor(tokens, dtype=torch.int64)] = True
    if omit != "":
        table[:, ALPHABET.index("X")] = True
    return table


def biases(structure: Backbone, bias: Any) -> Tensor:
    """Terms added to the logits (n, 21): a number a letter, numbers by residue and letter, or the whole table."""
    offset = torch.zeros(len(structure), len(ALPHABET), dtype=torch.float64)
    if isinstance(bias, Mapping):
        for key, value in bias.items():
            where = structure.select(key) if isinstance(value, Mapping) else slice(None)
            for one, amount in value.items() if isinstance(value, Mapping) else [(key, value)]:
                name = f"bias of {one}" + (f" at {key}" if isinstance(value, Mapping) else "")
                offset[where, letter(name, one)] += -math.inf if amount == -math.inf else number(name, amount)
    elif bias is not None:
        table = as_float64("bias", bias, "cpu")
        if table.shape != offset.shape:
            raise InputError(f"bias must be a number a letter or {tuple(offset.shape)}, not {tuple(table.shape)}")
        offset += table
    if bool((offset.isnan() | (offset == math.inf)).any()):
        raise InputError("bias must be numbers (minus infinity forbids a letter)")
    return offset


def native_tokens(structure: Backbone) -> Tensor:
    """The tokens of the structure's own sequence (n,); X for anything but the 20 amino acids."""
    return torch.tensor([ALPHABET.index(one if one in ALPHABET else "X") for one in structure.sequence])


def membrane_labels(structure: Backbone, membrane: Mapping[int | str, int] | int) -> Tensor:
    """Where residues lie in a membrane (n,): 0, 1 or 2."""
    labels = torch.zeros(len(structure), dtype=torch.int64)
    for residues, label in membrane.items() if isinstance(membrane, Mapping) else [("*", membrane)]:
        if whole(f"membrane of {residues}", label, 0) > 2:
            raise InputError(f"membrane of {residues} must be 0, 1 or 2, not {short(label)}")
        labels[structure.select(residues)] = label
    return labels


def known_steps(
    structure: Backbone, tied: Sequence[Group], steps: Steps, fixed: Fixed, chains: Sequence[str] | None, redesign: Any
) -> Tensor:
    """The tokens of steps (g,) that are not designed; HIDDEN for all others.

    fixed: letters of some residues, or residues that keep the letter of the structure. chains, redesign: the only
    chains, or residues, that are not fixed; all others keep their letter.
    """
    if chains is not None:
        if redesign is not None:
            raise InputError("give design_chains or redesign, not both: redesign takes the names of chains, too")
        redesign = [chains] if isinstance(chains, str) else chains
        for name in redesign:
            structure.check_chain(name)
    known, native = torch.full((len(structure),), HIDDEN), native_tokens(structure)
    if redesign is not None:
        known = native.clone()
        known[structure.select(redesign)] = HIDDEN
    if isinstance(fixed, str):
        text = fixed.replace("/", "").replace("-", "X")
        if len(text) != len(structure):
            raise InputError(
                f"fixed has {len(text)} letters, but the structure has {len(structure)} residues: give a letter or - "
                "for each, or a list of residues to keep"
            )
        fixed = {i: one for i, one in enumerate(text) if one != "X"}
    if isinstance(fixed, Mapping):
        for residues, one in fixed.items():
            known[structure.select(residues)] = letter(f"fixed residue {residues}", one)
    elif fixed is not None:
        keep = structure.select(fixed)
        known[keep] = native[keep]
    for group in tied:
        if len(set(known[list(group)].tolist())) > 1:
            names = ", ".join(structure.labels[i] for i in group)
            raise InputError(f"residues {names} are tied: fix all of them to the same letter, or none")
    return known[steps.members[:, 0]]


def evidence_places(count: int, order: Any) -> Tensor:
    """-g ... -1 for each of so many steps: its place among the evidence."""
    if order is None:
        return torch.randperm(count, generator=torch.Generator().manual_seed(0)).argsort() - count
    places: Tensor = torch.as_tensor(order).cpu()
    if places.shape != (count,) or not torch.equal(places.sort().values, torch.arange(count)):
        raise InputError(f"evidence_order must be a permutation of 0 ... {count - 1}")
    return places.argsort() - count


def groups(structure: Backbone, tied: Tied | None) -> list[Group]:
    """Tied groups from lists of residues, or from residues with their weights."""
    found: list[Group] = []
    seen: set[int] = set()
    for i, group in enumerate(tied or []):
        if isinstance(tied, str) or isinstance(group, str):
            raise InputError(f"tied must be a list, such as [['A1', 'B1'], ['A2', 'B2']], not {short(tied)}")
        found.append({})
        for key, weight in group.items() if isinstance(group, Mapping) else [(one, 1.0) for one in group]:
            for at in structure.select(key):
                if at in seen:
                    label = structure.labels[at]
                    raise InputError(f"tied[{i}]: residue {label} is tied already; each is in one group at most")
                seen.add(at)
                found[-1][at] = number(f"weight of {key} in tied[{i}]", weight)
    return [group for group in found if group]


def symmetric(
    structure: Backbone, chains: Sequence[str], weights: Sequence[float] | None = None
) -> list[dict[int | str, float]]:
    """Groups that tie chains of one length residue by residue, as `tied=` takes them."""
    amounts = [1.0] * len(chains) if weights is None else list(numbers("weights", weights))
    if len(amounts) != len(chains):
        raise InputError(f"weights must be {len(chains)}, one a chain, not {len(amounts)}")
    for chain in chains:
        structure.check_chain(chain)
    places = {chain: structure.places(chain) for chain in chains}
    first = places[chains[0]] if chains else {}
    for chain, other in places.items():
        if other.keys() != first.keys():
            odd = sorted(other.keys() ^ first.keys())
            raise InputError(
                f"chains {chains[0]} and {chain} cannot be tied: they have {len(first)} and {len(other)} residues, and "
                f"differ at place {odd[0] + 1}; tie the residues that both have by hand"
            )
    return [{places[chain][at]: amount for chain, amount in zip(chains, amounts, strict=True)} for at in first]


def steps(length: int, tied: Sequence[Group]) -> Steps:
    """The steps of a design: one for each group, in the place of its first residue, and one for each other residue."""
    if not tied:
        return Steps.single(length)
    by_residue = {at: group for group in tied for at in group}
    most = max(2, *map(len, tied))  # a weight of a single residue counts, too
    members, weights, count, done = [], [], [], set[int]()
    for at in range(length):
        if at not in done:
            group = by_residue.get(at, {at: 1.0})
            done |= group.keys()
            count.append(len(group))
            spare = most - len(group)
            members.append([*group, *[next(iter(group))] * spare])
            weights.append([*(weight / len(group) for weight in group.values()), *[0.0] * spare])
    return Steps(torch.tensor(members), torch.tensor(weights, dtype=torch.float64), torch.tensor(count))
