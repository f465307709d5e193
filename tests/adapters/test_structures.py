"""Structure files: PDB and mmCIF, plain and packed, with everything that real ones have."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pytest
import torch

from drawahead import InputError
from drawahead.adapters.structures import Backbone, made_up_backbone, read_structure

HERE = Path(__file__).parent / "data"
COLUMNS = [
    "group_PDB",
    "id",
    "type_symbol",
    "label_atom_id",
    "label_alt_id",
    "label_comp_id",
    "label_asym_id",
    "label_entity_id",
    "label_seq_id",
    "pdbx_PDB_ins_code",
    "Cartn_x",
    "Cartn_y",
    "Cartn_z",
    "occupancy",
    "B_iso_or_equiv",
    "auth_seq_id",
    "auth_comp_id",
    "auth_asym_id",
    "auth_atom_id",
    "pdbx_PDB_model_num",
]


def as_mmcif(path: Path) -> str:
    """A PDB file as mmCIF, with other label columns than the ones authors gave, and things around the table."""
    rows = []
    for model, line in _atoms(path):
        kind, atom, alt, name, chain = line[:6], line[12:16], line[16], line[17:20], line[21]
        number, inserted = line[22:26], line[26]
        atom = f'"{atom.strip()}"' if atom.strip() == "CA" else f"'{atom.strip()}'" if "O" in atom else atom.strip()
        xyz = [line[at : at + 8] for at in (30, 38, 46)]
        cells = [kind, "1", "C", atom, alt.strip() or ".", name, f"{chain}x", "1", "7", inserted.strip() or "?", *xyz]
        rows.append(" ".join(" ".join([*cells, "1.00 0.00", number, name, chain, atom, str(model)]).split()))
    head = "\n".join(f"_atom_site.{column}" for column in COLUMNS)
    intro = "data_TEST\n#\n_entry.id TEST\nloop_\n_audit.text\n'loop_ it''s'\n;\nATOM in a text\n;\n#\nloop_\n"
    return f"{intro}{head}\n" + "\n".join(rows) + "\n#\nloop_\n_other.a\n_other.b\n1 2\n"


def _atoms(path: Path) -> list[tuple[int, str]]:
    model, found = 1, []
    for line in path.read_text().splitlines():
        if line.startswith("ENDMDL"):
            model += 1
        elif line.startswith(("ATOM", "HETATM")):
            found.append((model, line))
    return found


@pytest.fixture
def awkward(tmp_path: Path) -> Path:
    """Two chains, a gap, insertions, residues without O, a second conformation of another amino acid,
    selenomethionine, a modified residue, water and a second model."""
    lines = []
    names = itertools.cycle(["ALA", "GLY", "TRP", "LYS"])
    for i, residue in enumerate(made_up_backbone(30, seed=3).coordinates.tolist()):
        chain, number = ("B", 200 + i) if i >= 18 else ("A", i - 3 + 4 * (i > 10) - (i > 14) - (i > 15))
        inserted = {15: "A", 16: "B"}.get(i, " ")
        kind, name = {5: ("HETATM", "MSE"), 6: ("HETATM", "SEP")}.get(i, ("ATOM  ", next(names)))
        for atom, xyz in zip(("N", "CA", "C", "O"), residue, strict=True):
            place = "".join(f"{x:8.3f}" for x in xyz)
            if not (i in (9, 20) and atom == "O"):
                lines.append(f"{kind}{1:5d}  {atom:3s} {name} {chain}{number:4d}{inserted}   {place}  1.00  0.00")
            if i == 3:
                lines.append(f"{kind}{1:5d}  {atom:3s}BSER {chain}{number:4d}{inserted}   {place[:-2]}99  0.50  0.00")
    lines.append("HETATM    1  O   HOH A 900       1.000   1.000   1.000  1.00  0.00")
    path = tmp_path / "awkward.pdb"
    path.write_text("\n".join([*lines, "ENDMDL", *lines]) + "\n")
    return path


def same(one: Backbone, other: Backbone) -> bool:
    return (
        torch.equal(one.coordinates, other.coordinates)
        and torch.equal(one.index, other.index)
        and (one.chain, one.sequence, one.labels, one.dropped)
        == (other.chain, other.sequence, other.labels, other.dropped)
    )


def test_what_is_in_an_awkward_file(awkward: Path) -> None:
    found = read_structure(awkward)
    assert found.chains == ("A", "B") and len(found) == 27
    assert found.labels[:5] == ("A-3", "A-2", "A-1", "A0", "A1")
    assert found.dropped == ("A6", "B220") and found.absent == (("A", 9, "G"), ("B", 2, "A"))
    assert found.sequence[5] == "M" and found.labels[6] == "A4"  # the modified residue is left out
    assert found.labels[11:15] == ("A14", "A15", "A15A", "A15B")
    assert found.index.tolist()[:9] == [0, 1, 2, 3, 4, 5, 7, 8, 10] and found.index.tolist()[9] == 15
    assert read_structure(awkward, ca_only=True).coordinates.shape == (29, 1, 3)


@pytest.mark.parametrize("ending", [".pdb.gz", ".cif", ".cif.gz", ".txt"])
def test_the_same_from_another_format(awkward: Path, tmp_path: Path, ending: str) -> None:
    text = as_mmcif(awkward) if "cif" in ending or ending == ".txt" else awkward.read_text()
    path = tmp_path / f"other{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    assert same(read_structure(path), read_structure(awkward))


def test_a_real_protein_from_another_format(tmp_path: Path) -> None:
    path = tmp_path / "1ubi.cif"
    path.write_text(as_mmcif(HERE / "1ubi.pdb"))
    assert same(read_structure(path), read_structure(HERE / "1ubi.pdb"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    text = as_mmcif(HERE / "1ubi.pdb")
    files = {
        "missing.cif": (None, "cannot read"),
        "cut.pdb.gz": (gzip.compress(text.encode())[:-200], "cannot read"),
        "no.gz": (b"\x1f\x8b rubbish", "cannot read"),
        "bad.cif": (text.replace("27.343", "27.x").encode(), r"bad.cif, line \d+"),
        "empty.cif": (b"data_1ABC\n", "no ATOM records"),
        "nothing.pdb": (b"", "no ATOM records"),
        "alpha.pdb": (
            b"ATOM      1  CA  GLY A   1       1.000   1.000   1.000  1.00  0.00\n",
            "all of the atoms N, CA",
        ),
    }
    for name, (data, message) in files.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=message):
            read_structure(tmp_path / name)


def test_residues_are_selected(awkward: Path) -> None:
    found = read_structure(awkward)
    label = found.labels.index
    assert found.select("A14") == [label("A14")] and found.select(3) == [3]
    assert found.select("A-2-1") == [1, 2, 3, 4] and found.select("A-2-A1") == [1, 2, 3, 4]
    assert found.select("A15-15B") == [label("A15"), label("A15A"), label("A15B")]
    assert found.select(["A14", "B"])[1:] == [i for i, chain in enumerate(found.chain) if chain == "B"]
    assert found.select("A0,A1") == [3, 4] and len(found.select("*")) == 27
    assert found.select("A5-A8") == [label("A5"), label("A7")]  # one lacks an atom, one is a gap
    for name, message in {
        "A6": "lacks a backbone atom",
        "C": r"has chains A, B and labels A-3",
        "A100-110": "no residue",
        27: r"0 \.\.\. 26",
        -1: "no residue",
        2.5: "whole number",
        "": "no residue",
    }.items():
        with pytest.raises(InputError, match=message):
            found.select(name)  # type: ignore[arg-type]
