"""The budget of the suite, and what every test gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.exactness import CHECKS, LEVEL

torch.set_num_threads(1)  # tests run beside each other, one process a core


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if sum("check" in getattr(item, "fixturenames", ()) for item in items) > CHECKS:
        raise pytest.UsageError(f"more than the {CHECKS} stochastic checks that tests/exactness.py allows for")


@pytest.fixture
def check() -> Callable[[float], None]:
    """The one way to turn a p-value into a verdict: one check a test, each at the level of the budget."""
    spent: list[float] = []

    def verdict(p_value: float) -> None:
        spent.append(p_value)
        assert len(spent) == 1, "one stochastic check a test: combine the p-values first"
        assert p_value >= LEVEL, f"the samples do not have their law: p = {p_value:.3g}"

    return verdict
