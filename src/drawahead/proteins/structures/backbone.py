"""The backbone of a protein: coordinates, chains, labels, and how residues are named."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import field, replace
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import as_float64, short, whole, wholes
from drawahead.values import dataclass

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
    """Names for the residues (n,), such as A42; if left out, chain and place along it, from 1 on."""
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
            coordinates = as_float64("coordinates", self.coordinates, "cpu")
        except InputError as error:
            raise InputError(f"coordinates must be numbers (residues, 4, 3): {error}") from None
        n = len(coordinates) if coordinates.dim() else 0
        if coordinates.shape not in ((n, 4, 3), (n, 1, 3)) or n == 0:
            raise InputError(f"coordinates must be (residues, 4, 3): N, CA, C, O; not {tuple(coordinates.shape)}")
        bad = (~coordinates.isfinite().flatten(1).all(1)).nonzero()[:, 0].tolist()
        if bad:
            raise InputError(
                f"coordinates of residue {bad[0]} are not finite ({len(bad)} such): leave such residues out"
            )
        chain, sequence = tuple(map(str, self.chain)) or ("A",) * n, self.sequence or "X" * n
        places = wholes("index", self.index) or tuple(range(n))
        numbered = (f"{name}{place + 1}" for name, place in zip(chain, places, strict=False))
        labels = tuple(map(str, self.labels)) or tuple(numbered)
        for name, entries in (("chain", chain), ("index", places), ("sequence", sequence), ("labels", labels)):
            if len(entries) != n:
                raise InputError(f"{name} has {len(entries)} entries, but the backbone has {n} residues")
        ligand = as_float64("ligand", self.ligand, "cpu")
        elements = torch.tensor(wholes("elements", self.elements, 1), dtype=torch.int64)
        if ligand.shape != (len(elements), 3) or bool((elements > 118).any()) or not bool(ligand.isfinite().all()):
            raise InputError("ligand must be (atoms, 3), with an atomic number in elements for each")
        checked = {"coordinates": coordinates, "chain": chain, "index": torch.tensor(places), "sequence": sequence}
        for name, value in (checked | {"labels": labels, "ligand": ligand, "elements": elements}).items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.coordinates)

    @property
    def ca_only(self) -> bool:
        """Whether CA is the only atom of its residues."""
        return self.coordinates.shape[1] == 1

    @property
    def chains(self) -> tuple[str, ...]:
        """The names of its chains, in their order."""
        return tuple(dict.fromkeys(self.chain))

    def check_chain(self, chain: str) -> None:
        """Refuse a chain that the structure does not have."""
        if chain not in self.chains:
            raise InputError(f"there is no chain {chain}: the structure has {', '.join(self.chains)}")

    def places(self, chain: str) -> dict[int, int]:
        """The positions of a chain's residues by their place along it."""
        return {int(self.index[i]): i for i, of in enumerate(self.chain) if of == chain}

    def only(self, chains: Iterable[str]) -> Backbone:
        """The same without all other chains."""
        kept = set(chains)
        if kept >= set(self.chains):
            return self
        rows = [i for i, chain in enumerate(self.chain) if chain in kept]
        return replace(
            self,
            coordinates=self.coordinates[rows],
            chain=tuple(self.chain[i] for i in rows),
            index=self.index[rows],
            sequence="".join(self.sequence[i] for i in rows),
            labels=tuple(self.labels[i] for i in rows),
            dropped=tuple(name for name, of in zip(self.dropped, self.absent, strict=False) if of[0] in kept),
            absent=tuple(of for of in self.absent if of[0] in kept),
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
