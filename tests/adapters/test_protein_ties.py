"""Tied residues: a group is one step. Against a literal loop by enumeration, and against the published sampler."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, InputError, Recursive, Sequential
from drawahead.oracles.tokens import CountingOracle
from drawahead.proteins.mpnn.decoder import Decoder
from drawahead.proteins.mpnn.encoder import encode
from drawahead.proteins.mpnn.model import ALPHABET, ProteinMPNN, Weights
from drawahead.proteins.structures.files import Backbone, made_up_backbone, read_structure
from drawahead.samplers import Sampler
from drawahead.verification.statistics import chi_square
from tests.adapters.mpnn_literal import random_weights, step_law
from tests.adapters.test_proteinmpnn import LOOSE, UBIQUITIN, features
from tests.exactness import LEVEL

LETTERS = "AKL"
TOKENS = torch.tensor([ALPHABET.index(letter) for letter in LETTERS])
TIED = [{"A1": 1.0, "A4": 0.5}, ["A6", "A3", "A7"]]
GROUPS = [[(0, 1.0), (3, 0.5)], [(5, 1.0), (2, 1.0), (6, 1.0)], [(1, 1.0)], [(4, 1.0)]]  # the same
ORDER = [2, 0, 3, 1]  # of the groups above
DRAWS = 20_000  # on 81 cells: rejects with probability 0.99 from total variation 0.041


def small(**options: Any) -> ProteinMPNN:
    given: dict[str, Any] = {"tied": TIED, "temperature": 1.0, "bias": {"K": 0.5}}
    omit = "".join(set(ALPHABET) - set(LETTERS))
    return ProteinMPNN(random_weights(), made_up_backbone(7, seed=3), omit=omit, dtype=torch.float64, **given | options)


def steps_of(mpnn: ProteinMPNN) -> list[int]:
    """The chain's number of each group of GROUPS."""
    return [int(mpnn.steps.of_residue[group[0][0]]) for group in GROUPS]


@pytest.fixture(scope="module")
def literal() -> Tensor:
    """The law (81,) of all outcomes, columns in the order they are drawn, by the literal loop."""
    mpnn, network = small(), random_weights()
    structure = mpnn.structure
    graph = encode(network, structure.coordinates, structure.index, torch.zeros(7, dtype=torch.int64))
    bias = torch.full((21,), -torch.inf, dtype=torch.float64)
    bias[TOKENS] = torch.tensor([0.0, 0.5, 0.0], dtype=torch.float64)
    groups = [GROUPS[i] for i in ORDER]
    law = []
    laws: dict[tuple[int, ...], Tensor] = {}
    for outcome in itertools.product(range(3), repeat=4):
        log = 0.0
        for k in range(4):
            prefix = outcome[:k]
            if prefix not in laws:
                tokens = [int(TOKENS[i]) for i in prefix] + [0]
                laws[prefix] = step_law(
                    network, graph.nodes, graph.edges, graph.neighbours, groups[: k + 1], tokens, 1.0, bias
                )
            log += float(laws[prefix][TOKENS[outcome[k]]])
        law.append(log)
    return torch.tensor(law, dtype=torch.float64).exp()


def chain_law(mpnn: ProteinMPNN) -> Tensor:
    """The same through the oracle."""
    steps = [steps_of(mpnn)[i] for i in ORDER]
    outcomes = torch.cartesian_prod(*[torch.arange(3)] * 4)
    tokens = torch.zeros(81, 4, dtype=torch.int64)
    tokens[:, steps] = TOKENS[outcomes]
    rank = torch.tensor(steps).argsort().expand(81, -1)
    row, prefix = torch.arange(81).repeat_interleave(4), torch.arange(4).repeat(81)
    rows = mpnn.chain_rows(tokens, rank, row, prefix, torch.tensor(steps).repeat(81)).view(81, 4, 21)
    return rows.gather(-1, TOKENS[outcomes][..., None]).sum((1, 2)).exp()


def p_value(mpnn: ProteinMPNN, law: Tensor, sampler: Sampler, draws: int = DRAWS) -> float:
    steps = [steps_of(mpnn)[i] for i in ORDER]
    samples = da.sample(mpnn.chain(order=steps), draws, sampler=sampler, seed=0, max_live=draws).samples[:, steps]
    drawn = (samples[..., None] == TOKENS).long().argmax(-1)
    return chi_square(torch.bincount(drawn @ torch.tensor([27, 9, 3, 1]), minlength=81), law)


def strangers(mpnn: ProteinMPNN) -> None:
    """Broken: members of a group do not see each other's states."""
    structures = mpnn.decoder.structures
    mpnn.decoder = Decoder(mpnn.decoder.weights, replace(structures, mate=torch.full_like(structures.mate, -1)))


