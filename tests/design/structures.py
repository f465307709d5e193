"""Small weights and structure files to design."""

from __future__ import annotations

from pathlib import Path

import torch

from drawahead.proteins.structures.files import Backbone, made_up_backbone
from tests.adapters.mpnn_literal import random_weights

_NAMES = "ALA CYS ASP GLU PHE GLY HIS ILE LYS LEU MET ASN PRO GLN ARG SER THR VAL TRP TYR"
THREE = {letter: _NAMES[4 * i : 4 * i + 3] for i, letter in enumerate("ACDEFGHIKLMNPQRSTVWY")}


def save_weights(folder: Path) -> Path:
    """A weight file of the tiny network, under a name that ProteinMPNN uses."""
    path = folder / "vanilla_model_weights" / "v_48_020.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    network = random_weights(neighbours=6)
    torch.save({"model_state_dict": dict(network.tensors), "num_edges": network.neighbours}, path)
    return path


def as_pdb(structure: Backbone) -> str:
    lines = []
    for i, residue in enumerate(structure.coordinates.tolist()):
        chain, number = structure.chain[i], structure.labels[i].removeprefix(structure.chain[i])
        name = THREE.get(structure.sequence[i], "UNK")
        for atom, xyz in zip(("N", "CA", "C", "O"), residue, strict=True):
            place = "".join(f"{x:8.3f}" for x in xyz)
            lines.append(f"ATOM  {1:5d}  {atom:3s} {name} {chain}{number:>4s}    {place}  1.00  0.00")
    return "\n".join(lines) + "\n"


def peptide(length: int, seed: int = 0) -> Backbone:
    letters = ("ACDEFGHIKLMNPQRSTVWY" * 9)[seed : seed + length]
    return Backbone(made_up_backbone(length, seed).coordinates, sequence=letters)


def trimer(length: int = 8) -> Backbone:
    one = peptide(length)
    shift = torch.tensor([[0.0, 0, 0], [9.0, 3, 1], [2.0, 11, 4]], dtype=torch.float64)
    return Backbone(
        torch.cat([one.coordinates + move for move in shift]),
        chain=tuple(chain for chain in "ABC" for _ in range(length)),
        index=torch.arange(length).repeat(3),
        sequence=3 * one.sequence,
        labels=tuple(f"{chain}{i + 1}" for chain in "ABC" for i in range(length)),
    )


def folder_of(path: Path) -> Path:
    """A folder with four structures: two peptides, a trimer, and one with a gap and an incomplete residue."""
    path.mkdir()
    (path / "one.pdb").write_text(as_pdb(peptide(12)))
    (path / "two.pdb").write_text(as_pdb(peptide(17, seed=3)))
    (path / "three.pdb").write_text(as_pdb(trimer()))
    lines = as_pdb(peptide(14, seed=5)).splitlines()
    kept = [
        line for line in lines if not (line[22:26] in ("   4", "   5") or (line[22:26] == "   9" and " O  " in line))
    ]
    (path / "gap.pdb").write_text("\n".join(kept) + "\n")
    return path
