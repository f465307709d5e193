"""The choices of a design as tables: letters that are omitted or biased, residues that are fixed, labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN
from drawahead.proteins.mpnn.encoded import Steps
from drawahead.proteins.structures.backbone import Backbone
from drawahead.proteins.ties import Group
from drawahead.validate import as_float64, number, short, whole

ALPHABET = "ACDEFGHIKLMNPQRSTVWYX"
"""Token i is letter i. X, an unknown residue, may be fixed but is not drawn unless `omit` is empty."""

Fixed = str | Mapping[int | str, str] | Iterable[int | str] | None


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
    """The tokens of the structure's own sequence (n,); what is no amino acid is X."""
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
    order = torch.as_tensor(order).cpu()
    if order.shape != (count,) or not torch.equal(order.sort().values, torch.arange(count)):
        raise InputError(f"evidence_order must be a permutation of 0 ... {count - 1}")
    return order.argsort() - count
