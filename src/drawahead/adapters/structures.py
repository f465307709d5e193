"""Protein backbones: read from a PDB or mmCIF file, given as coordinates, or made up."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from drawahead import validate
from drawahead.adapters._atoms import read_residues
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
_NUMBER = re.compile(r"(-?\d+)([A-Za-z]?)")


def _number(text: str) -> tuple[float, str]:
    """A residue's number and insertion code, to be compared; no number at all is none."""
    found = _NUMBER.fullmatch(text)
    return (int(found[1]), found[2]) if found else (math.nan, "")


@final
@dataclass(frozen=True, eq=False)
class Backbone:
    """The backbone of a protein of one or more chains; every residue has all four atoms, or every one only its CA."""

    coordinates: Tensor
    """(n, 4, 3), in angstroms: N, CA, C, O of every residue; or (n, 1, 3): CA."""
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
    absent: tuple[tuple[str, int, str], ...] = ()
    """Of each of those: its chain, its place along the chain, its letter."""
    ligand: Tensor = field(default_factory=lambda: torch.zeros(0, 3, dtype=torch.float64))
    """(a, 3), in angstroms: heavy atoms that are neither protein nor water. LigandMPNN looks at them."""
    elements: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """(a,): the atomic numbers of those."""

    def __post_init__(self) -> None:
        try:
            coordinates = validate.as_float64("coordinates", self.coordinates, "cpu")
        except InputError as error:
            raise InputError(f"coordinates must be numbers (residues, 4, 3): {error}") from None
        n = len(coordinates) if coordinates.dim() else 0
        if coordinates.shape not in ((n, 4, 3), (n, 1, 3)) or n == 0:
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
        ligand, elements = (
            validate.as_float64("ligand", self.ligand, "cpu"),
            torch.tensor(wholes("elements", self.elements, 1)),
        )
        if ligand.shape != (len(elements), 3) or bool((elements > 118).any()) or not bool(ligand.isfinite().all()):
            raise InputError("ligand must be (atoms, 3), with an atomic number in elements for each")
        object.__setattr__(self, "ligand", ligand)
        object.__setattr__(self, "elements", elements.to(torch.int64))
        checked = {"coordinates": coordinates, "chain": chain, "index": index, "sequence": sequence, "labels": labels}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.coordinates)

    @staticmethod
    def of(structure: Any, *, ca_only: bool = False) -> Backbone:
        """From a backbone, the path of a file, or coordinates (n, 4, 3); with `ca_only` those of CA alone."""
        if isinstance(structure, str | Path):
            return read_structure(structure, ca_only=ca_only)
        backbone = structure if isinstance(structure, Backbone) else Backbone(structure)
        if backbone.ca_only and not ca_only:
            raise InputError("the structure has no atoms but CA: take the weights of a CA-only model")
        if ca_only and not backbone.ca_only:
            return replace(backbone, coordinates=backbone.coordinates[:, 1:2])
        return backbone

    @property
    def ca_only(self) -> bool:
        """Whether CA is all that is known of its residues."""
        return self.coordinates.shape[1] == 1

    @property
    def chains(self) -> tuple[str, ...]:
        """The names of its chains, in their order."""
        return tuple(dict.fromkeys(self.chain))

    def only(self, chains: Iterable[str]) -> Backbone:
        """The same without all other chains."""
        kept = set(chains)
        if kept >= set(self.chains):
            return self
        rows = [i for i, chain in enumerate(self.chain) if chain in kept]
        return Backbone(
            self.coordinates[rows],
            chain=tuple(self.chain[i] for i in rows),
            index=self.index[rows],
            sequence="".join(self.sequence[i] for i in rows),
            labels=tuple(self.labels[i] for i in rows),
            dropped=tuple(name for name, of in zip(self.dropped, self.absent, strict=False) if of[0] in kept),
            absent=tuple(of for of in self.absent if of[0] in kept),
            ligand=self.ligand,
            elements=self.elements,
        )

    def select(self, residues: int | str | Iterable[int | str]) -> list[int]:
        """The positions of residues: a position, a label such as "A42", a range of numbers such as "A10-25", the name
        of a chain, "*" for all; or several of these, in a list or separated by commas."""
        if isinstance(residues, str):
            return [i for part in residues.split(",") for i in self._named(part.strip())]
        if isinstance(residues, Iterable):
            return [i for part in residues for i in self.select(part)]
        position = whole("a residue", residues)
        if not 0 <= position < len(self):
            raise self._unknown(position)
        return [position]

    def _named(self, name: str) -> list[int]:
        if name == "*":
            return list(range(len(self)))
        found = [i for i, label in enumerate(self.labels) if label == name]
        found = found or [i for i, chain in enumerate(self.chain) if chain == name and name]
        found = found or [i for chain in self.chains for i in self._between(chain, name)]
        if not found:
            raise self._unknown(name)
        return found

    def _between(self, chain: str, name: str) -> list[int]:
        """The residues of a chain from one number to another, such as A10-25 or A10-A25."""
        own = re.escape(chain)
        ends = re.fullmatch(rf"{own}(-?\d+[A-Za-z]?)-(?:{own})?(-?\d+[A-Za-z]?)", name)
        if ends is None:
            return []
        first, last = _number(ends[1]), _number(ends[2])
        mine = [i for i, of in enumerate(self.chain) if of == chain]
        return [i for i in mine if first <= _number(self.labels[i].removeprefix(chain)) <= last]

    def _unknown(self, name: object) -> InputError:
        if name in self.dropped:
            return InputError(f"residue {name} lacks a backbone atom, and is not part of the structure: leave it out")
        return InputError(
            f"the structure has no residue {short(name)}: it has chains {', '.join(self.chains)} and labels "
            f"{self.labels[0]} ... {self.labels[-1]}; positions are 0 ... {len(self) - 1}"
        )


