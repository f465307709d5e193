"""What is committed is kept, not computed again: models that remember draw the samples of those that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import HIDDEN, Block, CountingOracle, Coupled, Recursive, Sequential, Stepwise, TokenChain, TokenOracle
from drawahead.oracles import memory
from drawahead.oracles.memory import Memory
from drawahead.samplers import Sampler
from tests.test_networks import tiny

LENGTH = 14
SAMPLERS: list[Sampler] = [
    Sequential(),
    Coupled(),
    Coupled(3),
    Block(),
    Block(pipelined=False),
    Stepwise(4),
    da.Picard(),
    Recursive(),
]


class Bag(TokenOracle):
    """The law of a token depends on the sum of what is known: the example of docs/own-model.md."""

    length, vocab_size, one_pass = LENGTH, 4, True

    def __init__(self) -> None:
        self.table = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        self.entered = 0

    def rows(self, tokens: Tensor) -> Tensor:
        known = (tokens != HIDDEN)[..., None]
        total = (self.table[tokens.clamp(min=0)] * known).sum(1)
        return total.log_softmax(-1)[:, None].expand(-1, self.length, -1)

    def remember(self, tokens: Tensor, rank: Tensor) -> dict[str, Tensor]:
        evidence = (self.table[tokens] * (rank < 0)[..., None]).sum(1)
        return {"total": evidence[:, None].repeat(1, self.length + 1, 1)}

    def recalled_rows(
        self, kept: dict[str, Tensor], token: Tensor, place: Tensor, step: Tensor, prefix: Tensor, position: Tensor
    ) -> Tensor:
        self.entered += token.numel()
        total, row = kept["total"], torch.arange(len(token))[:, None]
        after = total[row, step[:, :1].clamp(max=self.length)] + self.table[token].cumsum(1)
        total[row, (step + 1).clamp(max=self.length)] = after
        return total[row, prefix].log_softmax(-1)


class Forgetful(TokenOracle):
    """The same model without a memory."""

    one_pass = True

    def __init__(self, oracle: TokenOracle) -> None:
        self.oracle, self.length, self.vocab_size = oracle, oracle.length, oracle.vocab_size

    def rows(self, tokens: Tensor) -> Tensor:
        return self.oracle.rows(tokens)

    def chain_rows(self, *arguments: Any) -> Tensor:
        return self.oracle.chain_rows(*arguments)

    def path_rows(self, *arguments: Any) -> Tensor:
        return self.oracle.path_rows(*arguments)


def text() -> TokenOracle:
    model = tiny(5, LENGTH)
    model.network.double()
    return model


def subsets() -> TokenOracle:
    likeness = torch.exp(-(torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).double().square() / 8)
    return da.targets.DPP(L=likeness + 0.5 * torch.eye(LENGTH, dtype=torch.float64))


MODELS: dict[str, Callable[[], TokenOracle]] = {"bag": Bag, "text": text, "subsets": subsets}
SOME = torch.full((LENGTH,), HIDDEN).index_put((torch.tensor([3, 7, 8]),), torch.tensor([1, 2, 0]))
NEARLY_ALL = torch.where(torch.arange(LENGTH) < LENGTH - 3, 1, HIDDEN)
EVIDENCE = {
    "none": None,
    "some": SOME,
    "each its own": torch.stack([SOME, torch.full_like(SOME, HIDDEN), NEARLY_ALL] * 2),
}


def draw(oracle: TokenOracle, sampler: Sampler, evidence: Tensor | None, **options: Any) -> da.Result:
    if evidence is not None and oracle.vocab_size == 2:
        evidence = torch.where(evidence == HIDDEN, HIDDEN, (evidence + torch.arange(LENGTH)) % 2)
    return da.sample(TokenChain(oracle, evidence=evidence), 6, sampler=sampler, seed=3, **options)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("name", MODELS)
def test_samples_and_counts_are_those_without_a_memory(name: str, sampler: Sampler) -> None:
    for evidence in EVIDENCE.values():
        model = MODELS[name]()
        expected = draw(Forgetful(model), sampler, evidence, graphs=False)
        for graphs in {False, not isinstance(sampler, Recursive)}:
            for together in (6, 2):  # rows leave, and others come
                counting = CountingOracle(model)
                result = draw(counting, sampler, evidence, graphs=graphs, max_live=together)
                assert torch.equal(result.samples, expected.samples)
                if not graphs:
                    assert counting.queries == result.report.queries
                    assert result.report.sample_rounds == expected.report.sample_rounds


@pytest.mark.parametrize("sampler", [Sequential(), Coupled(3)], ids=repr)
def test_every_step_is_entered_about_once(sampler: Sampler) -> None:
    """Rounds enter what is new: the last step committed, and what is guessed."""
    model = Bag()
    report = draw(model, sampler, None, graphs=False).report
    entered = model.entered
    assert 0 < entered < report.passes * LENGTH / 2
    draw(model, Recursive(), None)  # asks in its own way
    assert model.entered == entered


def test_rounds_that_are_split_or_sent_away_are_answered_alike() -> None:
    expected = draw(Bag(), Coupled(4), None).samples
    model = Bag()
    for executor in (da.Local(max_batch_size=1), da.Replicas([model, Bag()]), da.Replicas([model])):
        assert torch.equal(draw(model, Coupled(4), None, executor=executor).samples, expected)


def test_what_would_not_fit_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_ON_CPU", 1000)
    model = Bag()
    expected = draw(Forgetful(model), Coupled(), None).samples
    assert torch.equal(draw(model, Coupled(), None).samples, expected) and model.entered == 0


def test_a_condition_is_remembered_with_its_sample() -> None:
    class Told(Bag):
        def __init__(self, shift: Tensor | None = None) -> None:
            super().__init__()
            self.shift = torch.zeros(1, 4, dtype=torch.float64) if shift is None else shift

        def conditioned(self, **rows: Tensor) -> Told:
            return Told(rows["shift"])

        def rows(self, tokens: Tensor) -> Tensor:
            return (super().rows(tokens) + self.shift[:, None]).log_softmax(-1)

        def remember(self, tokens: Tensor, rank: Tensor) -> dict[str, Tensor]:
            kept = super().remember(tokens, rank)
            return {"total": kept["total"] + self.shift[: len(tokens), None]}

    shift = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for graphs in (False, True):
        chain = TokenChain(Told(), condition={"shift": shift})
        together = da.sample(chain, 6, sampler=Coupled(4), seed=3, graphs=graphs, max_live=4).samples
        for i in range(6):
            alone = TokenChain(Told(), condition={"shift": shift[i : i + 1]})
            own = da.sample(alone, 1, first=i, sampler=Sequential(), seed=3, graphs=graphs).samples
            assert torch.equal(own[0], together[i])


# Broken on purpose


def all_of_it(self: Memory, prefix: Tensor) -> Tensor:
    """The step that was corrected stays as it was guessed."""
    return torch.minimum(self.steps, prefix)


def shifted(self: Bag, kept: dict[str, Tensor], token: Tensor, place: Tensor, step: Tensor, *cells: Tensor) -> Tensor:
    """Steps are entered one too late."""
    return RECALLED(self, kept, token, place, step + 1, *cells)


RECALLED = Bag.recalled_rows


@pytest.mark.parametrize(
    "broken", [(Memory, "kept_before", all_of_it), (Bag, "recalled_rows", shifted)], ids=lambda b: b[1]
)
def test_the_tests_above_would_notice(broken: tuple[type, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*broken)
    model = Bag()
    assert not torch.equal(draw(model, Coupled(3), None).samples, draw(Forgetful(model), Coupled(3), None).samples)
