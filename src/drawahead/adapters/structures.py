"""Protein backbones: read from a PDB file, given as coordinates, or made up."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from drawahead import validate
from drawahead.errors import InputError
from drawahead.randomness import seeded
from drawahead.validate import instance, short, whole, wholes

ATOMS = ("N", "CA", "C", "O")
# fmt: off
_LETTERS = {
    "ALA": "A", "ARG": "R", "ASN": "N", "ASP": "D", "CYS": "C", "GLN": "Q", "GLU": "E", "GLY": "G",
    "HIS": "H", "ILE": "I", "LEU": "L", "LYS": "K", "MET": "M", "PHE": "F", "PRO": "P", "SER": "S",
    "THR": "T", "TRP": "W", "TYR": "Y", "VAL": "V", "MSE": "M",
}
# fmt: on


@final
@dataclass(frozen=True, eq=False)
class Backbone:
    """The backbone of a protein of one or more chains; every residue has all four atoms."""

    coordinates: Tensor
    """(n, 4, 3), in angstroms: N, CA, C, O of every residue."""
    chain: tuple[str, ...] = ()
    """The chain of every residue (n,); one chain, "A", if left out."""
    index: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    """The place of every residue along its chain (n,): 0, 1, ... if left out. A gap in it is a gap in the chain."""
    sequence: str = ""
    """The native amino acids (n,), X where unknown (everywhere, if left out)."""
    labels: tuple[str, ...] = ()
    """Names for the residues (n,), such as A42; chain and 1, 2, ... if left out."""
    dropped: tuple[str, ...] = ()
    """Residues of the file that lack a backbone atom; they are not part of the backbone."""

    def __post_init__(self) -> None:
        try:
            coordinates = validate.as_float64("coordinates", self.coordinates, "cpu")
        except InputError as error:
            raise InputError(f"coordinates must be numbers (residues, 4, 3): {error}") from None
        n = len(coordinates) if coordinates.dim() else 0
        if coordinates.shape != (n, 4, 3) or n == 0:
            raise InputError(f"coordinates must be (residues, 4, 3): N, CA, C, O; not {tuple(coordinates.shape)}")
        bad = ~coordinates.isfinite().flatten(1).all(1)
        if bool(bad.any()):
            at = bad.nonzero()[:, 0].tolist()
            raise InputError(f"coordinates of residue {at[0]} are not finite ({len(at)} such): leave such residues out")
        instance("sequence", self.sequence, str, "a text")
        for name in ("chain", "labels", "dropped"):
            instance(name, getattr(self, name), Sequence, "a sequence of texts")
        chain = tuple(map(str, self.chain)) or ("A",) * n
        places = wholes("index", self.index)
        if places and len(places) != n:
            raise InputError(f"index must be {n} whole numbers, not {len(places)}")
        index = torch.tensor(places) if places else torch.arange(n)
        sequence = self.sequence or "X" * n
        labels = tuple(map(str, self.labels)) or tuple(f"{c}{i + 1}" for i, c in enumerate(chain))
        for name, given in (("chain", chain), ("sequence", sequence), ("labels", labels)):
            if len(given) != n:
                raise InputError(f"{name} has {len(given)} entries, but the backbone has {n} residues")
        checked = {"coordinates": coordinates, "chain": chain, "index": index, "sequence": sequence, "labels": labels}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.coordinates)

    @staticmethod
    def of(structure: Any) -> Backbone:
        """From a backbone, the path of a PDB file, or coordinates (n, 4, 3)."""
        if isinstance(structure, Backbone):
            return structure
        return read_pdb(structure) if isinstance(structure, str | Path) else Backbone(structure)


def read_pdb(path: str | Path) -> Backbone:
    """The backbone in a PDB file: first model, first conformation, chains and residues in the order of the file.

    Selenomethionine is read as methionine; all other HETATM records are left out. Residues that lack N, CA, C or O
    are left out and named in `dropped`; the numbering of the file keeps their place.
    """
    path = validate.path("the structure", path)
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the structure {short(str(path))}: {error}") from None
    residues: dict[tuple[str, str], dict[str, list[float]]] = {}  # by chain, and number with insertion code
    names: dict[tuple[str, str], str] = {}
    for count, line in enumerate(lines, 1):
        if line.startswith("ENDMDL"):
            break
        if not line.startswith("ATOM  ") and not (line.startswith("HETATM") and line[17:20] == "MSE"):
            continue
        residue = (line[21:22].strip(), line[22:27].strip())
        try:
            int(line[22:26])
            if line[26:27].strip(string.ascii_letters + " "):
                raise ValueError("an insertion code is a letter")
            xyz = [float(line[at : at + 8]) for at in (30, 38, 46)]
        except ValueError:
            raise InputError(f"{path}, line {count}: not an ATOM record of a PDB file: {line.rstrip()!r}") from None
        names.setdefault(residue, line[17:20].strip())
        residues.setdefault(residue, {}).setdefault(line[12:16].strip(), xyz)
    if not residues:
        raise InputError(f"{path} has no ATOM records: it is not a PDB file (convert mmCIF to PDB first), or is empty")
    place = _places(list(residues))
    whole_ones = [residue for residue, atoms in residues.items() if all(atom in atoms for atom in ATOMS)]
    if not whole_ones:
        raise InputError(f"{path}: no residue has all of the atoms {', '.join(ATOMS)}")
    return Backbone(
        torch.tensor([[residues[residue][atom] for atom in ATOMS] for residue in whole_ones], dtype=torch.float64),
        chain=tuple(chain for chain, _ in whole_ones),
        index=torch.tensor([place[residue] for residue in whole_ones]),
        sequence="".join(_LETTERS.get(names[residue], "X") for residue in whole_ones),
        labels=tuple(chain + number for chain, number in whole_ones),
        dropped=tuple(chain + number for chain, number in residues if (chain, number) not in set(whole_ones)),
    )


def _places(residues: list[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Each residue's place along its chain: numbers that are skipped keep theirs, insertions get one of their own."""
    place: dict[tuple[str, str], int] = {}
    last: dict[str, tuple[int, int]] = {}  # of each chain: number, place
    for chain, label in residues:
        number = int(label.rstrip(string.ascii_letters))
        before, at = last.get(chain, (number - 1, -1))
        last[chain] = number, at + max(1, number - before)
        place[chain, label] = last[chain][1]
    return place


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
