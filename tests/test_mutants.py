"""Broken samplers are rejected by the very checks that the real ones pass; harmless changes are not."""

from __future__ import annotations

import collections
from collections.abc import Callable

import pytest
import torch

import drawahead as da
from drawahead import Block, Sequential
from drawahead.samplers import Sampler
from drawahead.samplers.window import WindowSampler
from drawahead.targets import DenseLogistic
from drawahead.verification.statistics import chi_square
from tests.exactness import LEVEL, averaged_law, draws_for, joint_law, law_p_value, outcome_counts
from tests.instances import DESIGNED, EXACT, SMALL, small_law
from tests.mutants import HARMLESS, MUTANTS, Mutant, PeekingCoupled, UnbrokenBlock

Check = Callable[[float], None]


CAPTURED = [mutant for mutant in MUTANTS if isinstance(mutant.sampler, WindowSampler)]


def p_value(sampler: Sampler, instance: str, draws: int, graphs: bool | None = None) -> float:
    if instance in DESIGNED:
        return law_p_value(DESIGNED[instance], joint_law(DESIGNED[instance].oracle), sampler, draws, graphs=graphs)
    return law_p_value(SMALL[instance], small_law(instance), sampler, draws, graphs=graphs)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: type(mutant.sampler).__name__)
def test_mutants_are_rejected(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    p = p_value(mutant.sampler, mutant.instance, mutant.draws)
    record_property("p", p)
    assert p < LEVEL, f"{mutant} goes unnoticed: p = {p:.3g}"


@pytest.mark.parametrize("mutant", CAPTURED, ids=lambda mutant: type(mutant.sampler).__name__)
def test_mutants_are_rejected_in_captured_rounds(mutant: Mutant) -> None:
    p = p_value(mutant.sampler, mutant.instance, mutant.draws, graphs=True)
    assert p < LEVEL, f"{mutant} goes unnoticed: p = {p:.3g}"


def test_every_sampler_has_mutants() -> None:
    number = collections.Counter(mutant.of for mutant in MUTANTS)
    assert set(number) == set(EXACT) and min(number.values()) >= 2
    assert all(mutant.draws <= draws_for(mutant.sampler) for mutant in MUTANTS), "no more draws than conformance takes"
    assert {mutant.of for mutant in CAPTURED} == set(EXACT) - {"recursive"}


@pytest.mark.parametrize("instance", ["urns", "markov", "weights"])
@pytest.mark.parametrize("sampler", HARMLESS, ids=lambda sampler: type(sampler).__name__)
def test_harmless_changes_keep_the_law(sampler: Sampler, instance: str, check: Check) -> None:
    check(p_value(sampler, instance, 20_000))


@pytest.mark.parametrize("sampler", [*HARMLESS, UnbrokenBlock()], ids=lambda sampler: type(sampler).__name__)
def test_harmless_changes_are_the_same_in_captured_rounds(sampler: Sampler) -> None:
    for target in (SMALL["urns"], DESIGNED["weights"]):
        one, other = (da.sample(target, 300, sampler=sampler, seed=0, graphs=graphs) for graphs in (True, False))
        assert torch.equal(one.samples, other.samples)


def test_control_may_peek_where_the_output_does_not_depend_on_it() -> None:
    one, other = (da.sample(SMALL["urns"], 500, sampler=s, seed=0) for s in (PeekingCoupled(), Sequential()))
    assert torch.equal(one.samples, other.samples)


def test_the_copies_that_mutants_start_from_are_unbroken() -> None:
    for name in ("ising", "markov"):
        one, other = (da.sample(SMALL[name], 2000, sampler=s, seed=0).samples for s in (Block(), UnbrokenBlock()))
        assert torch.equal(one, other)


def test_one_order_for_all_is_rejected(check: Check) -> None:
    """Random orders are part of the law where conditionals are inconsistent."""
    dense = DenseLogistic(4, beta=2.0)
    law = averaged_law(dense)
    check(law_p_value(dense, law, Sequential(), 20_000))
    assert law_p_value(da.TokenChain(dense, order=[0, 1, 2, 3]), law, Sequential(), 20_000) < LEVEL


def test_the_first_samples_to_finish_are_rejected(check: Check) -> None:
    """Rounds depend on values: of 40 000 samples, those that took few rounds do not have the law."""
    result = da.sample(SMALL["ising"], 40_000, sampler=Block(), seed=0, max_live=40_000)
    first = torch.tensor(result.report.sample_rounds).argsort(stable=True)[:20_000]
    check(chi_square(outcome_counts(result.samples[:20_000], 2), small_law("ising")))
    assert chi_square(outcome_counts(result.samples[first], 2), small_law("ising")) < LEVEL
