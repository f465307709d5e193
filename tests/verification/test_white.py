"""The tests of innovations themselves: uniform p-values on normals, and none on what is not quite normal."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.verification.statistics import kolmogorov, kolmogorov_columns
from drawahead.verification.steps import TokenScore
from drawahead.verification.white import Off, columns, moments, pooled, white
from tests.exactness import LEVEL

SHAPE = (400, 12, 2)


def normals(seed: int, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def missing(seed: int) -> Tensor:
    """Where nothing is drawn: steps past the length of a sample, and entries that are known."""
    generator = torch.Generator().manual_seed(seed)
    length = torch.randint(0, SHAPE[1] + 1, (SHAPE[0], 1, 1), generator=generator)
    known = torch.rand(SHAPE[0], 1, SHAPE[2], generator=generator) < 0.2
    return (torch.arange(SHAPE[1])[None, :, None] >= length) | known


@pytest.mark.parametrize("holes", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("test", [columns, pooled, moments], ids=lambda test: test.__name__)
def test_normals_pass(test: Callable[[Tensor], float], holes: bool, check: Callable[[float], None]) -> None:
    """That p-values are not too small: of a hundred, the smallest, times a hundred."""
    found = []
    for seed in range(100):
        xi = normals(seed)
        found.append(test(torch.where(missing(seed), torch.nan, xi) if holes else xi))
    assert sum(p < 0.1 for p in found) <= 20
    check(min(1.0, 100 * min(found)))


def spoiled(way: str, xi: Tensor) -> Tensor:
    xi = xi.clone()
    if way == "spread":
        return 1.1 * xi
    if way == "one step":
        xi[:, 7] *= 1.5
    elif way == "mean":
        xi += 0.1
    elif way == "noise used twice":
        xi[:, 4] = xi[:, 3]
    elif way == "entries alike":
        xi[..., 1] = xi[..., 0]
    elif way == "steps balance":
        xi[:, 1::2] = (xi[:, 1::2] - 0.3 * xi[:, ::2]) / (1 + 0.3**2) ** 0.5
    elif way == "far ones followed by small ones":
        xi[:, 1:] = torch.where(xi[:, :-1].abs() > 1, 0.6 * xi[:, 1:], xi[:, 1:])
    return xi


WAYS = ("spread", "one step", "mean", "noise used twice", "entries alike", "steps balance")
WAYS += ("far ones followed by small ones",)


@pytest.mark.parametrize("holes", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_white_fails(way: str, holes: bool) -> None:
    xi = spoiled(way, normals(0, (1200, *SHAPE[1:])))
    gaps = torch.cat([missing(seed) for seed in range(3)])
    assert white(torch.where(gaps, torch.nan, xi) if holes else xi) < LEVEL


def test_rounding_is_allowed_for_and_no_more() -> None:
    """Uniforms moved by so much, all to one side: within what is said to be off they pass, beyond it they do not."""
    u = torch.rand(4000, 5, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moved = torch.special.ndtri(torch.where(u < 0.1, u + 0.9, u))  # a tenth of the mass moves across
    assert white(moved) < LEVEL and white(moved, Off.of_tokens(0.02)) < LEVEL and white(moved, Off.of_tokens(0.1)) > 0.1


def test_rounding_of_vectors_is_that_of_their_entries() -> None:
    """Entries moved by a twentieth of a standard deviation: the laws of whole steps are far apart then, and a test of
    entries still tells it from more."""
    moved = normals(0, (300, 10, 64)) + 0.05
    variation = math.erf(0.05 * 8 / math.sqrt(8))
    assert white(moved) < LEVEL and white(moved, Off.of_vectors(variation, 0.02)) < LEVEL
    assert white(moved, Off.of_vectors(variation, 0.06)) > 0.1
    assert white(1.05 * normals(0, (300, 10, 64)), Off.of_vectors(variation, 0.05)) < LEVEL


def test_nothing_to_test() -> None:
    for shape in ((0, 4, 1), (5, 0, 1), (5, 4, 0)):
        assert white(torch.zeros(shape, dtype=torch.float64)) == 1.0
    assert white(torch.full((30, 4, 2), torch.nan, dtype=torch.float64)) == 1.0


def test_columns_with_gaps() -> None:
    u = torch.rand(300, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u[:, 2] = u[:, 2].square()
    gappy = u.clone()
    gappy[::3, 2] = torch.nan
    gappy[4:, 1] = torch.nan
    own = [kolmogorov(u[:, 0]), kolmogorov(gappy[:, 2][~gappy[:, 2].isnan()])]
    assert kolmogorov_columns(gappy) == pytest.approx(2 * min(own))  # a column of four is not tested
    assert kolmogorov_columns(u[:, 2:], 0.3) == 1.0 and kolmogorov_columns(gappy[:0]) == 1.0
    assert kolmogorov_columns(u, torch.tensor([0.0, 0.0, 0.3])) > 1e-2
    for bad in (u + 1, u[:, 0], "u"):
        with pytest.raises(InputError):
            kolmogorov_columns(bad)  # type: ignore[arg-type]
    for off in (-0.1, torch.zeros(4), "much"):
        with pytest.raises(InputError):
            kolmogorov_columns(u, off)  # type: ignore[arg-type]


def laws(cells: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.rand(cells, 4, dtype=torch.float64, generator=generator).softmax(-1) for _ in "pq")  # type: ignore[return-value]


def drawn(law: Tensor, seed: int) -> Tensor:
    return torch.multinomial(law, 1, generator=torch.Generator().manual_seed(seed))[:, 0]


def test_scores_have_the_mean_and_variance_they_say() -> None:
    law, other = laws(50, 0)
    totals = torch.tensor([TokenScore.of(law, other, drawn(law, seed)).total for seed in range(2000)])
    score = TokenScore.of(law, other, drawn(law, 0))
    assert abs(float(totals.mean())) < 4 * (score.variance / 2000) ** 0.5
    assert float(totals.var()) == pytest.approx(score.variance, rel=0.15)
    gains = torch.tensor([TokenScore.of(law, other, drawn(other, seed)).total for seed in range(2000)])
    assert float(gains.mean()) == pytest.approx(score.gain, abs=4 * (score.variance / 2000) ** 0.5 + 0.01)
    assert float((totals.abs() > 0).double().mean()) == 1.0


def test_scores_find_what_they_say_and_no_more() -> None:
    law, other = laws(20_000, 1)
    least = TokenScore.of(law, other, drawn(law, 0)).least_found(LEVEL, 0.0)
    assert least is not None and least < 0.3
    found = passed = 0
    for seed in range(20):
        wrong = torch.rand(len(law), generator=torch.Generator().manual_seed(seed)) < least
        tokens = torch.where(wrong, drawn(other, seed), drawn(law, seed + 100))
        found += TokenScore.of(law, other, tokens).p_value(0.0) < LEVEL
        passed += TokenScore.of(law, other, drawn(law, seed)).p_value(0.0) > 1e-2
    assert found >= 15 and passed >= 19
    assert (
        TokenScore.of(law, law, drawn(law, 0)).least_found(LEVEL, 0.0) is None
        and not TokenScore.of(law, law, drawn(law, 0)).differs
    )
    assert TokenScore.of(law, other, drawn(other, 0)).p_value(0.5) == 1.0  # laws that may be off by so much
    impossible = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    assert TokenScore.of(impossible, impossible, torch.tensor([0])).p_value(0.0) == 1.0
