"""Bad input is refused with its name, bad answers with their place, and an error loses no finished sample."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import (
    AnswerError,
    Block,
    Coupled,
    DrawaheadError,
    FunctionOracle,
    InputError,
    Local,
    Recursive,
    SamplingError,
    Sequential,
    Stepwise,
    TokenChain,
    samplers,
)
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.samplers import Sampler
from drawahead.targets import (
    TARGETS,
    DenseLogistic,
    HardCode,
    MarkovChain,
    MixtureOfProducts,
    Pairs,
    Product,
    Table,
    named,
)
from tests.instances import PLAIN

DENSE = DenseLogistic(4)


def fair(tokens: Tensor, q: int = 2) -> Tensor:
    return torch.full((*tokens.shape, q), 1 / q, dtype=torch.float64).log()


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("num_samples", lambda: da.sample(DENSE, 0)),
    ("num_samples", lambda: da.sample(DENSE, -1)),
    ("num_samples", lambda: da.sample(DENSE, 2.5)),  # type: ignore[arg-type]
    ("num_samples", lambda: da.sample(DENSE, "3")),  # type: ignore[arg-type]
    ("seed", lambda: da.sample(DENSE, 2, seed=1.5)),  # type: ignore[arg-type]
    ("sampler", lambda: da.sample(DENSE, 2, sampler="blok")),
    ("sampler", lambda: da.sample(DENSE, 2, sampler=Block)),  # type: ignore[arg-type]
    ("max_live", lambda: da.sample(DENSE, 2, max_live=0)),
    ("max_batch_size", lambda: da.sample(DENSE, 2, max_batch_size=0)),
    ("max_batch_size", lambda: Local(max_batch_size=2.5)),  # type: ignore[arg-type]
    ("max_batch_size", lambda: da.sample(DENSE, 2, max_batch_size=2, executor=Local())),
    ("length= and vocab_size=", lambda: da.sample(fair)),
    ("length= and vocab_size=", lambda: TokenChain(fair, length=3)),
    ("length", lambda: TokenChain(fair, length=0, vocab_size=2)),
    ("length", lambda: TokenChain(fair, length="3", vocab_size=2)),  # type: ignore[arg-type]
    ("vocab_size", lambda: FunctionOracle(fair, 3, 0)),
    ("length", lambda: TokenChain(DENSE, length=5)),  # what the oracle says of itself is not overruled
    ("order", lambda: TokenChain(DENSE, order=[0, 1, 2])),
    ("permutation", lambda: TokenChain(DENSE, order=[0, 1, 2, 2])),
    ("permutation", lambda: TokenChain(DENSE, order=[1, 2, 3, 4])),
    ("permutation", lambda: TokenChain(DENSE, order=[[0, 1, 2, 3], [0, 0, 0, 0]])),  # type: ignore[list-item]
    ("order", lambda: TokenChain(DENSE, order="abcd")),  # type: ignore[arg-type]
    ("order", lambda: TokenChain(DENSE, order=torch.tensor([0.0, 1.0, 2.0, 3.0]))),
    ("order has 2 rows", lambda: da.sample(TokenChain(DENSE, order=torch.arange(4).expand(2, 4)), 3)),
    (r"evidence\[2\] is 2", lambda: TokenChain(DENSE, evidence=[0, 1, 2, HIDDEN])),
    (r"evidence\[1, 2\] is -2", lambda: TokenChain(DENSE, evidence=[[0, 1, 0, HIDDEN], [0, 1, -2, HIDDEN]])),
    ("evidence", lambda: TokenChain(DENSE, evidence=[0.0, 1.5, -1.0, -1.0])),
    ("evidence", lambda: TokenChain(DENSE, evidence=[True, False, True, False])),
    ("evidence", lambda: TokenChain(DENSE, evidence=[0, 1, 0])),
    ("evidence", lambda: TokenChain(DENSE, evidence=[[[0, 1, 0, 1]]])),
    ("evidence", lambda: TokenChain(DENSE, evidence=[None, 1, 0, 1])),
    ("evidence has 3 rows", lambda: da.sample(TokenChain(DENSE, evidence=torch.zeros(3, 4).long()), 4)),
    ("evidence row 1 .* zero", lambda: TokenChain(Pairs(4), evidence=[[0, 0, 1, 1], [0, 1, 1, 1]])),
    ("probability zero", lambda: TokenChain(Product([[0.0, 1.0], [0.5, 0.5]]), evidence=[0, HIDDEN])),
    ("probability zero", lambda: TokenChain(MarkovChain(3, [[0.0, 1.0], [1.0, 0.0]]), evidence=[0, HIDDEN, 1])),
    ("probability zero", lambda: TokenChain(Table([[0.5, 0.5], [0.0, 0.0]]), evidence=[1, HIDDEN])),
    ("probability zero", lambda: TokenChain(HardCode(2, sizes=[2], thresholds=[1]), evidence=[0, 1])),
    (
        "probability zero",
        lambda: TokenChain(MixtureOfProducts([1.0], [[[1.0, 0.0], [0.5, 0.5]]]), evidence=[1, HIDDEN]),
    ),
    ("window", lambda: Block(window=0)),
    ("window", lambda: Coupled(window=-3)),
    ("window", lambda: Stepwise(window=2.5)),  # type: ignore[arg-type]
    ("growth", lambda: Recursive(growth=0)),
    ("growth", lambda: Recursive(growth="article")),
    ("growth", lambda: Recursive(growth=float("nan"))),
    ("no sampler 'foo'.*sequential", lambda: samplers.named("foo")),
    ("takes no window", lambda: samplers.named("sequential", 3)),
]


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=[f"{i}-{words}" for i, (words, _) in enumerate(REFUSED)])
def test_bad_input_is_named(words: str, call: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert isinstance(caught.value, DrawaheadError) and isinstance(caught.value, ValueError)


ANSWERS: list[tuple[str, Callable[[Tensor], Any]]] = [
    ("NaN; check the model", lambda rows: rows * float("nan")),
    ("sum to 2; .*log_softmax", lambda rows: rows * 0),
    ("sum to inf", lambda rows: rows + float("inf")),
    ("sum to 0", lambda rows: rows - float("inf")),
    ("looks like probabilities; return their logarithms", lambda rows: rows.exp()),
    ("log_softmax", lambda rows: rows - 1),
    ("log_softmax", lambda rows: rows + 2e-6),
    ("log_softmax", lambda rows: rows.float() + 0.002),
    (r"shape \(\d+, 3, 2\).*not \(\d+, 2, 2\)", lambda rows: rows[:, :-1]),
    (r"shape \(\d+, 3, 2\).*not \(\d+, 3, 1\)", lambda rows: rows[..., :1]),
    (r"not \(3, 2\)", lambda rows: rows[0]),
    ("not list", lambda rows: rows.tolist()),
    ("not NoneType", lambda rows: None),
    ("not ndarray", lambda rows: rows.numpy()),
]


@pytest.mark.parametrize(("words", "spoil"), ANSWERS)
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_bad_answers_are_refused(sampler: Sampler, words: str, spoil: Callable[[Tensor], Any]) -> None:
    chain = TokenChain(lambda tokens: spoil(fair(tokens)), length=3, vocab_size=2)
    with pytest.raises(SamplingError, match=words) as caught:
        da.sample(chain, 2, sampler=sampler, seed=0)
    assert isinstance(caught.value, DrawaheadError) and isinstance(caught.value.__cause__, AnswerError)
    assert "shape" in str(caught.value) or "sample 0, step 0, position" in str(caught.value)


@pytest.mark.parametrize("spoiled", [0, 1, 3])
def test_a_bad_row_is_located(spoiled: int) -> None:
    """Sample, step and position: in order 2, 0, 3, 1 step k asks about one position."""
    order = [2, 0, 3, 1]

    def rows(tokens: Tensor) -> Tensor:
        answer = fair(tokens)
        at = (tokens != HIDDEN).sum(1) == spoiled
        answer[at & (torch.arange(len(tokens)) == 5), order[spoiled], 0] = float("nan")
        return answer

    chain = TokenChain(rows, length=4, vocab_size=2, order=order)
    with pytest.raises(SamplingError, match=rf"sample 5, step {spoiled}, position {order[spoiled]} "):
        da.sample(chain, 8, sampler=Sequential(), seed=0)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_a_bad_row_is_located_by_every_sampler(sampler: Sampler) -> None:
    """Evidence marks sample 5; position 2 of it has no law once something else is known."""
    evidence = torch.full((8, 6), HIDDEN)
    evidence[:, 4], evidence[5, 4] = 0, 1

    def rows(tokens: Tensor) -> Tensor:
        answer = fair(tokens)
        answer[(tokens[:, 4] == 1) & ((tokens != HIDDEN).sum(1) > 1), 2] += 1
        return answer

    chain = TokenChain(rows, length=6, vocab_size=2, order=[4, 3, 1, 0, 2, 5], evidence=evidence)
    with pytest.raises(SamplingError, match=r"sample 5, step [1-4], position 2 is not a law: .* sum to 2\.7"):
        da.sample(chain, 8, sampler=sampler, seed=0)


class NaNOnePass(TokenOracle):
    length, vocab_size, one_pass = 4, 2, True

    def rows(self, tokens: Tensor) -> Tensor:
        raise AssertionError

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        answer = torch.full((len(row), 2), 0.5).log()
        answer[(row == 3) & (prefix == 2)] = float("nan")
        return answer


def test_a_bad_row_is_located_in_one_pass() -> None:
    with pytest.raises(SamplingError, match="sample 3, step 2, position 1 "):
        da.sample(TokenChain(NaNOnePass(), order=[0, 2, 1, 3]), 8, sampler=Sequential(), seed=0)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_rows_of_known_positions_are_never_read(sampler: Sampler) -> None:
    def rows(tokens: Tensor) -> Tensor:
        return torch.where((tokens == HIDDEN)[..., None], fair(tokens), float("nan"))

    chain = TokenChain(rows, length=6, vocab_size=2, evidence=[HIDDEN] * 4 + [1, 0])
    samples = da.sample(chain, 20, sampler=sampler, seed=0).samples
    assert bool((samples[:, 4:] == torch.tensor([1, 0])).all()) and bool((samples >= 0).all())


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_any_float_dtype_will_do(sampler: Sampler) -> None:
    def rows(tokens: Tensor, dtype: torch.dtype) -> Tensor:
        logits = torch.arange(3.0) - (tokens == 0).sum(1)[:, None, None]
        return logits.expand(*tokens.shape, 3).log_softmax(-1).to(dtype)

    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        chain = TokenChain(functools.partial(rows, dtype=dtype), length=5, vocab_size=3)
        samples = da.sample(chain, 10, sampler=sampler, seed=0).samples
        assert samples.shape == (10, 5) and samples.dtype == torch.int64


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_an_oracle_may_scribble_on_its_input_and_need_gradients(sampler: Sampler) -> None:
    weight = torch.tensor([0.3, -0.2], requires_grad=True)

    def clean(tokens: Tensor) -> Tensor:
        return (weight * (tokens == 1).sum(1)[:, None, None]).expand(*tokens.shape, 2).log_softmax(-1)

    def scribbling(tokens: Tensor) -> Tensor:
        rows = clean(tokens).clone()
        tokens.fill_(0)
        return rows

    one, other = (
        da.sample(TokenChain(rows, length=8, vocab_size=2), 20, sampler=sampler, seed=0).samples
        for rows in (clean, scribbling)
    )
    assert torch.equal(one, other) and not one.requires_grad


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_one_position(sampler: Sampler) -> None:
    for name in set(TARGETS) - {"pairs"}:
        result = da.sample(named(name, 1), 5, sampler=sampler, seed=0)
        assert result.samples.shape == (5, 1) and result.report.rounds == 1, name


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_one_token(sampler: Sampler) -> None:
    chain = TokenChain(lambda tokens: torch.zeros(*tokens.shape, 1), length=5, vocab_size=1)
    assert da.sample(chain, 3, sampler=sampler, seed=0).samples.tolist() == [[0] * 5] * 3


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_point_masses(sampler: Sampler) -> None:
    """All rows are certain: zero-probability tokens everywhere."""
    word = torch.tensor([2, 0, 1, 1, 2, 0])
    chain = TokenChain(
        lambda tokens: torch.nn.functional.one_hot(word, 3).double().log().expand(len(tokens), -1, -1),
        length=6,
        vocab_size=3,
    )
    assert da.sample(chain, 10, sampler=sampler, seed=0).samples.tolist() == [word.tolist()] * 10


class Failing(TokenOracle):
    """Raises when asked for the k-th time."""

    def __init__(self, oracle: TokenOracle, k: int, error: BaseException) -> None:
        self.oracle, self.length, self.vocab_size = oracle, oracle.length, oracle.vocab_size
        self.left, self.error = k, error

    def rows(self, tokens: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return self.oracle.rows(tokens)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_an_oracle_that_raises_loses_no_finished_sample(sampler: Sampler) -> None:
    oracle = MixtureOfProducts.random(6, q=3)
    whole = da.sample(oracle, 40, sampler=sampler, seed=0)
    half = da.sample(oracle, 40, sampler=sampler, seed=0, max_live=4).report.rounds // 2
    trouble = ConnectionError("the model went away")
    with pytest.raises(SamplingError, match="the model went away") as caught:
        da.sample(Failing(oracle, half, trouble), 40, sampler=sampler, seed=0, max_live=4)
    result, report = caught.value.result, caught.value.result.report
    assert caught.value.__cause__ is trouble
    assert 0 < len(result.samples) < 40 and len(result.numbers) == len(result.samples) == report.num_samples
    assert torch.equal(result.samples, whole.samples[result.numbers])
    assert list(result.numbers) == sorted(set(result.numbers.tolist()))
    assert report.sample_rounds == tuple(whole.report.sample_rounds[i] for i in result.numbers.tolist())
    assert str(report.num_samples) in str(caught.value) and "of 40" in str(caught.value)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_an_oracle_that_raises_at_once(sampler: Sampler) -> None:
    with pytest.raises(SamplingError) as caught:
        da.sample(Failing(DENSE, 0, ValueError("no")), 3, sampler=sampler, seed=0)
    result = caught.value.result
    assert result.samples.shape == (0, 4) and result.numbers.shape == (0,) and result.report.num_samples == 0
    assert "0 samples" in str(result.report)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_an_interrupt_passes_through(sampler: Sampler) -> None:
    with pytest.raises(KeyboardInterrupt):
        da.sample(Failing(DENSE, 1, KeyboardInterrupt()), 3, sampler=sampler, seed=0)


def test_stopping_from_on_round_keeps_what_is_finished() -> None:
    class Enough(Exception):
        pass

    def stop(report: da.Report) -> None:
        if report.num_samples >= 10:
            raise Enough

    with pytest.raises(SamplingError) as caught:
        da.sample(DENSE, 100, seed=0, max_live=5, on_round=stop)
    assert isinstance(caught.value.__cause__, Enough)
    result = caught.value.result
    assert len(result.samples) >= 10
    assert torch.equal(result.samples, da.sample(DENSE, 100, seed=0).samples[result.numbers])
