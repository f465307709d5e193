"""The structures that `design` is measured on: what is taken from an entry, and what is said if there is none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from studies import structures
from studies.__main__ import main


def line(atom: str, chain: str, number: int, other: str = " ") -> str:
    return f"ATOM      1  {atom:<3s}{other}ALA {chain}{number:4d}       0.000   0.000   0.000\n"


def chain(name: str, numbers: range) -> list[str]:
    return [line(atom, name, number) for number in numbers for atom in structures.BACKBONE]


def test_atoms_are_those_of_the_first_model_and_one_conformation(tmp_path: Path) -> None:
    kept = [line("N", "A", 1), line("CB", "A", 1), line("O", "A", 1, "A")]
    text = [*kept, line("SD", "A", 1), line("CA", "A", 1, "B"), "ENDMDL\n", line("N", "A", 2)]
    path = tmp_path / "entry.pdb.gz"
    path.write_bytes(gzip.compress("".join(text).encode()))
    assert [*structures.atoms(path)] == [*kept[:2], line("O", "A", 1)]


def test_chains_are_whole_and_each_sequence_comes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*chain("A", range(50)), *chain("B", range(50)), *chain("C", range(60))[1:], *chain("D", range(9))]
    (tmp_path / "entry.pdb").write_text("".join(lines))
    monkeypatch.setattr(structures, "ENTRIES", ("entry.pdb",))
    assert [(name, len(found)) for name, found in structures.singles(tmp_path)] == [("entry_A", 200)]


def test_tied_chains_have_their_residues_in_common() -> None:
    found = dict(structures.tied([*chain("A", range(100)), *chain("B", range(5, 110))]))
    assert [*structures.residues(found["trimer"])] == [f"{number:4d} " for number in range(5, 100)]
    assert len(found["stretch"]) == 2 * 4 * 55


def test_a_folder_without_them_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"holds no .*: unpack both source distributions there"):
        main(["structures", str(tmp_path), "--out", str(tmp_path / "out")])