def summed(mpnn: ProteinMPNN) -> None:
    """Broken: logits are summed, not their mean taken."""
    structures = mpnn.decoder.structures
    heavier = structures.weight * (structures.weight != 0).sum(-1, keepdim=True)
    mpnn.decoder = Decoder(mpnn.decoder.weights, replace(structures, weight=heavier))


def led(mpnn: ProteinMPNN) -> None:
    """Broken: the first member of a group decides."""
    structures = mpnn.decoder.structures
    first = torch.zeros_like(structures.weight)
    first[..., 0] = 1.0
    mpnn.decoder = Decoder(mpnn.decoder.weights, replace(structures, weight=first))


def turned(mpnn: ProteinMPNN) -> None:
    """Broken: members are decoded in the opposite order."""
    structures = mpnn.decoder.structures
    same = structures.step[0][structures.neighbours[0]] == structures.step[0][:, None]
    other = same & (structures.mate[0] < 0) & (structures.neighbours[0] != torch.arange(7)[:, None])
    mpnn.decoder = Decoder(mpnn.decoder.weights, replace(structures, mate=torch.where(other, 0, -1)[None]))


def test_the_law_is_that_of_the_literal_loop(literal: Tensor) -> None:
    torch.testing.assert_close(literal.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(chain_law(small()), literal, atol=1e-10, rtol=0)


@pytest.mark.parametrize("sampler", [Coupled(), Block()], ids=repr)
def test_samples_have_the_literal_law(literal: Tensor, check: Callable[[float], None], sampler: Sampler) -> None:
    check(p_value(small(), literal, sampler))


@pytest.mark.parametrize("broken", [strangers, summed, led, turned])
def test_a_broken_tie_is_found(literal: Tensor, broken: Callable[[ProteinMPNN], None]) -> None:
    mpnn = small()
    broken(mpnn)
    assert (chain_law(mpnn) - literal).abs().max() > 1e-4
    assert p_value(mpnn, literal, Coupled()) < LEVEL


def test_drafts_from_earlier_prefixes_are_those_of_a_pass(literal: Tensor) -> None:
    """Cells that are looked up one by one and those that the pass itself answers."""
    mpnn = small()
    tokens, rank = TOKENS[torch.tensor([[0, 2, 1, 1]])], torch.tensor([[2, 0, 3, 1]])
    row, prefix, position = torch.zeros(4, dtype=torch.int64), torch.tensor([1, 1, 1, 1]), torch.tensor([3, 0, 2, 1])
    alone = mpnn.chain_rows(tokens, rank, row[:3], prefix[:3], position[:3])
    more = mpnn.chain_rows(tokens, rank, row, torch.tensor([1, 1, 1, 3]), torch.tensor([3, 0, 2, 2]))[:3]
    torch.testing.assert_close(alone, more, atol=1e-10, rtol=0)


@pytest.mark.parametrize("sampler", [Coupled(), Coupled(2), Block(), Recursive()], ids=repr)
def test_the_batch_changes_nothing_and_costs_are_counted(sampler: Sampler) -> None:
    mpnn = small()
    counting = CountingOracle(mpnn)
    together = da.sample(da.TokenChain(counting), 4, sampler=sampler, seed=0)
    report = together.report
    assert (counting.calls, counting.queries, counting.passes) == (report.rounds, report.queries, report.passes)
    assert torch.equal(da.sample(mpnn, 4, sampler=sampler, seed=0, max_live=1).samples, together.samples)


def test_the_order_of_groups_is_that_of_their_first_residues(check: Callable[[float], None]) -> None:
    """Published: residues come in a random order, and each brings its group along. 24 orders of four groups."""
    mpnn = small()
    rank = mpnn.chain().start(0, torch.arange(DRAWS), da.chains.base.Tally()).rank
    generator = torch.Generator().manual_seed(1)
    keys = torch.rand(50 * DRAWS, 7, generator=generator)
    first = torch.stack([keys[:, [at for at, _ in group]].amin(1) for group in GROUPS], dim=1)
    steps = torch.tensor(steps_of(mpnn))
    code = torch.tensor([64, 16, 4, 1])
    orders = [(order * code).sum(1) for order in (rank[:, steps], first.argsort(1).argsort(1))]
    law = torch.bincount(orders[1], minlength=256).double() / len(keys)
    check(chi_square(torch.bincount(orders[0], minlength=256), law))


def dimer() -> Backbone:
    one = read_structure(UBIQUITIN)
    return Backbone(
        torch.cat([one.coordinates, one.coordinates + torch.tensor([9.0, 14.0, 5.0], dtype=torch.float64)]),
        chain=("A",) * 76 + ("B",) * 76,
        index=torch.cat([one.index, one.index]),
        sequence=2 * one.sequence,
        labels=(*(f"A{i}" for i in range(1, 77)), *(f"B{i}" for i in range(1, 77))),
    )


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_published_sampler_with_the_same_noise_gives_the_same_sequences(
    model: Any, weights: Weights, with_our_noise: Callable[..., None], temperature: float
) -> None:
    """Token for token, and every law on the way: the package's own `tied_sample`, two chains tied, some residues only
    in one of them, weights that differ, and a fixed group."""
    structure, rows = dimer(), 2
    n = len(structure)
    pairs = [(i, 76 + i) for i in range(70)]
    beta = torch.ones(n)
    beta[80:90] = 0.5
    mpnn = ProteinMPNN(
        weights,
        structure,
        temperature=temperature,
        omit="C",
        tied=[{a: float(beta[a]), b: float(beta[b])} for a, b in pairs],
    )
    order = torch.randperm(mpnn.length, generator=torch.Generator().manual_seed(3))
    fixed = ["A5", "B5"]
    chain = mpnn.chain(fixed=fixed, order=order)
    ours = da.sample(chain, rows, sampler=Coupled(), seed=7)
    with_our_noise(rows, first=-1)  # the fixed group draws, too
    residue_rank = order.argsort()[mpnn.steps.of_residue].double() + 1 + 0.1 * mpnn.steps.turn
    known = torch.ones(rows, n)
    known[:, [4, 80]] = 0
    native = mpnn.tokens([structure.sequence]).expand(rows, -1)
    with torch.no_grad():
        theirs = model.tied_sample(
            randn=residue_rank.expand(rows, -1),
            S_true=native,
            chain_mask=torch.ones(rows, n),
            temperature=temperature,
            omit_AAs_np=np.array([letter in "XC" for letter in ALPHABET], dtype=np.float32),
            bias_AAs_np=np.zeros(21),
            chain_M_pos=known,
            bias_by_res=torch.zeros(rows, n, 21),
            tied_pos=[list(pair) for pair in pairs],
            tied_beta=beta,
            **features(structure, rows),
        )
    assert torch.equal(mpnn.residues(ours.samples), theirs["S"])
    assert ours.report.mean_rounds < 12 and ours.report.steps == 81
    rank = chain.start(7, ours.numbers, da.chains.base.Tally()).rank
    row, position = (rank >= 0).nonzero(as_tuple=True)
    by_rank = torch.argsort(row * rank.shape[1] + rank[row, position])
    row, position = row[by_rank], position[by_rank]
    rows_ = mpnn.chain_rows(ours.samples, rank, row, rank[row, position], position).exp()
    torch.testing.assert_close(rows_, theirs["probs"][row, mpnn.steps.members[position, 0]], atol=10 * LOOSE, rtol=0)


def test_coupled_is_sequential_token_for_token() -> None:
    tied = [[i, 76 + i] for i in range(20)]
    mpnn = ProteinMPNN(random_weights(neighbours=12), dimer(), temperature=0.5, tied=tied, dtype=torch.float64)
    chain = mpnn.chain(redesign=["A1-26", "B1-26"])
    sequential = da.sample(chain, 2, sampler=Sequential(), seed=1)
    coupled = da.sample(chain, 2, sampler=Coupled(), seed=1)
    assert torch.equal(coupled.samples, sequential.samples)
    assert coupled.report.mean_rounds < sequential.report.mean_rounds == 32
    for sequence in mpnn.sequences(coupled.samples):
        one, other = sequence.split("/")
        assert one[:20] == other[:20]


def test_ties_that_cannot_be(weights: Weights) -> None:
    peptide = made_up_backbone(5)
    tied: list[tuple[Any, str]] = [
        ([["A1", "A1"]], "tied already"),
        ([["A1", "A2"], ["A2", "A3"]], r"tied\[1\]: residue A2 is tied already"),
        ([["A1", "A9"]], "no residue 'A9'"),
        ("A1", "must be a list"),
        ([{"A1": "much", "A2": 1.0}], "weight of A1"),
    ]
    for given, message in tied:
        with pytest.raises(InputError, match=message):
            ProteinMPNN(weights, peptide, tied=given)
    mpnn = ProteinMPNN(weights, peptide, tied=[["A1", "A2"]])
    with pytest.raises(InputError, match="residues A1, A2 are tied"):
        mpnn.chain(fixed={"A1": "M"})
    assert mpnn.chain(fixed={"A1,A2": "M"}).steps == 3


def test_letters_omitted_at_one_member_are_omitted_for_the_group() -> None:
    mpnn = small(bias=None)
    assert bool(torch.isfinite(mpnn.law.bias[0, :, TOKENS]).all())
    omit = {"*": "".join(set(ALPHABET) - set(LETTERS)), "A4": "K"}
    mpnn = ProteinMPNN(random_weights(), made_up_backbone(7, seed=3), omit=omit, tied=TIED)
    allowed = torch.isfinite(mpnn.law.bias[0]).sum(1)
    assert allowed.tolist() == [2, 3, 3, 3]
    samples = mpnn.residues(da.sample(mpnn, 20, seed=0).samples)
    assert bool((samples[:, [0, 3]] != ALPHABET.index("K")).all()) and bool((samples[:, 0] == samples[:, 3]).all())
