"""Structure files: PDB and mmCIF, plain and packed, with everything that real ones have."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
from pathlib import Path

import pytest
import torch

from drawahead import InputError
from drawahead.proteins.structures.files import Backbone, made_up_backbone, read_structure

HERE = Path(__file__).parent / "data"
COLUMNS = (
    "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id label_entity_id label_seq_id "
    "pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy B_iso_or_equiv auth_seq_id auth_comp_id auth_asym_id "
    "auth_atom_id pdbx_PDB_model_num"
)


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
    head = "\n".join(f"_atom_site.{column}" for column in COLUMNS.split())
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


def numbered(last: str, inserted: str = "?", residues: int = 10) -> str:
    """An mmCIF file of a few residues, the last with this number."""
    rows = []
    for i, residue in enumerate(made_up_backbone(residues).coordinates.tolist()):
        number = last if i == residues - 1 else str(i + 1)
        for atom, (x, y, z) in zip(("N", "CA", "C", "O"), residue, strict=True):
            rows.append(f"ATOM {atom} ALA A {number} {inserted if number == last else '?'} {x:.3f} {y:.3f} {z:.3f}")
    columns = ("group_PDB", "auth_atom_id", "auth_comp_id", "auth_asym_id", "auth_seq_id", "pdbx_PDB_ins_code")
    head = "".join(f"_atom_site.{name}\n" for name in (*columns, "Cartn_x", "Cartn_y", "Cartn_z"))
    return f"data_X\nloop_\n{head}" + "\n".join(rows) + "\n"


class TestWhatAFileMayCost:
    """What a file makes of itself is bounded by what it really holds."""

    @pytest.mark.parametrize("number", ["300000000", str(10**12), str(10**30), "20000"])
    def test_a_gap_beyond_all_bounds_is_refused(self, number: str, tmp_path: Path) -> None:
        (tmp_path / "far.cif").write_text(numbered(number))
        with pytest.raises(
            InputError, match=rf"far\.cif: residue 'A{number}' comes after 'A9'; a file of 10"
        ) as caught:
            read_structure(tmp_path / "far.cif")
        assert "\n" not in str(caught.value)

    def test_so_is_one_far_below_zero(self, tmp_path: Path) -> None:
        (tmp_path / "far.cif").write_text(numbered("5").replace(" A 1 ", f" A -{10**30} "))
        with pytest.raises(InputError, match=r"residue 'A2' comes after"):
            read_structure(tmp_path / "far.cif")

    def test_and_many_of_them(self, tmp_path: Path) -> None:
        rows = numbered("9000", residues=2)
        head, body = rows[: rows.index("ATOM")], rows[rows.index("ATOM") :]
        (tmp_path / "many.cif").write_text(head + "".join(body.replace(" ALA A", f" ALA C{i}") for i in range(40)))
        with pytest.raises(InputError, match="a file of 80 residues may skip 10800 numbers in all"):
            read_structure(tmp_path / "many.cif")

    def test_gaps_of_real_files_keep_their_place(self, tmp_path: Path) -> None:
        """Fusions are numbered from 1001 on, and no PDB file has more than four digits."""
        (tmp_path / "fused.cif").write_text(numbered("9999"))
        assert read_structure(tmp_path / "fused.cif").index.tolist() == [*range(9), 9998]

    @pytest.mark.parametrize("code", ["5", "-", "1_0", "é"])
    def test_an_insertion_code_is_letters(self, code: str, tmp_path: Path) -> None:
        (tmp_path / "a.cif").write_text(numbered("10", inserted=code))
        with pytest.raises(InputError, match="not an atom of an mmCIF file"):
            read_structure(tmp_path / "a.cif")

    def test_a_packed_file_is_unpacked_as_far_as_it_may_hold_something(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.pdb.gz"
        path.write_bytes(gzip.compress(b"\n" * 50_000_000, 9))
        tracemalloc.start()
        try:
            with pytest.raises(InputError, match=r"bomb\.pdb\.gz unpacks to more than 100 times its size"):
                read_structure(path)
            assert tracemalloc.get_traced_memory()[1] < 30_000_000
        finally:
            tracemalloc.stop()

    def test_a_plain_file_takes_room_in_proportion(self, tmp_path: Path) -> None:
        path = tmp_path / "lines.pdb"
        path.write_bytes(b"\n" * 2_000_000)
        tracemalloc.start()
        try:
            with pytest.raises(InputError, match="no ATOM records"):
                read_structure(path)
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()

    def test_a_line_that_is_none_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a.cif").write_text(numbered("10") + "'a " * 100_000 + "\n")
        with pytest.raises(InputError, match="it has 300001 characters, more than 8192"):
            read_structure(tmp_path / "a.cif")
