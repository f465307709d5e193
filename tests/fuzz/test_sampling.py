"""`sample` with strange arguments, strange models, and every honest setting."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

import drawahead as da
from drawahead import HIDDEN, targets
from drawahead.errors import SamplingError
from tests.fuzz.fuzzing import clear_errors, fuzzed, huge, strange, vast

ARGUMENTS: dict[str, Any] = {
    "target": targets.MixtureOfProducts.random(5),
    "num_samples": 3,
    "first": 0,
    "sampler": da.Coupled(),
    "seed": 0,
    "generator": None,
    "max_batch_size": None,
    "max_live": 2,
    "executor": None,
    "graphs": None,
    "on_round": None,
    "stop": None,
    "progress": None,
}
OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "num_samples": vast,
    "first": huge,
    "seed": huge,
    "max_batch_size": huge,
    "max_live": huge,
    "sampler": huge.map(lambda window: da.Block(window=window)),
    "generator": st.just(torch.Generator()),
    "stop": st.just(threading.Event()),
}


@fuzzed(400, data=st.data())
def test_strange_arguments(data: st.DataObject) -> None:
    odd = data.draw(st.lists(st.sampled_from(sorted(ARGUMENTS)), min_size=1, max_size=3, unique=True))
    changed = {key: data.draw(strange | OTHERS.get(key, strange), key) for key in odd}
    with clear_errors(ARGUMENTS, changed):
        result = da.sample(**{**ARGUMENTS, **changed})
        assert len(result.samples) == len(result.numbers) == result.report.num_samples


WINDOWS = st.sampled_from([None, 1, 3, 9])
SAMPLERS = st.one_of(
    st.builds(da.Coupled, window=WINDOWS, secant=st.booleans()),
    st.builds(da.Block, window=WINDOWS, pipelined=st.booleans()),
    st.builds(da.Stepwise, window=WINDOWS, pipelined=st.booleans()),
    st.just(da.Sequential()),
    st.just(da.Recursive()),
    st.just(da.Auto()),
)
ERRORS = (
    ValueError("no"),
    KeyError("no"),
    StopIteration(),
    RuntimeError("out of memory"),
    MemoryError(),
    AssertionError(),
    RecursionError(),
    TypeError(),
    ConnectionError("gone"),
)


@st.composite
def answers(draw: st.DrawFn) -> Callable[[Tensor], Any]:
    """What becomes of a good answer."""

    def failing(error: Exception) -> Callable[[Tensor], Any]:
        def fail(rows: Tensor) -> Any:
            raise error

        return fail

    value = draw(strange)
    return draw(
        st.one_of(
            st.sampled_from(ERRORS).map(failing),
            st.just(lambda rows: value),
            st.sampled_from(
                [
                    lambda rows: rows * math.nan,
                    lambda rows: rows + math.inf,
                    lambda rows: rows - math.inf,
                    lambda rows: rows + 0.1,
                    lambda rows: rows.half(),
                    lambda rows: rows.bfloat16(),
                    lambda rows: rows.long(),
                    lambda rows: rows.to(torch.complex64),
                    lambda rows: rows.bool(),
                    lambda rows: rows[..., :-1],
                    lambda rows: rows[:-1],
                    lambda rows: rows[:, None],
                    lambda rows: rows.flatten(),
                    lambda rows: rows.to("meta"),
                    lambda rows: rows.to_sparse(),
                    lambda rows: rows.numpy(),
                    lambda rows: rows.tolist(),
                    lambda rows: rows.clone().requires_grad_(),
                    lambda rows: rows[..., :1].expand_as(rows),
                ]
            ),
        )
    )


class Spoiled:
    """A model that answers well for a while."""

    def __init__(self, model: Callable[..., Tensor], good: int, spoil: Callable[[Tensor], Any]) -> None:
        self.model, self.good, self.spoil = model, good, spoil

    def __call__(self, *asked: Tensor) -> Any:
        self.good -= 1
        answer = self.model(*asked)
        return answer if self.good >= 0 else self.spoil(answer)


LAW = targets.MixtureOfProducts.random(5)
PLAN = da.StackedPlan(
    torch.eye(2).repeat(6, 1, 1), torch.ones(6, 1), torch.ones(6, 2, 1), start=torch.ones(2), final=torch.eye(2)
)
CHAINS: dict[str, Callable[[int, Callable[[Tensor], Any]], da.Chain]] = {
    "tokens": lambda good, spoil: da.TokenChain(Spoiled(LAW.rows, good, spoil), length=5, vocab_size=2),
    "gaussian": lambda good, spoil: da.GaussianChain(
        Spoiled(lambda x, k: x / 2, good, spoil), da.StochasticLocalization(6), (2,), dtype=torch.float64
    ),
    "stacked": lambda good, spoil: da.StackedChain(Spoiled(lambda x, k: x[:, 0] / 2, good, spoil), PLAN, (2,)),
}


@functools.cache
def unspoiled(kind: str, sampler: da.Sampler) -> Tensor:
    return da.sample(CHAINS[kind](10**9, lambda answer: answer), 4, sampler=sampler, seed=0, max_live=2).samples


@fuzzed(100, kind=st.sampled_from(sorted(CHAINS)), good=st.integers(0, 12), spoil=answers(), sampler=SAMPLERS)
def test_models_that_fail(kind: str, good: int, spoil: Callable[[Tensor], Any], sampler: da.Sampler) -> None:
    """Whatever a model does, samples finished before are there, and are right."""
    try:
        result = da.sample(CHAINS[kind](good, spoil), 4, sampler=sampler, seed=0, max_live=2)
    except SamplingError as error:
        result = error.result
    if not result.complete and not isinstance(sampler, da.Auto):  # Auto asks to measure, too: it fails earlier
        assert torch.equal(result.samples, unspoiled(kind, sampler)[result.numbers])


@pytest.mark.parametrize("kind", CHAINS)
def test_exits_pass_through(kind: str) -> None:
    def leave(answer: Tensor) -> Tensor:
        raise SystemExit(4)

    with pytest.raises(SystemExit):
        da.sample(CHAINS[kind](1, leave), 4, sampler=da.Coupled(), seed=0)


@fuzzed(
    60,
    sampler=SAMPLERS,
    seed=st.integers(0, 2**64 - 1),
    first=st.integers(0, 2**63 - 10),
    max_live=st.integers(1, 9),
    max_batch_size=st.none() | st.integers(1, 9),
    evidence=st.none() | st.lists(st.integers(HIDDEN, 1), min_size=6, max_size=6),
    order=st.none() | st.just("spread") | st.permutations(range(6)),
)
def test_a_sample_is_the_same_however_it_is_drawn(
    sampler: da.Sampler,
    seed: int,
    first: int,
    max_live: int,
    max_batch_size: int | None,
    evidence: list[int] | None,
    order: Any,
) -> None:
    chain = da.TokenChain(targets.DenseLogistic(6), order=order, evidence=evidence)
    split = da.sample(
        chain, 3, first=first, sampler=sampler, seed=seed, max_live=max_live, max_batch_size=max_batch_size
    )
    alone = da.sample(chain, 1, first=first + 2, sampler=sampler, seed=seed)
    assert torch.equal(split.samples[2:], alone.samples) and split.numbers.tolist() == [first, first + 1, first + 2]
    if isinstance(sampler, da.Coupled | da.Auto):
        assert torch.equal(split.samples, da.sample(chain, 3, first=first, sampler=da.Sequential(), seed=seed).samples)
    if evidence is not None:
        known = torch.tensor(evidence)
        assert bool(((split.samples == known) | (known == HIDDEN)).all())
    assert bool(((split.samples >= 0) & (split.samples < 2)).all())
