"""Masked models of proteins: only amino acids are drawn, sequences in and out, in any order or left to right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import EsmConfig, EsmForMaskedLM, EsmTokenizer

import drawahead as da
from drawahead import Block, Coupled, InputError, Sequential
from drawahead.language.protein_lm import AMINO_ACIDS, ProteinLM, order_agnostic
from drawahead.samplers import Sampler
from drawahead.verification.statistics import chi_square
from tests.exactness import LEVEL, joint_law, law_p_value, outcome_counts

# The vocabulary of ESM-2, in its order.
TOKENS = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>"
DRAWS = 20_000


@pytest.fixture(scope="module")
def esm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A random ESM-2 with the published vocabulary, far from uniform."""
    path = tmp_path_factory.mktemp("esm") / "vocab.txt"
    Path(path).write_text("\n".join(TOKENS.split(" ")))
    tokenizer = EsmTokenizer(str(path))
    torch.manual_seed(0)
    config = EsmConfig(
        vocab_size=33,
        mask_token_id=32,
        pad_token_id=1,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        initializer_range=0.4,
        position_embedding_type="rotary",
        token_dropout=True,
    )
    return EsmForMaskedLM(config).double(), tokenizer


def test_only_amino_acids_are_drawn_and_sequences_have_no_spaces(esm: tuple[Any, Any]) -> None:
    lm = ProteinLM(*esm, temperature=3.0, omit="C")
    chain = lm.chain("MK" + "_" * 20)
    drawn = lm.sequences(da.sample(chain, 40, sampler=Coupled(), seed=0).samples)
    assert all(len(sequence) == 22 and sequence.startswith("MK") for sequence in drawn)
    assert {letter for sequence in drawn for letter in sequence[2:]} == set(AMINO_ACIDS) - {"C"}


def test_several_sequences_with_several_samples_each(esm: tuple[Any, Any]) -> None:
    lm = ProteinLM(*esm)
    chain = lm.chain(["A__D", "____KLM"], num_samples=3)
    result = da.sample(chain, 6, sampler=Coupled(), seed=0)
    drawn = lm.sequences(result.samples)
    assert [len(sequence) for sequence in drawn] == [4, 4, 4, 7, 7, 7]
    assert all(sequence[0] + sequence[-1] == "AD" for sequence in drawn[:3])
    assert all(sequence.endswith("KLM") for sequence in drawn[3:])
    assert torch.equal(da.sample(chain, 6, sampler=Sequential(), seed=0).samples, result.samples)


def test_left_to_right_is_an_order(esm: tuple[Any, Any]) -> None:
    lm = ProteinLM(*esm)
    chain = lm.chain("A__D__", order="left-to-right")
    rank = chain.start(0, torch.arange(2), da.chains.base.Tally()).rank
    assert rank.tolist() == [[-1, -1, 0, 1, -1, 2, 3, -1]] * 2


def test_log_probabilities_of_samples_are_those_of_the_chain_rule(esm: tuple[Any, Any]) -> None:
    lm = ProteinLM(*esm)
    chain = lm.chain("A__D_")
    result = da.sample(chain, 3, sampler=Coupled(), seed=1)
    rank = chain.start(1, result.numbers, da.chains.base.Tally()).rank
    for tokens, order, told in zip(result.samples, rank, lm.log_probs(chain, result), strict=True):
        total = 0.0
        for step in range(3):
            shown = torch.where(order < step, tokens, da.HIDDEN)
            position = int((order == step).nonzero())
            total += float(chain.oracle.rows(shown[None])[0, position, tokens[position]])
        assert float(told) == pytest.approx(total, abs=1e-9)


class Convolution(torch.nn.Module):
    """An order-agnostic network of convolutions, as EvoDiff's are, but small."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        self.table = torch.randn(letters + 2, 6, generator=generator, dtype=torch.float64)
        self.kernel = torch.randn(6, 6, 3, generator=generator, dtype=torch.float64)
        self.head = torch.randn(6, letters + 2, generator=generator, dtype=torch.float64)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = torch.nn.functional.conv1d(self.table[ids].mT, self.kernel, padding=1).tanh()
        return hidden.mT @ self.head


@pytest.mark.parametrize("sampler", [Coupled(), Block()], ids=repr)
def test_an_order_agnostic_network_has_its_law(sampler: Sampler, check: Callable[[float], None]) -> None:
    """Four residues of three letters in a fixed order, all 81 outcomes; tokens past the letters are never drawn."""
    oracle = order_agnostic(Convolution(3), "AKL", 4, 4, temperature=0.8)
    order = torch.tensor([2, 0, 3, 1])
    chain = da.TokenChain(oracle, order=order)
    check(law_p_value(chain, joint_law(oracle, order), sampler, DRAWS))


def test_the_wrong_mask_is_found() -> None:
    """A mutant: hidden residues shown as the first letter."""
    oracle, order = order_agnostic(Convolution(3), "AKL", 4, 4, temperature=0.8), torch.tensor([2, 0, 3, 1])
    network = Convolution(3)
    wrong = order_agnostic(lambda ids: network(torch.where(ids == 4, 0, ids)), "AKL", 4, 4, temperature=0.8)
    samples = da.sample(da.TokenChain(wrong, order=order), DRAWS, sampler=Coupled(), seed=0, max_live=DRAWS).samples
    assert chi_square(outcome_counts(samples, 3), joint_law(oracle, order)) < LEVEL


def test_log_probabilities_of_any_chain() -> None:
    chain = da.TokenChain(da.targets.Pairs(6))
    result = da.sample(chain, 5, seed=0)
    torch.testing.assert_close(
        ProteinLM.log_probs(chain, result), torch.full((5,), 3 * torch.tensor(0.5).log()).double()
    )


def test_what_cannot_be(esm: tuple[Any, Any]) -> None:
    lm = ProteinLM(*esm)
    for sequences in ("MKB_", "mk_", ["MK_", "x"], "MK-_"):
        with pytest.raises(InputError, match=r"sequences\[\d\] must be of the letters"):
            lm.chain(sequences)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="mask token"):
        lm.chain("MKV")
    with pytest.raises(InputError, match="omit"):
        ProteinLM(*esm, omit="B")
    with pytest.raises(InputError, match="mask must be"):
        order_agnostic(Convolution(3), "AKL", 2, 4)
