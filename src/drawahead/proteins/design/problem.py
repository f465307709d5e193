"""One structure of a job: which residues are designed, and the model that does."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.proteins.choices import ALPHABET, biases, symmetric
from drawahead.proteins.design import tables as jsonl
from drawahead.proteins.design.options import Options, names, pairs
from drawahead.proteins.mpnn.model import Profile, ProteinMPNN, Weights
from drawahead.proteins.structures.files import Backbone
from drawahead.validate import short

Entries = Mapping[str, Any]
"""What the files of a job's options hold about one structure."""


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
    """Where the noise of a structure's sequences is: it depends on its name and the temperature, and not on which
    other structures there are, nor on how many sequences."""
    digest = hashlib.sha256(f"{name}\0{temperature!r}".encode()).digest()
    return (int.from_bytes(digest[:4], "big") >> 1 << 32) + torch.arange(num)


def build(
    name: str, structure: Backbone, weights: Weights, options: Options, tables: jsonl.ChoiceTables, device: Any
) -> Problem:
    """The problem of one structure."""
    entries = jsonl.entries(tables, name)
    designed, fixed = _chains(structure, options, entries)
    structure = structure.only([*designed, *fixed])
    mpnn = ProteinMPNN(
        weights,
        structure,
        temperature=options.temperature[0],
        omit=_omit(structure, options, entries),
        bias=_bias(structure, options, entries),
        tied=_tied(structure, options, entries),
        profile=_profile(structure, options, entries),
        membrane=_membrane(options),
        backbone_noise=options.backbone_noise,
        noise_seed=options.seed,
        device=device,
        dtype=getattr(torch, options.dtype),
    )
    if "fixed" in entries:
        fixed_residues = jsonl.fixed_positions(structure, entries["fixed"])
    else:
        fixed_residues = structure.select(options.fixed) if options.fixed else []
    wanted = set(structure.select(options.redesign or "*")) - set(fixed_residues)
    redesign = [i for i in sorted(wanted) if structure.chain[i] in designed]
    if not redesign:
        raise InputError("there is nothing to design: every residue is fixed")
    known = mpnn.chain(redesign=None if len(redesign) == len(structure) else redesign).evidence
    return Problem(name, mpnn, known, designed, fixed)


def _chains(structure: Backbone, options: Options, entries: Entries) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Chains that are designed and those that are not, each sorted."""
    if "chains" in entries:
        designed, fixed = jsonl.chains_of(entries["chains"])
    else:
        designed, fixed = names(options.chains), names(options.fixed_chains)
        designed = designed or [chain for chain in structure.chains if chain not in fixed]
        fixed = fixed or [chain for chain in structure.chains if chain not in designed]
    for chain in [*designed, *fixed]:
        structure.check_chain(chain)
    if not designed or set(designed) & set(fixed):
        raise InputError(f"chains to design and chains to keep must differ, and one be designed: {designed}, {fixed}")
    return tuple(sorted(designed)), tuple(sorted(fixed))


def _omit(structure: Backbone, options: Options, entries: Entries) -> dict[int | str, str]:
    omit: dict[int | str, str] = {"*": options.omit}
    if "omit_at" in entries:
        return omit | jsonl.omitted_letters(structure, entries["omit_at"])
    return omit | dict(pairs("--omit-at", options.omit_at))


def _bias(structure: Backbone, options: Options, entries: Entries) -> Tensor:
    if "bias" in entries:
        by_letter: Any = entries["bias"]
        for letter in by_letter.keys() - set(ALPHABET):
            raise InputError(f"--bias: the file has a number for {short(letter)}, which is none of {ALPHABET}")
    else:
        by_letter = {letter: _float("--bias", value) for letter, value in pairs("--bias", options.bias)}
    bias = biases(structure, by_letter)
    if "bias_file" in entries:
        bias += jsonl.by_residue("bias_file", structure, entries["bias_file"])
    return bias


def _tied(structure: Backbone, options: Options, entries: Entries) -> list[Any]:
    tied: list[Any] = []
    if "tied" in entries:
        tied += jsonl.tied_groups(structure, entries["tied"])
    else:
        for group in names(options.tied):
            sides = [structure.select(side) for side in group.split("=")]
            if len({len(side) for side in sides}) > 1 or len(sides) < 2:
                lengths = " and ".join(str(len(side)) for side in sides)
                raise InputError(
                    f"--tied {group}: the sides have {lengths} residues; give as many on each of two or more"
                )
            tied += [list(group) for group in zip(*sides, strict=True)]
    if options.symmetry:
        tied += symmetric(structure, names(options.symmetry), options.symmetry_weights or None)
    return tied


def _profile(structure: Backbone, options: Options, entries: Entries) -> Profile | None:
    if "pssm" not in entries:
        return None

    def table(key: str, width: int = 21) -> Tensor:
        return jsonl.by_residue("pssm", structure, entries["pssm"], key, width)

    odds = table("pssm_log_odds") if options.pssm_log_odds else None
    trust, rows = table("pssm_coef", 1)[:, 0], table("pssm_bias")
    return Profile(trust, rows, options.pssm_share, odds, options.pssm_threshold)


def _membrane(options: Options) -> dict[int | str, int]:
    labels = pairs("--membrane", options.membrane) if "=" in options.membrane else [("*", options.membrane or "0")]
    if not all(label in ("0", "1", "2") for _, label in labels):
        raise InputError(f"--membrane must be 0, 1 or 2, or such as A10-25=2, not {short(options.membrane)}")
    return {residues: int(label) for residues, label in labels}


def _float(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number, not {short(text)}") from None
