"""Designing and scoring with ProteinMPNN: options, scores and profiles beside the published code."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead import Coupled, InputError
from drawahead.proteins.choices import symmetric
from drawahead.proteins.mpnn.model import ALPHABET, Profile, ProteinMPNN, Weights
from drawahead.proteins.structures.files import Backbone, made_up_backbone, read_structure
from tests.adapters.conftest import PACKAGE
from tests.adapters.mpnn_literal import random_weights
from tests.adapters.test_protein_ties import dimer
from tests.adapters.test_proteinmpnn import LOOSE, UBIQUITIN, features, guesses, orders, published_rows, two_chains


def small(length: int = 12, **options: Any) -> ProteinMPNN:
    structure = Backbone(made_up_backbone(length).coordinates, sequence=("ACDEFGHIKLMNPQRSTVWY" * 3)[:length])
    return ProteinMPNN(random_weights(), structure, dtype=torch.float64, **options)


def letters_at(mpnn: ProteinMPNN, residue: str) -> set[str]:
    """The letters that may be drawn there."""
    allowed = torch.isfinite(mpnn.law.bias[0, mpnn.structure.select(residue)[0]])
    return {letter for letter, one in zip(ALPHABET, allowed.tolist(), strict=True) if one}


def test_letters_are_omitted_everywhere_or_somewhere() -> None:
    everything = set(ALPHABET)
    assert letters_at(small(omit=""), "A1") == everything
    assert letters_at(small(), "A1") == everything - {"X"}
    assert letters_at(small(omit="C"), "A1") == everything - set("CX")  # X stays omitted
    mixed = small(omit={"A2-3": "WY", "*": "C"})
    assert letters_at(mixed, "A3") == everything - set("WYCX") and letters_at(mixed, "A4") == everything - set("CX")
    assert letters_at(small(bias={"A5": {"K": -torch.inf}}), "A5") == everything - set("KX")


def test_biases_by_letter_and_by_residue() -> None:
    mpnn = small(bias={"W": -1.0, "A2": {"W": 0.5, "Y": 2.0}, "A3-4": {"K": 1.0}})
    bias = mpnn.law.bias[0]
    w, y, k = (ALPHABET.index(letter) for letter in "WYK")
    assert (float(bias[0, w]), float(bias[1, w]), float(bias[1, y])) == (-1.0, -0.5, 2.0)
    assert bias[:5, k].tolist() == [0, 0, 1.0, 1.0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias": {"WY": -5}}, "bias of WY must be one letter"),
        ({"bias": {"A1": {"WY": -5}}}, "bias of WY at A1 must be one letter"),
        ({"bias": {"A99": {"W": -5}}}, "no residue 'A99'"),
        ({"bias": {"W": "much"}}, "bias of W"),
        ({"omit": {"A99": "C"}}, "no residue 'A99'"),
        ({"omit": {"A1": "B"}}, "omit at A1"),
        ({"omit": {"A1": ALPHABET}}, "leave no letter"),
        ({"backbone_noise": -1}, "backbone_noise"),
        ({"profile": Profile(probabilities=torch.ones(12, 21), share=0.5)}, "sum to 1"),
        ({"profile": Profile(probabilities=torch.ones(3, 21) / 21, share=0.5)}, r"must be \(12, 21\)"),
        ({"profile": Profile(probabilities=torch.ones(12, 21) / 21, share=1.5)}, "from 0 to 1"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**options)


def test_what_is_kept_and_what_is_designed() -> None:
    mpnn = ProteinMPNN(random_weights(), dimer())
    native = dimer().sequence
    kept = mpnn.chain(fixed=["A1-10", "B5"]).evidence
    assert kept is not None and mpnn.chain(fixed=["A1-10", "B5"]).steps == 152 - 11
    assert "".join(ALPHABET[i] for i in kept[:10].tolist()) == native[:10] and int(kept[10]) == -1
    for chain in (mpnn.chain(design_chains=["A"]), mpnn.chain(redesign="A")):
        assert chain.steps == 76 and "".join(ALPHABET[i] for i in chain.evidence[76:].tolist()) == native[76:]  # type: ignore[index]
    assert mpnn.chain(redesign=["A1-20"], fixed={"A3": "W"}).steps == 19
    designs = mpnn.design(2, redesign=["A1-3"], seed=0)
    assert all(one[3:] == f"{native[3:76]}/{native[76:]}" for one in designs.sequences)
    for options, message in (
        ({"fixed": {"A1": "AC"}}, "fixed residue A1 must be one letter"),
        ({"design_chains": ["C"]}, "there is no chain C: the structure has A, B"),
        ({"design_chains": ["A"], "redesign": ["B"]}, "not both"),
        ({"fixed": "MKV"}, "fixed has 3 letters"),
        ({"fixed": ["C7"]}, "no residue 'C7'"),
    ):
        with pytest.raises(InputError, match=message):
            mpnn.chain(**options)  # type: ignore[arg-type]


def test_designs_are_those_of_sample_with_the_scores_of_their_order() -> None:
    mpnn = small(temperature=0.5, omit="")
    designs = mpnn.design(3, fixed=["A3"], seed=4)
    result = da.sample(mpnn.chain(fixed=["A3"]), 3, sampler=Coupled(), seed=4)
    assert torch.equal(designs.tokens, result.samples) and designs.sequences == mpnn.sequences(result.samples)
    rank = mpnn.chain(fixed=["A3"]).start(4, torch.arange(3), da.chains.base.Tally()).rank
    logs = []
    for tokens, order in zip(result.samples, rank, strict=True):
        steps = order.argsort()[1:]
        rows = mpnn.chain_rows(tokens[None], order[None], torch.zeros(11, dtype=torch.int64), torch.arange(11), steps)
        logs.append(mpnn.temperature * rows)  # scores are of temperature 1: the logits again, up to a constant
        own = logs[-1].log_softmax(-1).gather(1, tokens[steps, None])[:, 0]
        torch.testing.assert_close(designs.score[len(logs) - 1], -own.mean())
    native = mpnn.tokens([mpnn.structure.sequence])
    alike = (designs.tokens == native).double()
    alike[:, 2] = 0
    torch.testing.assert_close(designs.recovery, alike.sum(1) / 11)
    assert designs.result.report.seed == 4


def test_scores_and_probabilities_are_the_published_ones(package: ModuleType, model: Any, weights: Weights) -> None:
    structure = two_chains()
    n = len(structure)
    mpnn = ProteinMPNN(weights, structure)
    tokens, order = guesses(2, n), orders(2, n)
    theirs = published_rows(model, structure, tokens, order)
    torch.testing.assert_close(mpnn.log_probs(mpnn.sequences(tokens), order=order), theirs, atol=LOOSE, rtol=0)
    scores = mpnn.score(mpnn.sequences(tokens), order=order)
    torch.testing.assert_close(
        scores.score.float(), package._scores(tokens, theirs, torch.ones(2, n)), atol=LOOSE, rtol=0
    )
    part = mpnn.score(mpnn.sequences(tokens), redesign=["B"], seed=3)
    assert not torch.equal(part.score, part.global_score) and part.log_probs.shape == (2, n, 21)
    known = features(structure, 1)
    with torch.no_grad():
        alone = model.unconditional_probs(known["X"], known["mask"], known["residue_idx"], known["chain_encoding_all"])
    torch.testing.assert_close(mpnn.log_probs(), alone[0], atol=LOOSE, rtol=0)
    for bad, message in ((["AC"], "has 2 letters"), (["B" * n], "letters")):
        with pytest.raises(InputError, match=message):
            mpnn.score(bad)


@pytest.mark.parametrize("gap", [False, True])
def test_models_of_ca_alone_are_the_published_ones(package: ModuleType, gap: bool) -> None:
    path = PACKAGE / "data" / "ca_model_weights" / "v_48_020.pt"
    file = torch.load(path, weights_only=True)
    theirs = package.ProteinMPNN(21, 128, 128, 128, k_neighbors=file["num_edges"], augment_eps=0.0, ca_only=True)
    theirs.load_state_dict(file["model_state_dict"])
    whole = read_structure(UBIQUITIN, ca_only=True)
    there = torch.ones(76, dtype=torch.bool)
    there[[20, 21, 50]] = not gap
    structure = Backbone(whole.coordinates[there], index=whole.index[there])
    mpnn = ProteinMPNN(path, structure)
    n = len(structure)
    tokens, order = guesses(1, n), orders(1, n)
    mine = mpnn.log_probs(mpnn.sequences(tokens), order=order)
    present = there.nonzero()[:, 0]
    with torch.no_grad():
        rows = theirs.eval()(
            (whole.coordinates[:, 0] * there[:, None]).float()[None],
            torch.zeros(1, 76, dtype=torch.int64).masked_scatter(there[None], tokens),
            there.float()[None],
            there.float()[None],
            torch.arange(76)[None],
            torch.ones(1, 76, dtype=torch.int64),
            None,
            use_input_decoding_order=True,
            decoding_order=torch.cat([(~there).nonzero()[:, 0], present[order[0]]])[None],
        )
    torch.testing.assert_close(mine, rows[:, there], atol=LOOSE, rtol=0)
    with pytest.raises(InputError, match="no atoms but CA"):
        ProteinMPNN(random_weights(), structure)
    assert len(ProteinMPNN(path, UBIQUITIN).design(1, seed=0).sequences[0]) == 76  # other atoms are not needed


def test_a_profile_is_mixed_in_as_published(model: Any, weights: Weights, with_our_noise: Callable[..., None]) -> None:
    """Token for token: the package's `sample` with all of its PSSM terms, letters omitted at residues, and biases."""
    structure, rows = made_up_backbone(14, seed=2), 3
    n = len(structure)
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(n, 21, generator=generator)
    probabilities[:, 20] = 0
    probabilities /= probabilities.sum(1, keepdim=True)
    trust, odds = torch.rand(n, generator=generator), torch.randn(n, 21, generator=generator)
    bias = torch.randn(n, 21, generator=generator)
    profile = Profile(trust, probabilities, 0.6, odds, 0.1)
    omit = {"A3": "KR", "A5": "L"}
    mpnn = ProteinMPNN(weights, structure, temperature=0.5, bias=bias, omit=omit, profile=profile)
    order = orders(rows, n, seed=20)
    ours = da.sample(mpnn.chain(order=order), rows, sampler=Coupled(), seed=7)
    with_our_noise(rows)
    mask = torch.zeros(n, 21)
    mask[2, [ALPHABET.index(letter) for letter in "KR"]] = 1
    mask[4, ALPHABET.index("L")] = 1
    with torch.no_grad():
        theirs = model.sample(
            randn=order.argsort(-1) + 1.0,
            S_true=torch.zeros(rows, n, dtype=torch.int64),
            chain_mask=torch.ones(rows, n),
            temperature=0.5,
            omit_AAs_np=np.array([letter == "X" for letter in ALPHABET], dtype=np.float32),
            bias_AAs_np=np.zeros(21),
            chain_M_pos=torch.ones(rows, n),
            bias_by_res=bias.expand(rows, -1, -1),
            omit_AA_mask=mask.expand(rows, -1, -1),
            pssm_coef=trust.expand(rows, -1),
            pssm_bias=probabilities.expand(rows, -1, -1),
            pssm_multi=0.6,
            pssm_bias_flag=True,
            pssm_log_odds_flag=True,
            pssm_log_odds_mask=(odds > 0.1).float().expand(rows, -1, -1),
            **features(structure, rows),
        )
    assert torch.equal(ours.samples, theirs["S"])


