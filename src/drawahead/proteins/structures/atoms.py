"""The atoms of a structure file, residue by residue: PDB or mmCIF, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import itertools
import re
import string
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from drawahead.errors import InputError
from drawahead.proteins.structures.elements import NUMBERS
from drawahead.validate import short

_PIECE = 1 << 20  # bytes that are unpacked at a time
_PACKED = 100  # how many times its size a file may unpack to: real ones take about 5
_LONGEST = 8192  # characters of a line of a structure: CIF allows for 2048
# A value of a CIF file: quoted (a quote ends it only before a space), or up to the next space.
_CIF_VALUE = re.compile(r"'(.*?)'(?=\s|$)|\"(.*?)\"(?=\s|$)|(#.*)|(\S+)")
_WATER = frozenset({"HOH", "WAT", "DOD", "H2O", "SOL", "TIP", "TIP3"})
_CIF_COLUMNS = {
    "kind": ("group_PDB",),
    "atom": ("auth_atom_id", "label_atom_id"),
    "name": ("auth_comp_id", "label_comp_id"),
    "chain": ("auth_asym_id", "label_asym_id"),
    "number": ("auth_seq_id", "label_seq_id"),
    "x": ("Cartn_x",),
    "y": ("Cartn_y",),
    "z": ("Cartn_z",),
}


Atom = tuple[int, tuple[float, float, float]]
"""The number of the element (0: unknown) and the place."""


@final
@dataclass(frozen=True)
class Residue:
    """One residue of a file."""

    chain: str
    number: str
    """Its number in the file, with the insertion code, such as 52A."""
    name: str
    """Its three letters."""
    atoms: dict[str, Atom] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.chain + self.number


def read_residues(path: Path) -> tuple[list[Residue], list[Atom]]:
    """The residues of the first model, in the order of the file, each atom in its first conformation; and all heavy
    atoms that belong neither to a protein nor to water.

    Selenomethionine counts as a residue; all other HETATM records do not.
    """
    data = _unpacked(path)
    first = next((line for line in _lines(data) if not line.isspace()), "")
    mmcif = path.name.lower().removesuffix(".gz").endswith((".cif", ".mmcif")) or first.lstrip().startswith("data_")
    found: dict[tuple[str, str], Residue] = {}
    other: dict[tuple[str, str, str], Residue] = {}
    for record in _mmcif(path, _lines(data)) if mmcif else _pdb(path, _lines(data)):
        key = record.chain, record.number
        new = Residue(*key, record.name)
        residue = found.setdefault(key, new) if record.protein else other.setdefault((*key, record.name), new)
        residue.atoms.setdefault(record.atom, (NUMBERS.get(record.element.upper(), 0), record.xyz))
    if not found:
        raise InputError(f"{path} has no ATOM records: it is no structure, or an empty one")
    around = [residue for residue in found.values() if residue.atoms.keys() & {"P", "C1'", "C1*"}]  # nucleic acids
    around += [residue for residue in other.values() if _is_ligand(residue)]
    return list(found.values()), [atom for residue in around for atom in residue.atoms.values() if atom[0] > 1]


def _is_ligand(residue: Residue) -> bool:
    """Whether it is neither water nor an amino acid of an unusual kind."""
    return residue.name not in _WATER and not {"N", "CA", "C", "O"} <= residue.atoms.keys()


@final
@dataclass(frozen=True)
class _Record:
    chain: str
    number: str
    name: str
    atom: str
    xyz: tuple[float, float, float]
    element: str
    protein: bool
    """Whether it is an ATOM record, or selenomethionine."""


def _unpacked(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        if data[:2] != b"\x1f\x8b":
            return data
        most, found = _PIECE + _PACKED * len(data), bytearray()
        with gzip.open(io.BytesIO(data)) as file:
            while piece := file.read(_PIECE):
                found += piece
                if len(found) > most:
                    raise InputError(f"{path} unpacks to more than {_PACKED} times its size: that is no structure")
        return bytes(found)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read the structure {short(str(path))}: {error}") from None


def _lines(data: bytes) -> Iterator[str]:
    """The lines, one after another: all at once may take many times the memory of the file."""
    return io.TextIOWrapper(io.BytesIO(data), "utf-8", "replace")


def _pdb(path: Path, lines: Iterable[str]) -> Iterator[_Record]:
    for count, line in enumerate(lines, 1):
        if line.startswith("ENDMDL"):
            return
        if not line.startswith(("ATOM  ", "HETATM")):
            continue
        protein = line.startswith("ATOM") or line[17:20] == "MSE"
        try:
            int(line[22:26])
            if line[26:27].strip(string.ascii_letters + " "):
                raise ValueError("an insertion code is a letter")
            x, y, z = (float(line[at : at + 8]) for at in (30, 38, 46))
        except ValueError:
            raise InputError(
                f"{path}, line {count}: not an ATOM record of a PDB file: {short(line.rstrip())}"
            ) from None
        # Where there is no element, the atom's name begins with it: in the first two columns, a digit aside.
        element = line[76:78].strip() or line[12:14].strip(string.digits + " ")
        chain, number, name, atom = (line[a:b].strip() for a, b in ((21, 22), (22, 27), (17, 20), (12, 16)))
        yield _Record(chain, number, name, atom, (x, y, z), element, protein)


def _mmcif(path: Path, lines: Iterable[str]) -> Iterator[_Record]:
    model = None
    for count, row in _atom_site(path, lines):
        get = _first_of(row)
        model = model or row.get("pdbx_PDB_model_num")
        if row.get("pdbx_PDB_model_num") != model:
            return
        inserted = row.get("pdbx_PDB_ins_code", "?").strip("?.")
        try:
            if inserted.strip(string.ascii_letters):
                raise ValueError("an insertion code is made of letters")
            number = f"{int(get['number'])}{inserted}"
            xyz = (float(get["x"]), float(get["y"]), float(get["z"]))
        except ValueError:
            raise InputError(
                f"{path}, line {count}: not an atom of an mmCIF file: {short(list(row.values()))}"
            ) from None
        protein = get["kind"] == "ATOM" or get["name"] == "MSE"
        yield _Record(get["chain"], number, get["name"], get["atom"], xyz, row.get("type_symbol", ""), protein)


def _first_of(row: Mapping[str, str]) -> dict[str, str]:
    """The values that are needed, from the first column that has each."""
    found = {}
    for name, columns in _CIF_COLUMNS.items():
        values = (row[column] for column in columns if row.get(column, "?") not in ("?", "."))
        found[name] = next(values, "")
    return found


def _atom_site(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of the table of atoms, each with the number of its line."""
    columns: list[str] = []
    values: list[str] = []
    for count, line in enumerate(lines, 1):
        if line.startswith("_atom_site."):
            columns.append(line.removeprefix("_atom_site.").strip())
        elif columns and line.startswith(("_", "loop_", "data_")):
            return
        elif columns and not line.startswith("#"):
            if len(line) > _LONGEST:
                raise InputError(f"{path}, line {count}: it has {len(line)} characters, more than {_LONGEST}")
            values += _values(line)
            while len(values) >= len(columns):
                yield count, dict(zip(columns, values, strict=False))
                values = values[len(columns) :]


def _values(line: str) -> list[str]:
    if not any(mark in line for mark in "'\"#"):
        return line.split()
    found = itertools.takewhile(lambda parts: not parts[2], _CIF_VALUE.findall(line))
    return [single or double or plain for single, double, _, plain in found]
