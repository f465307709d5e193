"""The building blocks: their laws, how many tries they take, and when they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from drawahead import Categorical, InputError, Rejection, rejection, speculative_rejection
from drawahead.verification.statistics import chi_square
from tests.exactness import combined

Check = Callable[[float], None]
DRAWS = 20_000
P = torch.tensor([0.5, 0.2, 0.2, 0.1], dtype=torch.float64)
Q = torch.tensor([0.2, 0.4, 0.3, 0.1], dtype=torch.float64)
BOUND = 2.5
VARIATION = 0.3


def many(probs: Tensor) -> Categorical:
    return Categorical(probs.log().expand(DRAWS, 1, -1))


def geometric(chance: float, most: int) -> Tensor:
    """The law of the failures before a success: 0 ... most-1, and the rest."""
    law = chance * (1 - chance) ** torch.arange(most, dtype=torch.float64)
    return torch.cat([law, 1 - law.sum(dim=0, keepdim=True)])


def counts(drawn: Rejection, cells: int) -> Tensor:
    return torch.bincount(drawn.values.flatten(), minlength=cells)


def test_rejection(check: Check) -> None:
    """The target's law, after a geometric number of tries with mean `bound`."""
    drawn = rejection(many(P), many(Q), BOUND)
    tries = torch.bincount(drawn.tries.flatten().clamp(max=10), minlength=11)
    check(combined([chi_square(counts(drawn, 4), P), chi_square(tries, geometric(1 / BOUND, 10))]))


def test_values_and_tries_are_independent_in_rejection(check: Check) -> None:
    drawn = rejection(many(P), many(Q), BOUND)
    joint = drawn.values.flatten() * 4 + drawn.tries.flatten().clamp(max=3)
    check(chi_square(torch.bincount(joint, minlength=16), torch.outer(P, geometric(1 / BOUND, 3)).flatten()))


def test_speculative_rejection(check: Check) -> None:
    """The target's law; no further try with probability 1 - TV, else a geometric number with mean 1 / TV."""
    drawn = speculative_rejection(many(P), many(Q))
    tries = torch.bincount(drawn.tries.flatten().clamp(max=15), minlength=16)
    later = VARIATION * geometric(VARIATION, 14)
    law = torch.cat([torch.tensor([1 - VARIATION], dtype=torch.float64), later])
    check(combined([chi_square(counts(drawn, 4), P), chi_square(tries, law)]))


def test_speculative_rejection_where_the_draft_misses_the_target(check: Check) -> None:
    target, draft = torch.tensor([0.0, 0.3, 0.7]).double(), torch.tensor([0.6, 0.4, 0.0]).double()
    check(chi_square(counts(speculative_rejection(many(target), many(draft)), 3), target))


def test_equal_laws_are_never_rejected() -> None:
    assert not speculative_rejection(many(P), many(P)).tries.any()
    assert not rejection(many(P), many(P), 1.0).tries.any()


def test_every_cell_of_a_table_has_its_own_law(check: Check) -> None:
    target = Categorical(torch.stack([P, Q, P.flip(0)]).log().expand(DRAWS, 3, -1))
    draft = Categorical(torch.stack([Q, Q, P]).log().expand(DRAWS, 3, -1))
    values = speculative_rejection(target, draft).values
    assert values.shape == (DRAWS, 3)
    laws = (P, Q, P.flip(0))
    check(combined([chi_square(torch.bincount(values[:, i], minlength=4), law) for i, law in enumerate(laws)]))


def test_cells_are_independent(check: Check) -> None:
    target, draft = (Categorical(law.log().expand(DRAWS, 2, -1)) for law in (P, Q))
    values = speculative_rejection(target, draft).values
    check(chi_square(torch.bincount(values[:, 0] * 4 + values[:, 1], minlength=16), torch.outer(P, P).flatten()))


def test_the_seed_decides() -> None:
    draws: list[Callable[[int], Rejection]] = [
        lambda seed: speculative_rejection(many(P), many(Q), seed=seed),
        lambda seed: rejection(many(P), many(Q), BOUND, seed=seed),
    ]
    for draw in draws:
        assert torch.equal(draw(1).values, draw(1).values) and not torch.equal(draw(1).values, draw(2).values)


@pytest.mark.parametrize("bound", [2.4, 1.0, 0.5])
def test_a_bound_that_does_not_hold_is_refused(bound: float) -> None:
    with pytest.raises(InputError, match="speculative_rejection"):
        rejection(many(P), many(Q), bound)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan])
def test_a_bound_that_is_none_is_refused(bound: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(law: Categorical, noise: Tensor) -> Tensor:
        raise AssertionError("the bound is looked at before anything is drawn")

    monkeypatch.setattr(Categorical, "draw", draw)
    with pytest.raises(InputError, match="bound"):
        rejection(many(P), many(Q), bound)
