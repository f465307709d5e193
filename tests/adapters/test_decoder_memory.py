"""ProteinMPNN goes on from what it has decoded: the sequences are those of whole passes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, Sequential, Stepwise, TokenChain
from drawahead.proteins.mpnn import oracle as oracle
from drawahead.proteins.mpnn.backbones import Backbones
from drawahead.proteins.mpnn.decoder import Decoder
from drawahead.proteins.mpnn.model import ProteinMPNN
from drawahead.proteins.structures.files import made_up_backbone
from drawahead.samplers import Sampler
from tests.adapters.mpnn_literal import random_weights

SAMPLERS: list[Sampler] = [Sequential(), Coupled(2), Coupled(), Block(), Stepwise(3)]


def model(length: int = 16, seed: int = 0, **options: Any) -> ProteinMPNN:
    settings: dict[str, Any] = {"dtype": torch.float64, "temperature": 0.5} | options
    return ProteinMPNN(random_weights(), made_up_backbone(length, seed), **settings)


def several() -> TokenChain:
    each = [model(), model(11, 1, bias={"W": 2.0}), model(13, 2)]
    known = each[2].chain(fixed={4: "M"}).evidence
    structure, heat = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([0.3, 1.0, 0.3, 1.0, 0.3, 1.0])
    return Backbones(each).chain(structure, [None, None, known], torch.arange(6), heat)


CHAINS = {
    "one": lambda: model().chain(),
    "some of it fixed": lambda: model().chain(fixed={0: "M", 4: "C", 5: "W"}),
    "several": several,
}


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps were decoded in each call that went on from a memory."""
    extend, sizes = Decoder.extend, list[int]()

    def noting(self: Decoder, memory: Tensor, rank: Tensor, content: Any, cells: Any, which: Any = None) -> Tensor:
        sizes.append(content[0].shape[1] + cells[0].shape[1])
        return extend(self, memory, rank, content, cells, which)

    monkeypatch.setattr(Decoder, "extend", noting)
    return sizes


def drawn(chain: TokenChain, sampler: Sampler, graphs: bool) -> Tensor:
    return da.sample(chain, 6, sampler=sampler, seed=3, graphs=graphs, max_live=4).samples


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("kind", CHAINS)
def test_sequences_are_those_of_whole_passes(
    kind: str, sampler: Sampler, entered: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle.BackboneOracle, "recall_width", -1)
    expected = [drawn(CHAINS[kind](), sampler, graphs) for graphs in (False, True)]
    assert not entered
    monkeypatch.setattr(oracle.BackboneOracle, "recall_width", None)
    for graphs in (False, True):
        assert torch.equal(drawn(CHAINS[kind](), sampler, graphs), expected[graphs])
        assert entered
        entered.clear()


def test_what_is_narrow_goes_on_and_what_is_wide_does_not(entered: list[int]) -> None:
    chain = model().chain()
    drawn(chain, Sequential(), False)
    assert len(entered) == 2 * 16 and set(entered) == {2}
    entered.clear()
    drawn(chain, Coupled(), False)
    assert not entered
    drawn(model(tied=[[1, 5]]).chain(), Sequential(), False)
    assert not entered


def unheard(self: Decoder, memory: Tensor, rank: Tensor, content: Any, cells: Any, which: Any = None) -> Tensor:
    """A mutant: what is new is entered after it was asked about."""
    token, place, step = content
    before = EXTEND(self, memory.clone(), rank, (token * 0, place, step), cells, which)
    EXTEND(self, memory, rank, content, cells, which)
    return before


def farsighted(self: Decoder, memory: Tensor, rank: Tensor, content: Any, cells: Any, which: Any = None) -> Tensor:
    """A mutant: a step that is entered sees itself, and what comes next."""
    token, place, step = content
    return EXTEND(self, memory, rank, (token, place, step + 2), cells, which)


EXTEND = Decoder.extend


@pytest.mark.parametrize("mutant", [unheard, farsighted], ids=lambda mutant: mutant.__name__)
def test_the_tests_above_would_notice(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = model().chain()
    expected = drawn(chain, Coupled(), False)
    monkeypatch.setattr(oracle.BackboneOracle, "recall_width", None)
    monkeypatch.setattr(Decoder, "extend", mutant)
    assert not torch.equal(drawn(chain, Coupled(), False), expected)
