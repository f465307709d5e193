"""Structures of different lengths that share rounds: the sequences of each are those it gets alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, InputError, Sequential, Stepwise
from drawahead.oracles.tokens import CountingOracle
from drawahead.proteins.mpnn.backbones import Backbones, rung
from drawahead.proteins.mpnn.model import ALPHABET, Profile, ProteinMPNN
from drawahead.proteins.structures.files import made_up_backbone
from drawahead.samplers import Sampler
from drawahead.verification.statistics import chi_square
from tests.adapters.mpnn_literal import random_weights
from tests.exactness import LEVEL

WEIGHTS = random_weights()
LETTERS = torch.tensor([ALPHABET.index(letter) for letter in "AKL"])
OMIT = "".join(set(ALPHABET) - set("AKL"))
DRAWS = 20_000  # on 9 + 27 cells: rejects with probability 0.99 from total variation 0.035


def models() -> list[ProteinMPNN]:
    profile = Profile(probabilities=torch.full((11, 21), 1 / 21), share=0.3)
    return [
        ProteinMPNN(WEIGHTS, made_up_backbone(19), dtype=torch.float64, tied=[[1, 5], [2, 7, 9]]),
        ProteinMPNN(WEIGHTS, made_up_backbone(11, 1), dtype=torch.float64, profile=profile, omit={3: "AK"}),
        ProteinMPNN(WEIGHTS, made_up_backbone(16, 2), dtype=torch.float64, bias={"W": 2.0}),
    ]


def together(each: list[ProteinMPNN], samples: int = 3) -> tuple[da.TokenChain, list[tuple[int, float, int]]]:
    """A chain of all, a fixed residue in one of them; and the structure, temperature and number of every sample."""
    plan = [(s, heat, 1000 * s + i) for i in range(samples) for s in range(len(each)) for heat in (0.3, 1.0)]
    known = each[2].chain(fixed={4: "M"}).evidence
    structure, heat, numbers = zip(*plan, strict=True)
    chain = Backbones(each).chain(
        torch.tensor(structure), [None, None, known], torch.tensor(numbers), torch.tensor(heat, dtype=torch.float64)
    )
    return chain, plan


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("sampler", [Coupled(), Block(), Sequential(), Stepwise(3)], ids=repr)
def test_every_sequence_is_the_one_drawn_alone(sampler: Sampler, graphs: bool) -> None:
    each = models()
    chain, plan = together(each)
    drawn = da.sample(chain, len(plan), sampler=sampler, seed=5, graphs=graphs, max_live=7)
    for (s, heat, number), tokens in zip(plan, drawn.samples, strict=True):
        alone = each[s]
        alone.temperature = heat
        fixed = {4: "M"} if s == 2 else None
        one = da.sample(alone.chain(fixed=fixed), 1, first=number, sampler=sampler, seed=5, graphs=graphs).samples[0]
        assert torch.equal(tokens[: alone.length], one), (s, heat, number)


def test_rounds_are_shared_and_counted() -> None:
    chain, plan = together(models())
    counting = CountingOracle(chain.oracle)
    result = da.sample(chain.replace(oracle=counting), len(plan), sampler=Coupled(), seed=5)
    report = result.report
    assert report.rounds == max(report.sample_rounds) < sum(report.sample_rounds)
    assert (counting.calls, counting.queries, counting.passes) == (report.rounds, report.queries, report.passes)
    assert torch.equal(result.samples, da.sample(chain, len(plan), sampler=Coupled(), seed=5, max_batch_size=2).samples)


def peptides(**options: Any) -> list[ProteinMPNN]:
    """Of two and three residues, three letters each."""
    return [
        ProteinMPNN(random_weights(neighbours=2), made_up_backbone(n, 7), omit=OMIT, temperature=1.0, **options)
        for n in (2, 3)
    ]


def joint(mpnn: ProteinMPNN, temperature: float) -> Tensor:
    """The law of all outcomes in a random order, by the model's rows alone."""
    n = mpnn.length
    outcomes = torch.cartesian_prod(*[torch.arange(3)] * n)
    law = torch.zeros(len(outcomes), dtype=torch.float64)
    mpnn.temperature = temperature
    orders = list(torch.tensor(list(itertools.permutations(range(n)))))
    for order in orders:
        row, prefix = torch.arange(len(outcomes)).repeat_interleave(n), torch.arange(n).repeat(len(outcomes))
        tokens, rank = LETTERS[outcomes], order.argsort().expand(len(outcomes), -1)
        rows = mpnn.chain_rows(tokens, rank, row, prefix, order.repeat(len(outcomes))).view(-1, n, 21)
        law += rows.gather(-1, tokens[:, order, None]).sum((1, 2)).double().exp() / len(orders)
    return law


