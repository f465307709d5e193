"""Later calls begin as the first one has recorded it: their samples are those of a chain that nobody drew from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, TokenChain
from drawahead.chains.base import Chain, Tally
from drawahead.oracles.memory import Memory
from drawahead.oracles.tokens import TokenOracle
from drawahead.rounds.captured import batch as captured
from drawahead.rounds.captured.batch import CapturedBatch
from tests.changes import EVIDENCE, KNOWN, LENGTH, NUMBER, START, Network, kernels, same, spins, told, told_tokens
from tests.changes import module as vectors
from tests.test_prefix import Bag

Patch = pytest.MonkeyPatch


class Rated(TokenOracle):
    """The condition says which positions come first; the later a token is drawn, the likelier it is 0."""

    length, vocab_size = LENGTH, 2

    def __init__(self, rates: Tensor | None = None) -> None:
        self.order_rates = rates

    def rows(self, tokens: Tensor) -> Tensor:
        late = (tokens >= 0).sum(1).double()[:, None] - LENGTH / 2
        return torch.stack([late, -late], dim=-1).log_softmax(-1).expand(-1, LENGTH, -1)

    def conditioned(self, **rows: Tensor) -> TokenOracle:
        return Rated(rows["rate"].double())


class Uncounted(Bag):
    """Nothing of it changes while it is drawn from."""

    entered = property(lambda bag: 0, lambda bag, number: None)  # type: ignore[assignment]


def table(seed: int, width: int) -> Tensor:
    return torch.rand(NUMBER, width, generator=torch.Generator().manual_seed(seed)) ** 4


RATES: list[dict[str, Any]] = [{"condition": {"rate": table(seed, LENGTH)}} for seed in range(3)]
CONDITIONS: list[dict[str, Any]] = [{"condition": table(seed, 3).double()} for seed in range(3)]
NUMBERS: list[dict[str, Any]] = [{"numbers": torch.tensor(own)} for own in ([7, 8, 9], [1, 0, 5])]
KINDS: dict[str, tuple[Callable[[], Chain], list[dict[str, Any]], int]] = {
    "tokens": (spins, [{}], 5),
    "numbers": (spins, NUMBERS, 5),
    "two orders": (spins, [{"order": "spread"}, {"order": None}, {"order": "spread"}], 4),
    "a condition of tokens": (told_tokens, [{}], 5),
    "rates": (lambda: TokenChain(Rated(), **RATES[0]), RATES, 5),
    "a memory": (lambda: TokenChain(Uncounted()), [{}, {"evidence": EVIDENCE.repeat(2)}, {}], 3),
    "vectors": (vectors, [{}], 5),
    "a condition": (told, CONDITIONS, 5),
    "known entries": (vectors, [{}, {"known": KNOWN}, {}], 3),
    "starts": (vectors, [{}, {"start": START}, {}], 3),
    "stacked": (lambda: kernels(Network()), [{}], 5),
}
"""Chains, what is replaced from call to call, and how many of six calls begin as was learned."""


def judge(kind: str, patch: Patch) -> None:
    """Six calls of a runner against one of a runner of its own each."""
    make, changes, learned = KINDS[kind]
    begun, begin = [], CapturedBatch.begin

    def noting(*given: Any) -> Any:
        begun.append(kind)
        return begin(*given)

    patch.setattr(CapturedBatch, "begin", noting)
    chain, sampler = make(), Coupled(3)
    runner = da.Runner(chain, sampler, graphs=True)
    for call in range(6):
        now = chain.replace(**changes[call % len(changes)])
        found = runner.using(chain=now).sample(NUMBER, seed=call // 2)
        expected = da.sample(now.replace(), NUMBER, sampler=sampler, seed=call // 2, graphs=False)
        assert same(found.samples, expected.samples), (kind, call)
        assert found.report.rounds == expected.report.rounds
    assert begun == [kind] * learned


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_those_of_a_first_call(kind: str, monkeypatch: Patch) -> None:
    """Whatever seeds, conditions and orders they have, and whoever used the rows meanwhile."""
    judge(kind, monkeypatch)


def old_noise(patch: Patch) -> None:
    plain = CapturedBatch.begin
    patch.setattr(CapturedBatch, "begin", lambda batch, chain, seed, *given: plain(batch, chain, 0, *given))


def old_condition(patch: Patch) -> None:
    patch.setattr(captured, "of_samples", lambda condition, samples: {})


def old_memory(patch: Patch) -> None:
    patch.setattr(Memory, "begin", lambda *given: None)


def one_order(patch: Patch) -> None:
    patch.setattr(captured, "kind_of", lambda chain: None if chain.alike is None else "any")
    patch.setattr("drawahead.rounds.captured.run.kind_of", captured.kind_of)


def none_of_their_own(patch: Patch) -> None:
    patch.setattr(type(vectors()), "alike", ())


MUTANTS: list[tuple[Callable[[Patch], None], str]] = [
    (old_noise, "tokens"),
    (old_noise, "vectors"),
    (old_condition, "rates"),
    (old_condition, "a condition"),
    (old_memory, "a memory"),
    (one_order, "two orders"),
    (none_of_their_own, "starts"),
]


@pytest.mark.parametrize(("mutant", "kind"), MUTANTS, ids=lambda part: getattr(part, "__name__", part))
def test_what_is_wrong_is_seen(mutant: Callable[[Patch], None], kind: str, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError, match=kind):
        judge(kind, monkeypatch)


def test_a_chain_that_begins_in_its_own_way_is_asked(monkeypatch: Patch) -> None:
    class Turned(TokenChain):
        def start(self, seed: int, samples: Tensor, tally: Tally) -> Any:
            paths = super().start(seed, samples, tally)
            paths.order, paths.rank = paths.order.flip(1), LENGTH - 1 - paths.rank
            return paths

    chain = Turned(Rated())
    for seed in range(3):
        found, expected = (da.sample(chain, 2, sampler=Coupled(1), seed=seed, graphs=g).samples for g in (True, False))
        assert same(found, expected)


def test_a_call_that_is_stopped_leaves_nothing_behind() -> None:
    """Nor one of another number of samples, which has rows of its own."""

    class Once:
        def is_set(self) -> bool:
            self.looks = getattr(self, "looks", 0) + 1
            return self.looks > 2

    runner = da.Runner(vectors(), Coupled(2), graphs=True)
    for seed in range(4):
        assert not runner.sample(NUMBER, seed=seed, stop=Once()).complete
        for number in (NUMBER, 1):
            found = runner.sample(number, seed=seed, first=seed)
            assert same(found.samples, da.sample(vectors(), number, sampler=Coupled(2), seed=seed, first=seed).samples)