def test_omitted_letters_stay_out_of_a_profile() -> None:
    """Everywhere, at one residue, or by a bias of minus infinity; though the profile knows nothing else."""
    table = torch.zeros(12, 21)
    table[:, [ALPHABET.index(letter) for letter in "CKW"]] = 1 / 3
    mpnn = small(
        profile=Profile(probabilities=table, share=1.0), omit={"*": "C", "A2": "K"}, bias={"A3": {"W": -torch.inf}}
    )
    drawn = mpnn.design(60, seed=0).sequences
    assert [{sequence[i] for sequence in drawn} for i in range(4)] == [{"K", "W"}, {"W"}, {"K"}, {"K", "W"}]


def test_noise_on_the_backbone_is_that_of_its_seed() -> None:
    plain = small().log_probs()
    noisy = [small(backbone_noise=0.3, noise_seed=seed).log_probs() for seed in (1, 1, 2)]
    assert torch.equal(noisy[0], noisy[1]) and not torch.equal(noisy[0], noisy[2])
    assert not torch.equal(noisy[0], plain)


def test_chains_are_tied_residue_by_residue() -> None:
    tied = symmetric(dimer(), ["A", "B"], [1.0, 0.5])
    assert len(tied) == 76 and tied[3] == {3: 1.0, 79: 0.5}
    mpnn = ProteinMPNN(random_weights(), dimer(), tied=tied)
    assert mpnn.length == 76
    one, other = mpnn.design(1, seed=0).sequences[0].split("/")
    assert one == other
    for chains, weights, message in (
        (["A", "C"], None, "no chain C"),
        (["A", "B"], [1.0], "weights must be 2"),
    ):
        with pytest.raises(InputError, match=message):
            symmetric(dimer(), chains, weights)
    with pytest.raises(InputError, match="32 and 20 residues, and differ at place 21"):
        symmetric(
            Backbone(two_chains().coordinates, chain=two_chains().chain, index=[*range(32), *range(20)]), ["A", "B"]
        )  # type: ignore[arg-type]
