"""Left-to-right chains: the samples of `Sequential`, token for token, whatever is guessed, cached or batched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import CausalChain, Coupled, InputError, Sequential
from drawahead.chains.base import Ends
from drawahead.chains.tokens import TokenPaths
from drawahead.verification.statistics import chi_square
from tests.causal.toy import BEGIN, OTHER, NotRolledBack, Toy, law
from tests.exactness import LEVEL

LENGTH = 12
RAGGED = [[BEGIN, 0], [OTHER], [BEGIN, 1, 1], [OTHER, 2], [BEGIN, 1]]


def flat(tokens: Tensor, ahead: Tensor) -> Tensor:
    return torch.zeros(len(tokens), 3).log_softmax(-1)


def ends_with_two_zeros(tokens: Tensor, lengths: Tensor) -> Tensor:
    row = torch.arange(len(tokens))
    last, before = tokens[row, lengths - 1], tokens[row, (lengths - 2).clamp(min=0)]
    return (lengths > 1) & (last == 0) & (before == 0)


GUESSES = [da.LastAnswer(), da.Above(1), da.Above(4), da.Uniform(), da.Ngram(1), da.Ngram(3), flat]


ENDS: list[Any] = [(None, [BEGIN]), (2, RAGGED), ([1, 2], RAGGED), (ends_with_two_zeros, [BEGIN, 1])]
WAYS = [(1, False, 3), (4, False, 2), (None, False, 1), (1, True, 2), (4, True, 3), (None, True, 3)]


@pytest.mark.parametrize("guess", GUESSES, ids=lambda guess: getattr(guess, "__name__", str(guess)))
@pytest.mark.parametrize("cached", [True, False])
def test_coupled_draws_the_sequential_samples(guess: Any, cached: bool) -> None:
    """In windows of any width, packed and captured, any number at once."""
    for end, prompt in ENDS:
        chain = CausalChain(Toy(cached), max_length=LENGTH, prompt=prompt, end=end, first_guess=guess)
        plain = CausalChain(Toy(False), max_length=LENGTH, prompt=prompt, end=end)
        reference = da.sample(plain, 3, sampler=Sequential(), seed=3).samples
        for window, graphs, live in WAYS:
            drawn = da.sample(chain, 3, sampler=Coupled(window), seed=3, max_live=live, graphs=graphs)
            assert torch.equal(drawn.samples, reference), (end, window, graphs, live)
        captured = da.sample(chain, 3, sampler=Sequential(), seed=3, graphs=True)
        assert torch.equal(captured.samples, reference)


@pytest.mark.parametrize("end", [None, 2])
@pytest.mark.parametrize(
    ("sampler", "graphs"), [(Sequential(), False), (Coupled(2), False), (Coupled(), True)], ids=str
)
def test_the_law_is_the_enumerated_one(
    sampler: da.Sampler, graphs: bool, end: int | None, check: Callable[[float], None]
) -> None:
    check(p_value(Toy(), sampler, graphs, end))


def p_value(model: Toy, sampler: da.Sampler, graphs: bool, end: int | None, chain: CausalChain | None = None) -> float:
    exact = law(Toy(), [BEGIN, 1], 4, end)
    chain = chain or CausalChain(model, max_length=4, prompt=[BEGIN, 1], end=end)
    drawn = da.sample(chain, 20_000, sampler=sampler, seed=5, max_live=20_000, graphs=graphs).samples
    place = {sample: i for i, sample in enumerate(exact)}
    counts = torch.bincount(torch.tensor([place[tuple(row)] for row in drawn.tolist()]), minlength=len(place))
    return float(chi_square(counts, torch.tensor([*exact.values()], dtype=torch.float64)))


def test_a_cache_that_is_not_rolled_back_is_rejected() -> None:
    assert p_value(NotRolledBack(), Coupled(2), False, None) < LEVEL
    chain = CausalChain(NotRolledBack(), max_length=LENGTH, prompt=[BEGIN])
    one_by_one, ahead = (da.sample(chain, 8, sampler=one, seed=0).samples for one in (Sequential(), Coupled(4)))
    assert not torch.equal(one_by_one, ahead)


def test_an_end_that_is_read_from_a_guess_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = CausalChain(Toy(), max_length=4, prompt=[BEGIN, 1], end=2)
    sound, filled = chain.ends, TokenPaths._filled
    assert sound is not None

    class Guessed(Ends):
        """A sample ends where what is committed does, if a guess behind it is an end token."""

        def __call__(self, tokens: Tensor, before: Tensor, now: Tensor, most: int, condition: Any) -> Tensor:
            ended = sound(tokens, before, before + most, most, condition)
            return torch.where(ended < tokens.shape[1], torch.minimum(ended, now), ended)

    monkeypatch.setattr(TokenPaths, "_filled", lambda paths, values, count=None: filled(paths, values))
    kept = da.sample(chain, 500, sampler=Coupled(3), seed=5).samples  # guesses lie behind, and nobody looks at them
    assert torch.equal(kept, da.sample(chain, 500, sampler=Sequential(), seed=5).samples)
    vars(chain)["ends"] = Guessed()
    drawn = da.sample(chain, 500, sampler=Coupled(3), seed=5).samples
    lengths = chain.lengths(drawn)
    last = drawn[torch.arange(len(drawn)), lengths - 1]
    assert not bool(((lengths == 4) | (last == 2)).all()), "all end with an end token"


def test_accounting_is_what_a_counting_oracle_saw() -> None:
    for cached in (True, False):
        for sampler in (Sequential(), Coupled(5), Coupled()):
            for end in (None, 2):
                model = Toy(cached)
                chain = CausalChain(model, max_length=LENGTH, prompt=[BEGIN, 0, 1], end=end)
                counted = da.CountingOracle(chain.oracle)
                model.calls = model.read = 0
                report = da.sample(chain.replace(model=counted), 4, sampler=sampler, seed=2).report
                assert (report.rounds, report.queries, report.passes) == (
                    counted.calls,
                    counted.queries,
                    counted.passes,
                )
                prompts = 2 if cached else 0  # of one sequence, to see how much it takes, and of all
                assert model.calls == report.rounds + prompts
                assert report.committed and sum(report.committed) == int(
                    chain.lengths(da.sample(chain, 4, sampler=sampler, seed=2).samples).sum()
                )


def test_a_cache_reads_each_token_once_more_than_it_is_guessed() -> None:
    model = Toy()
    chain = CausalChain(model, max_length=LENGTH, prompt=[BEGIN, 0, 1])
    model.read = 0
    da.sample(chain, 1, sampler=Sequential(), seed=0)
    assert model.read == 3 + LENGTH
    model.read = 0
    report = da.sample(chain, 1, sampler=Coupled(4), seed=0).report
    assert report.rounds < LENGTH and model.read <= 3 + 5 * report.rounds


def test_conditions_numbers_and_first() -> None:
    shift = torch.tensor([[0.0, 0, 0], [2.0, 0, -2], [-2, 0, 2.0]], dtype=torch.float64)
    for cached in (True, False):
        chain = CausalChain(
            Toy(cached), max_length=8, prompt=[[BEGIN], [OTHER], [BEGIN]], condition={"shift": shift}, end=1
        )
        whole = da.sample(chain, 3, sampler=Coupled(3), seed=7).samples
        assert torch.equal(whole, da.sample(chain, 3, sampler=Sequential(), seed=7).samples)
        later = da.sample(chain, 2, first=1, sampler=Coupled(2), seed=7).samples
        assert torch.equal(later, whole[1:])
        alone = CausalChain(
            Toy(cached), max_length=8, prompt=[OTHER], condition={"shift": shift[1:2]}, end=1, numbers=torch.tensor([1])
        )
        assert torch.equal(da.sample(alone, 1, sampler=Coupled(4), seed=7).samples, whole[1:2])


def test_a_runner_takes_other_prompts() -> None:
    chain = CausalChain(Toy(), max_length=8, prompt=[BEGIN, 0], first_guess=da.Above(2))
    with da.Runner(chain, Coupled(3), graphs=True) as runner:
        first = runner.sample(2, seed=1).samples
        other = runner.sample(2, seed=1, condition={"prompt": torch.tensor([[OTHER, 2]])}).samples
        assert torch.equal(runner.sample(2, seed=1).samples, first)
    anew = CausalChain(Toy(), max_length=8, prompt=[OTHER, 2])
    assert torch.equal(other, da.sample(anew, 2, seed=1, sampler=Sequential()).samples)
    assert not torch.equal(first, other)


def test_the_best_sampler_is_chosen_and_draws_the_same() -> None:
    chain = CausalChain(Toy(), max_length=40, prompt=[BEGIN])
    drawn = da.sample(chain, 4, seed=1)
    assert torch.equal(drawn.samples, da.sample(chain, 4, seed=1, sampler=Sequential()).samples)
    assert drawn.report.choice


@pytest.mark.parametrize("sampler", [da.Stepwise(), da.Block(), da.Recursive(), da.Separated()], ids=str)
def test_samplers_that_need_later_laws_are_refused(sampler: da.Sampler) -> None:
    chain = CausalChain(Toy(), max_length=8, prompt=[BEGIN])
    with pytest.raises(InputError, match=r"left-to-right model cannot give: use Coupled"):
        da.sample(chain, 2, sampler=sampler)


def bidirectional(tokens: Tensor) -> Tensor:
    mean = torch.nn.functional.one_hot(tokens, 5).double().mean(1, keepdim=True)[..., :3]
    return (5 * mean).expand(-1, tokens.shape[1], -1).log_softmax(-1)


def uniform(tokens: Tensor) -> Tensor:
    return torch.zeros(*tokens.shape, 3).log_softmax(-1)


class Short(Toy):
    max_length = 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": bidirectional, "vocab_size": 3}, "changes with later tokens.*TokenChain"),
        ({"model": uniform, "vocab_size": 4}, "vocab_size is 4, but the model answers 3 tokens"),
        ({"model": uniform}, "needs vocab_size="),
        ({"model": Toy(), "vocab_size": 4}, "that of the model, 3"),
        ({"model": Short(), "max_length": 8, "prompt": [BEGIN] * 3}, "prompt has 3 tokens.*reads 10 at most"),
        ({"prompt": []}, "at least one token"),
        ({"prompt": [[BEGIN], []]}, "at least one token"),
        ({"prompt": [0.5]}, "must be tokens"),
        ({"prompt": [[-1, BEGIN]]}, "at least one token"),
        ({"prompt": [-3]}, "tokens from 0 on"),
        ({"end": 3}, "among the tokens 0 ... 2"),
        ({"max_length": 0}, "max_length"),
        ({"condition": {"prompt": torch.zeros(1, 1)}}, "give prompt="),
    ],
    ids=lambda part: str(part)[:40] if isinstance(part, str) else "",
)
def test_bad_input_is_refused_in_a_line(arguments: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"model": Toy(), "max_length": 8, "prompt": [BEGIN]}
    with pytest.raises(InputError, match=message) as raised:
        CausalChain(**usual | arguments)
    assert "\n" not in str(raised.value)


def test_a_wrong_answer_is_refused_with_what_was_drawn() -> None:
    def narrow(tokens: Tensor, ahead: Tensor) -> Tensor:
        return torch.zeros(len(tokens), 2)

    chain = CausalChain(Toy(), max_length=8, prompt=[BEGIN], first_guess=narrow)
    with pytest.raises(da.SamplingError, match="first_guess must return log-probabilities"):
        da.sample(chain, 2, sampler=Coupled(3))
    with pytest.raises(InputError, match="has 2 rows"):
        da.sample(CausalChain(Toy(), max_length=8, prompt=[[BEGIN], [OTHER]]), 3)
