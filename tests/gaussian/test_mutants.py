"""Every mutant is rejected by the very checks, at the very level, that pass the real samplers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import drawahead as da
from drawahead.samplers import SAMPLERS, Sampler, Sequential
from drawahead.samplers.window import WindowSampler
from tests.exactness import LEVEL
from tests.gaussian.mutants import HARMLESS, MUTANTS, Mutant
from tests.gaussian.reference import (
    DESIGNED,
    NONLINEAR,
    designed_p_value,
    linear_chain_p_value,
    nonlinear_p_value,
)
from tests.instances import WINDOWED

Check = Callable[[float], None]


def p_value(name: str, sampler: Sampler, draws: int, graphs: bool | None = None) -> float:
    """The check of the chain called so."""
    check = designed_p_value if name in DESIGNED else nonlinear_p_value if name in NONLINEAR else linear_chain_p_value
    return check(name, sampler, draws, graphs=graphs)


COSTLY = ("DraftForMiddle", "TargetForResidual", "PeekingStepwise", "OffByOne", "WeightIgnored")
"""Each of their rounds solves for quantiles: in captured rounds they are left to the slow tests."""
CAPTURED = [mutant for mutant in MUTANTS if isinstance(mutant.sampler, WindowSampler)]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{type(mutant.sampler).__name__}, {mutant.chain}")
def test_a_mutant_is_rejected(mutant: Mutant) -> None:
    assert p_value(mutant.chain, mutant.sampler, mutant.draws) < LEVEL


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, marks=pytest.mark.slow if type(mutant.sampler).__name__ in COSTLY else ())
        for mutant in CAPTURED
    ],
    ids=lambda mutant: f"{type(mutant.sampler).__name__}, {mutant.chain}",
)
def test_a_mutant_is_rejected_in_captured_rounds(mutant: Mutant) -> None:
    assert p_value(mutant.chain, mutant.sampler, mutant.draws, graphs=True) < LEVEL


@pytest.mark.parametrize("sampler", HARMLESS, ids=repr)
def test_what_looks_wrong_and_is_not_is_the_same_in_captured_rounds(sampler: Sampler) -> None:
    one, other = (da.sample(DESIGNED["drift"], 50, sampler=sampler, seed=0, graphs=graphs) for graphs in (True, False))
    assert torch.allclose(one.samples, other.samples, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sampler", [Sequential(), *WINDOWED], ids=repr)
@pytest.mark.parametrize("name", DESIGNED)
def test_the_real_ones_pass_where_mutants_fail(name: str, sampler: Sampler, check: Check) -> None:
    check(p_value(name, sampler, 10_000))


@pytest.mark.parametrize("sampler", HARMLESS, ids=repr)
@pytest.mark.parametrize("name", ["localization", "drift"])
def test_what_looks_wrong_and_is_not(name: str, sampler: Sampler, check: Check) -> None:
    check(p_value(name, sampler, 20_000))


def test_every_speculative_sampler_has_mutants() -> None:
    assert {mutant.of for mutant in MUTANTS} == set(SAMPLERS) - {"sequential"}
    assert {mutant.of for mutant in CAPTURED} == set(SAMPLERS) - {"sequential", "recursive"}
