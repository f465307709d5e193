"""What compare.md measures: distances that are zero where they must be, and seen where something is wrong."""

from __future__ import annotations

import math

import torch

from drawahead.targets import Ising
from studies import compare

GRID = Ising.grid(2, 2, coupling=0.6)


def test_the_law_of_a_grid_is_that_of_its_energy() -> None:
    found = compare.law(GRID)
    for a, b, c, d in ((0, 0, 0, 0), (0, 1, 0, 0), (0, 1, 1, 0)):
        agree = sum(1 if x == y else -1 for x, y in ((a, b), (c, d), (a, c), (b, d)))
        assert math.isclose(float(found[a, b, c, d] / found[1, 1, 1, 1]), math.exp(0.6 * (agree - 4)))
    assert math.isclose(float(found.sum()), 1)


def test_unmasking_is_right_one_by_one_and_wrong_together() -> None:
    exact = compare.law(GRID)

    def distance(choose: compare.Choice) -> tuple[float, float]:
        found, rounds = compare.unmasked(GRID, choose)
        assert math.isclose(float(found.sum()), 1)
        return float((found - exact).abs().sum() / 2), rounds

    assert distance(compare.at_once(1))[0] < 1e-12
    (two, rounds), (all_at_once, single) = distance(compare.at_once(2)), distance(compare.at_once(4))
    assert 0.05 < two < all_at_once and math.isclose(rounds, 2) and math.isclose(single, 1)
    uniform = float((exact - 1 / 16).abs().sum() / 2)
    assert math.isclose(all_at_once, uniform)  # each spin by itself is a fair coin


def test_sampled_unmasking_has_the_law_that_is_worked_out() -> None:
    worked_out, rounds = compare.unmasked(GRID, compare.confident)
    drawn, mean = compare.unmask(GRID, 20_000, None)
    counts = torch.bincount(drawn @ torch.tensor([8, 4, 2, 1]), minlength=16).double() / len(drawn)
    assert float((counts - worked_out.flatten()).abs().sum() / 2) < 0.03  # 0.01 by chance
    assert abs(mean - rounds) < 0.03


def test_the_distance_sees_a_shift_and_a_solver_with_too_few_steps() -> None:
    target = compare.mixture()
    cuts, drawn = compare.edges(target), compare.drawn_directly(target, 4000)
    chance = compare.distance(drawn, cuts)
    assert chance < 0.05 < compare.distance(drawn + 0.1, cuts)
    assert compare.distance(compare.solved(target, "DDIM", 5, 4000), cuts) > 0.2
    assert compare.distance(compare.solved(target, compare.KARRAS, 50, 4000), cuts) < 0.05
