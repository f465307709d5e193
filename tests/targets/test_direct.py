"""Determinantal laws drawn by the algorithms made for them have the enumerated laws."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
import torch
from torch import Tensor

from drawahead import InputError
from drawahead.counting.determinantal import direct
from drawahead.randomness import Stream
from drawahead.targets import DPP, Pairs, SpanningTree, draw_directly
from drawahead.verification.statistics import chi_square
from tests.exactness import LEVEL, outcome_counts
from tests.targets.test_determinantal import NAMES, enumerated, target

DRAWS = 4_000


def p_value(name: str) -> float:
    return chi_square(outcome_counts(draw_directly(target(name), DRAWS), 2), enumerated(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_law(name: str, check: Callable[[float], None]) -> None:
    check(p_value(name))


def test_mutants_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = direct._factorized

    def independent(kernel: Tensor, streams: Stream) -> Tensor:
        """Forgets what revealed items say about the others."""
        return plain(kernel.diagonal().diag(), streams)

    def first_exit(chance: list[float], value: float, hi: int) -> int:
        """Leaves weights and all but the first two exits out of account."""
        return min(hi, int(2 * value / chance[-1]))

    monkeypatch.setattr(direct, "_factorized", independent)
    monkeypatch.setattr(direct.bisect, "bisect_right", first_exit)
    assert p_value("dpp") < LEVEL and p_value("K5") < LEVEL


def test_a_sample_depends_on_its_number_alone() -> None:
    for law in (DPP.random(40), SpanningTree.grid(5, 6)):
        many = draw_directly(law, 20, seed=3)
        assert many.shape == (20, law.length) and torch.equal(draw_directly(law, 7, seed=3), many[:7])
        assert not torch.equal(draw_directly(law, 20, seed=4), many) and len(draw_directly(law, 0)) == 0


def test_trees_are_trees_and_subsets_are_possible() -> None:
    grid, process = SpanningTree.grid(8, 9), DPP.random(60, rank=10)
    assert all(nx.is_tree(tree) and len(tree) == 72 for tree in grid.trees(draw_directly(grid, 5)))
    subsets = draw_directly(process, 50)
    assert bool(process.possible(subsets).all()) and int(subsets.sum(1).max()) <= 10


def test_only_determinantal_laws() -> None:
    with pytest.raises(InputError, match="SpanningTree or a DPP, not Pairs"):
        draw_directly(Pairs(4))  # type: ignore[arg-type]
