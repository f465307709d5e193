"""One structure of a job: what is designed in it, and the model that does."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.proteins.choices import ALPHABET, biases
from drawahead.proteins.design import tables as jsonl
from drawahead.proteins.design.options import Options, names, pairs
from drawahead.proteins.design.tables import ChoiceTables, is_file
from drawahead.proteins.mpnn.model import Profile, ProteinMPNN, Weights
from drawahead.proteins.structures.files import Backbone
from drawahead.proteins.ties import symmetric
from drawahead.validate import short


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """A structure, ready to be designed."""

    name: str
    mpnn: ProteinMPNN
    known: Tensor | None
    """The tokens of steps that are not designed."""
    designed_chains: tuple[str, ...]
    fixed_chains: tuple[str, ...]

    def chain(self, numbers: Tensor, temperature: Tensor) -> TokenChain:
        """The chain of sequences i with the noise of sample numbers[i], at temperature[i]."""
        condition = {"temperature": temperature.to(self.mpnn.device)}
        return TokenChain(self.mpnn, evidence=self.known, numbers=numbers, condition=condition)


def sample_numbers(name: str, temperature: float, num: int) -> Tensor:
    """Where the noise of a structure's sequences is found: it depends on its name and the temperature, and not on which
    other structures there are, nor on how many sequences."""
    digest = hashlib.sha256(f"{name}\0{temperature!r}".encode()).digest()
    return (int.from_bytes(digest[:4], "big") >> 1 << 32) + torch.arange(num)


def build(
    name: str, structure: Backbone, weights: Weights, asked: Options, tables: ChoiceTables, device: Any
) -> Problem:
    """The problem of one structure."""
    designed, fixed = _chains(name, structure, asked, tables)
    structure = structure.only([*designed, *fixed])
    mpnn = ProteinMPNN(
        weights,
        structure,
        temperature=asked.temperature[0],
        omit=_omit(name, structure, asked, tables),
        bias=_bias(name, structure, asked, tables),
        tied=_tied(name, structure, asked, tables),
        profile=_profile(name, structure, asked, tables),
        membrane=_membrane(asked),
        backbone_noise=asked.backbone_noise,
        noise_seed=asked.seed,
        device=device,
        dtype=getattr(torch, asked.dtype),
    )
    keep = [] if is_file(asked.fixed) else structure.select(asked.fixed) if asked.fixed else []
    if "fixed" in tables:
        keep = jsonl.fixed_positions(structure, jsonl.entry(tables, "fixed", name))
    wanted = set(structure.select(asked.redesign)) if asked.redesign else set(range(len(structure)))
    redesign = [i for i in sorted(wanted) if structure.chain[i] in designed and i not in set(keep)]
    if not redesign:
        raise InputError("there is nothing to design: every residue is fixed")
    whole = len(redesign) == len(structure)
    known = mpnn.chain(redesign=None if whole else redesign).evidence
    return Problem(name, mpnn, known, designed, fixed)


def _chains(
    name: str, structure: Backbone, asked: Options, tables: ChoiceTables
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Chains that are designed and those that are kept, each sorted."""
    if "chains" in tables:
        entry = jsonl.entry(tables, "chains", name)
        if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(part, list) for part in entry):
            raise InputError(f"--chains: an entry must be [[designed], [fixed]], not {short(entry)}")
        designed, fixed = entry
    else:
        designed, fixed = names(asked.chains), names(asked.fixed_chains)
        everything = structure.chains
        designed = designed or [chain for chain in everything if chain not in fixed]
        fixed = fixed or [chain for chain in everything if chain not in designed]
    for chain in [*designed, *fixed]:
        if chain not in structure.chains:
            raise InputError(f"there is no chain {chain}: the structure has {', '.join(structure.chains)}")
    if not designed or set(designed) & set(fixed):
        raise InputError(f"chains to design and chains to keep must differ, and one be designed: {designed}, {fixed}")
    return tuple(sorted(designed)), tuple(sorted(fixed))


def _omit(name: str, structure: Backbone, asked: Options, tables: ChoiceTables) -> dict[int | str, str]:
    omit: dict[int | str, str] = {"*": asked.omit}
    if "omit_at" in tables:
        return omit | jsonl.omitted_letters(structure, jsonl.entry(tables, "omit_at", name))
    return omit | dict(pairs("--omit-at", asked.omit_at))


def _bias(name: str, structure: Backbone, asked: Options, tables: ChoiceTables) -> Tensor:
    if "bias" in tables:
        given: Any = {letter: value for letter, value in tables["bias"].items() if letter in ALPHABET}
    else:
        given = {letter: _float("--bias", value) for letter, value in pairs("--bias", asked.bias)}
    bias = biases(structure, given)
    if "bias_file" in tables:
        bias += jsonl.by_residue("bias_file", structure, jsonl.entry(tables, "bias_file", name))
    return bias


def _tied(name: str, structure: Backbone, asked: Options, tables: ChoiceTables) -> list[Any]:
    tied: list[Any] = []
    if "tied" in tables:
        tied += jsonl.tied_groups(structure, jsonl.entry(tables, "tied", name))
    elif asked.tied:
        for group in names(asked.tied):
            sides = [structure.select(side) for side in group.split("=")]
            if len({len(side) for side in sides}) > 1 or len(sides) < 2:
                lengths = " and ".join(str(len(side)) for side in sides)
                raise InputError(
                    f"--tied {group}: the sides have {lengths} residues; give as many on each of two or more"
                )
            tied += [list(group) for group in zip(*sides, strict=True)]
    if asked.symmetry:
        tied += symmetric(structure, names(asked.symmetry), asked.symmetry_weights or None)
    return tied


def _profile(name: str, structure: Backbone, asked: Options, tables: ChoiceTables) -> Profile | None:
    if "pssm" not in tables:
        return None
    entry = {chain: given for chain, given in jsonl.by_chain("pssm", jsonl.entry(tables, "pssm", name)) if given}
    trust = jsonl.by_residue("pssm", structure, entry, "pssm_coef", width=1)[:, 0]
    table = jsonl.by_residue("pssm", structure, entry, "pssm_bias")
    odds = jsonl.by_residue("pssm", structure, entry, "pssm_log_odds") if asked.pssm_log_odds else None
    return Profile(trust, table, asked.pssm_share, odds, asked.pssm_threshold)


def _membrane(asked: Options) -> dict[int | str, int]:
    given = pairs("--membrane", asked.membrane) if "=" in asked.membrane else [("*", asked.membrane or "0")]
    if not all(label in ("0", "1", "2") for _, label in given):
        raise InputError(f"--membrane must be 0, 1 or 2, or such as A10-25=2, not {short(asked.membrane)}")
    return {residues: int(label) for residues, label in given}


def _float(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number, not {short(text)}") from None
