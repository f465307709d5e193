"""Protein backbones: from a PDB or mmCIF file, from coordinates, or made up."""

from __future__ import annotations

import math
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drawahead import validate
from drawahead.errors import InputError
from drawahead.proteins.structures.atoms import Residue, read_residues
from drawahead.proteins.structures.backbone import Backbone
from drawahead.randomness import seeded
from drawahead.validate import short, whole

__all__ = ["Backbone", "as_backbone", "made_up_backbone", "read_pdb", "read_structure"]

ATOMS = ("N", "CA", "C", "O")
# Every number that a file skips becomes an X in each sequence. PDB files have numbers up to 9999.
_SKIPPED, _SKIPPED_EACH = 10_000, 10
# fmt: off
_LETTERS = {
    "ALA": "A", "ARG": "R", "ASN": "N", "ASP": "D", "CYS": "C", "GLN": "Q", "GLU": "E", "GLY": "G",
    "HIS": "H", "ILE": "I", "LEU": "L", "LYS": "K", "MET": "M", "PHE": "F", "PRO": "P", "SER": "S",
    "THR": "T", "TRP": "W", "TYR": "Y", "VAL": "V", "MSE": "M",
}
# fmt: on


def as_backbone(structure: Any, *, ca_only: bool = False) -> Backbone:
    """From a backbone, the path of a file, or coordinates (n, 4, 3); with `ca_only` those of CA alone."""
    if isinstance(structure, str | Path):
        return read_structure(structure, ca_only=ca_only)
    backbone = structure if isinstance(structure, Backbone) else Backbone(structure)
    if backbone.ca_only and not ca_only:
        raise InputError("the structure has no atoms but CA: take the weights of a CA-only model")
    if ca_only and not backbone.ca_only:
        return replace(backbone, coordinates=backbone.coordinates[:, 1:2])
    return backbone


def read_structure(path: str | Path, *, ca_only: bool = False) -> Backbone:
    """The backbone in a PDB or mmCIF file, plain or gzipped: first model, first conformation, in the file's order.

    Selenomethionine is read as methionine; all other HETATM records are left out. Residues that lack N, CA, C or O
    (with `ca_only`, CA) are left out and named in `dropped`; the numbering of the file keeps their place, as it does
    of residues that are missing. A file that skips more numbers than 10,000 and ten for each residue is refused.
    """
    path = validate.path("the structure", path)
    found, ligand = read_residues(path)
    wanted = ("CA",) if ca_only else ATOMS
    placed = list(zip(found, _places(path, found), strict=True))
    complete = [(residue, place) for residue, place in placed if residue.atoms.keys() >= set(wanted)]
    if not complete:
        raise InputError(f"{path}: no residue has all of the atoms {', '.join(wanted)}")
    left = [(residue, place) for residue, place in placed if not residue.atoms.keys() >= set(wanted)]
    coordinates = [[residue.atoms[atom][1] for atom in wanted] for residue, _ in complete]
    return Backbone(
        torch.tensor(coordinates, dtype=torch.float64),
        chain=tuple(residue.chain for residue, _ in complete),
        index=torch.tensor([place for _, place in complete]),
        sequence="".join(_LETTERS.get(residue.name, "X") for residue, _ in complete),
        labels=tuple(residue.label for residue, _ in complete),
        dropped=tuple(residue.label for residue, _ in left),
        absent=tuple((residue.chain, place, _LETTERS.get(residue.name, "X")) for residue, place in left),
        ligand=torch.tensor([xyz for _, xyz in ligand], dtype=torch.float64).view(-1, 3),
        elements=torch.tensor([element for element, _ in ligand], dtype=torch.int64),
    )


def read_pdb(path: str | Path) -> Backbone:
    """As `read_structure`."""
    return read_structure(path)


def _places(path: Path, residues: list[Residue]) -> list[int]:
    """Each residue's place along its chain: numbers that are skipped keep theirs, insertions get one of their own."""
    places: list[int] = []
    last: dict[str, tuple[int, int]] = {}  # of each chain: number, place
    left = most = _SKIPPED + _SKIPPED_EACH * len(residues)
    for residue in residues:
        number = int(residue.number.rstrip(string.ascii_letters))
        before, at = last.get(residue.chain, (number - 1, -1))
        places.append(at + max(1, number - before))
        last[residue.chain] = number, places[-1]
        left -= places[-1] - at - 1
        if left < 0:
            raise InputError(
                f"{path}: residue {short(residue.label)} comes after {short(residue.chain + str(before))}; a file of "
                f"{len(residues)} residues may skip {most} numbers in all: number them without such a gap"
            )
    return places


def made_up_backbone(length: int, seed: int = 0) -> Backbone:
    """A backbone that no protein has: ideal bonds and angles, stretches of helix and strand between random turns.

    To try things out without a file. It is not folded: most neighbours in space are neighbours along the chain.
    """
    n = whole("length", length, 1)
    generator = seeded(seed)
    phi: list[float] = []
    psi: list[float] = []
    while len(phi) < n:
        stretch = int(torch.randint(6, 18, (), generator=generator))
        kind = [(-60.0, -45.0), (-120.0, 130.0)][int(torch.randint(2, (), generator=generator))]
        turn = torch.rand(2, 3, generator=generator).mul(360).tolist()
        phi += [kind[0]] * stretch + turn[0]
        psi += [kind[1]] * stretch + turn[1]
    chain = [torch.tensor(x, dtype=torch.float64) for x in ([0, 0, 0], [1.46, 0, 0], [2.0, 1.42, 0])]  # N, CA, C
    oxygen = []
    for i in range(n):
        oxygen.append(_placed(chain[-3:], 1.23, 120.5, psi[i] + 180))
        chain.append(_placed(chain[-3:], 1.33, 117.2, psi[i]))  # the next N
        chain.append(_placed(chain[-3:], 1.46, 121.7, 180.0))  # CA
        chain.append(_placed(chain[-3:], 1.53, 111.0, phi[(i + 1) % n]))  # C
    atoms = torch.stack(chain[: 3 * n]).view(n, 3, 3)
    return Backbone(torch.cat([atoms, torch.stack(oxygen)[:, None]], dim=1))


def _placed(before: list[Tensor], bond: float, angle: float, torsion: float) -> Tensor:
    """The atom after three others, from its bond length, bond angle and torsion (degrees)."""
    a, b, c = before
    along = torch.nn.functional.normalize(c - b, dim=0)
    normal = torch.nn.functional.normalize(torch.linalg.cross(b - a, along), dim=0)
    bend, twist = math.radians(180 - angle), math.radians(torsion)
    local = torch.stack([along, torch.linalg.cross(normal, along), normal])
    step = [math.cos(bend), math.cos(twist) * math.sin(bend), math.sin(twist) * math.sin(bend)]
    return c + bond * torch.tensor(step, dtype=torch.float64) @ local