def read_structure(path: str | Path, *, ca_only: bool = False) -> Backbone:
    """The backbone in a PDB or mmCIF file, plain or gzipped: first model, first conformation, in the file's order.

    Selenomethionine is read as methionine; all other HETATM records are left out. Residues that lack N, CA, C or O
    (with `ca_only`, CA) are left out and named in `dropped`; the numbering of the file keeps their place.
    """
    path = validate.path("the structure", path)
    found, ligand = read_residues(path)
    wanted = ("CA",) if ca_only else ATOMS
    place = _places([(residue.chain, residue.number) for residue in found])
    whole = [all(atom in residue.atoms for atom in wanted) for residue in found]
    if not any(whole):
        raise InputError(f"{path}: no residue has all of the atoms {', '.join(wanted)}")
    kept = [residue for residue, complete in zip(found, whole, strict=True) if complete]
    left = [residue for residue, complete in zip(found, whole, strict=True) if not complete]
    return Backbone(
        torch.tensor([[residue.atoms[atom] for atom in wanted] for residue in kept], dtype=torch.float64),
        chain=tuple(residue.chain for residue in kept),
        index=torch.tensor([place[residue.chain, residue.number] for residue in kept]),
        sequence="".join(_LETTERS.get(residue.name, "X") for residue in kept),
        labels=tuple(residue.chain + residue.number for residue in kept),
        dropped=tuple(residue.chain + residue.number for residue in left),
        absent=tuple(
            (residue.chain, place[residue.chain, residue.number], _LETTERS.get(residue.name, "X")) for residue in left
        ),
        ligand=torch.tensor([xyz for _, xyz in ligand], dtype=torch.float64).view(-1, 3),
        elements=torch.tensor([element for element, _ in ligand], dtype=torch.int64),
    )


def read_pdb(path: str | Path) -> Backbone:
    """As `read_structure`."""
    return read_structure(path)


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
