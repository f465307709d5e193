"""What is measured of the recursion is what it says."""

from __future__ import annotations

import math

import pytest

from studies.recursive import Setting, least_on_pairs, measured


def test_a_cell_holds_what_every_sample_took() -> None:
    cell = measured(Setting("pairs", "recursive"), 64, math.inf)
    assert cell["complete"] and len(cell["rounds"]) == 32 and cell["rounds"] == sorted(cell["rounds"])
    assert cell["queries"] > 64 / 4 and cell["candidates"] > 0
    assert max(cell["rounds"]) < 64  # one by one


def test_samples_that_did_not_finish_are_counted() -> None:
    cell = measured(Setting("pairs", "as published"), 64, 0.0)
    assert not cell["complete"] and cell["rounds"] == [1] * 32


def test_the_least_on_pairs_is_that_of_the_best_size() -> None:
    """At x = 3/2: rejected with 1 - exp(-9/16), and then two halves of 3/4, two levels of which matter."""
    small = 1 + -math.expm1(-((3 / 8) ** 2) / 4) * 2
    half = 1 + -math.expm1(-((3 / 4) ** 2) / 4) * 2 * small
    reject = -math.expm1(-9 / 16)
    there = (1 - reject + reject * 2 * half) / 1.5
    assert least_on_pairs() == pytest.approx(there, rel=0.02) and least_on_pairs() < there * 1.001
