"""The reference itself: published numbers, a law worked out by hand, and nothing of drawahead in it."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest

from tests import literal
from tests.literal import HIDDEN, Lanes, Noise, Steps

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES, ONES), (ONES, ONES, ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_generator_is_philox(
    key: tuple[int, int], counter: tuple[int, int, int, int], words: tuple[int, int, int, int]
) -> None:
    """The test vectors of its authors (Random123, kat_vectors)."""
    assert literal.philox(key, counter) == words


def test_nothing_of_drawahead_is_imported() -> None:
    tree = ast.parse(Path(literal.__file__).read_text())
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names == {"__future__", "collections.abc", "dataclasses", "itertools", "math", "numpy"}


def test_orders_and_evidence() -> None:
    noise = Noise(3, 8)
    assert literal.positions(noise, 5, [4, 2, 0, 1, 3], [HIDDEN, 7, HIDDEN, HIDDEN, 7]) == [2, 0, 3]
    assert sorted(literal.positions(noise, 6)) == sorted(literal.positions(noise, 6, "spread")) == list(range(6))
    assert literal.positions(noise, 2, evidence=[0, 0]) == []


def test_a_law_by_hand() -> None:
    """x_1 is a coin that shows 1 with probability 1/4; the other copies it, or is fair if it comes first."""

    def rows(tokens: list[int]) -> list[list[float]]:
        first, second = ([0.75, 0.25] if tokens[1] == HIDDEN else [0.5, 0.5]), [0.5, 0.5]
        if tokens[0] != HIDDEN:
            second = [float(tokens[0] == 0), float(tokens[0] == 1)]
        return [[math.log(p) if p else -math.inf for p in row] for row in (first, second)]

    ahead = {(0, 0): 0.75, (0, 1): 0.0, (1, 0): 0.0, (1, 1): 0.25}
    back = {(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25}
    assert literal.tokens_law(rows, 2, 2, [0, 1]) == pytest.approx(ahead)
    assert literal.tokens_law(rows, 2, 2, [1, 0]) == pytest.approx(back)
    assert literal.tokens_law(rows, 2, 2) == pytest.approx({key: (ahead[key] + back[key]) / 2 for key in ahead})
    assert literal.tokens_law(rows, 2, 2, evidence=[HIDDEN, 1]) == pytest.approx({(0, 1): 0.5, (1, 1): 0.5})


def test_steps_by_hand() -> None:
    noise = Noise(0, 0)
    xi, copy = noise.normals(literal.VALUE, 1, 2), noise.normals(literal.KNOWN, 2, 2)
    steps = Steps([0.0, -2.0], [0.0, 3.0], [0.0, 0.5], [1.0, 1.0, 4.0], [0.0, 0.0, 0.1], 0.0)
    after = literal.gaussian_step(lambda x, k: x + k, steps, 1, np.array([1.0, 2.0]), noise, np.array([np.nan, 5.0]))
    assert after == pytest.approx([-2.0 + 3.0 * 2.0 + 0.5 * xi[0], 20.0 + 0.1 * copy[1]])
    eye = np.eye(2)[None]
    plan = Lanes(2 * eye, np.array([[3.0]]), np.array([[[0.0], [1.0]]]), np.zeros(2), [False])
    lanes = literal.stacked_step(lambda x, k: x[0], plan, 0, np.array([[1.0], [2.0]]), noise)
    assert lanes[:, 0] == pytest.approx([2.0, 4.0 + 3.0 + noise.normals(literal.VALUE, 0, 1)[0]])