def mixed_p_value(
    each: list[ProteinMPNN], laws: list[Tensor], heat: list[float], spoil: Callable[[Any], None] | None
) -> float:
    """Two structures at two temperatures in one run, against the laws of each."""
    structure = torch.arange(DRAWS) % 2
    oracle = Backbones(each)
    if spoil is not None:
        spoil(oracle)
    chain = oracle.chain(
        structure, [None, None], torch.arange(DRAWS), torch.tensor(heat, dtype=torch.float64)[structure]
    )
    samples = da.sample(chain, DRAWS, sampler=Coupled(), seed=0, max_live=DRAWS).samples
    drawn = (samples[..., None] == LETTERS).long().argmax(-1)
    counts = []
    for s, n in enumerate((2, 3)):
        powers = 3 ** torch.arange(n - 1, -1, -1)
        counts.append(torch.bincount(drawn[structure == s][:, :n] @ powers, minlength=3**n))
    return chi_square(torch.cat(counts), torch.cat(laws) / 2)


def swapped(oracle: Backbones) -> None:
    """Broken: each structure gets the bias of the other."""
    object.__setattr__(oracle.law, "bias", oracle.law.bias.flip(0))


def lukewarm(oracle: Backbones) -> None:
    """Broken: temperatures of the condition are not heard."""
    told = oracle.conditioned
    oracle.conditioned = lambda **rows: told(structure=rows["structure"])  # type: ignore[method-assign]


@pytest.mark.parametrize("spoil", [None, swapped, lukewarm])
def test_each_structure_has_its_own_law(check: Callable[[float], None], spoil: Callable[[Any], None] | None) -> None:
    heat = [0.7, 1.5]
    each = [
        ProteinMPNN(random_weights(neighbours=2), made_up_backbone(n, 7), omit=OMIT, temperature=1.0, bias=bias)
        for n, bias in ((2, {"A": 1.0}), (3, {"K": 0.5}))
    ]
    laws = [joint(mpnn, of) for mpnn, of in zip(each, heat, strict=True)]
    for mpnn in each:
        mpnn.temperature = 1.0
    p_value = mixed_p_value(each, laws, heat, spoil)
    if spoil is None:
        check(p_value)
    else:
        assert p_value < LEVEL


def test_lengths_are_padded_on_a_ladder() -> None:
    assert [rung(n) for n in (1, 8, 9, 76, 129, 150, 297, 1203)] == [8, 8, 16, 80, 144, 160, 320, 1280]
    assert all(n <= rung(n) <= max(8, 9 * n // 8 + 8) for n in range(1, 3000))
    assert len({rung(n) for n in range(64, 1025)}) == 33


def test_models_that_cannot_share_rounds() -> None:
    one, other = peptides()
    for wrong in ([], ["a"], [one, ProteinMPNN(random_weights(seed=1), made_up_backbone(9))]):
        with pytest.raises(InputError, match="models"):
            Backbones(wrong)  # type: ignore[arg-type]
    both = Backbones([one, other])
    assert both.length == 8
    with pytest.raises(da.SamplingError, match="which says which is whose"):
        da.sample(both, 1, sampler=Coupled())
