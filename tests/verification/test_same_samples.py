"""Coupled must draw what Sequential draws: mismatches are counted against what rounding can do, and no more."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor

import drawahead as da
from drawahead import Coupled, TokenOracle
from drawahead.laws import Categorical
from drawahead.verification import Finding
from drawahead.verification.same import Bound, at_least, explained
from tests.verification.broken import GRID

LEVEL = 2e-4


def test_the_tail_of_a_binomial() -> None:
    for number, of, probability in (
        (1, 1000, 1e-9),
        (3, 50, 0.02),
        (40, 60, 0.5),
        (2000, 2000, 0.999),
        (7, 10**5, 2e-5),
    ):
        assert at_least(number, of, probability) == pytest.approx(stats.binom.sf(number - 1, of, probability), rel=1e-9)
    assert at_least(0, 10, 0.0) == 1.0 and at_least(1, 10, 0.0) == 0.0 and at_least(10, 10, 1.0) == 1.0


def test_two_answers_draw_different_tokens_no_more_often_than_said() -> None:
    """On the same noise, for laws near each other and far apart: the bound holds, and is not a loose one."""
    generator = torch.Generator().manual_seed(0)
    draws = 200_000
    gumbel = -(-torch.rand(draws, 4, dtype=torch.float64, generator=generator).log()).log()
    tight = 0.0
    for spread in (1e-3, 1e-2, 0.1, 1.0):
        logits = torch.randn(4, dtype=torch.float64, generator=generator)
        one, other = (
            (logits + spread * torch.randn(4, dtype=torch.float64, generator=generator)).log_softmax(-1) for _ in "pq"
        )
        apart = float((one.exp() - other.exp()).abs().sum() / 2)
        tokens = [Categorical(law.expand(draws, 1, 4)).draw(gumbel[:, None]) for law in (one, other)]
        differ = int((tokens[0] != tokens[1]).sum())
        assert at_least(differ, draws, explained(apart, 1)) > LEVEL
        tight = max(tight, differ / draws / explained(apart, 1))
    assert tight > 0.5
    assert explained(0.0, 100) == 0.0 and explained(1.0, 1) == 1.0
    assert explained(1e-3, 50) == pytest.approx(1 - (0.999 / 1.001) ** 50)


def finding(bound: Bound, number: int, other: int) -> Finding:
    samples = torch.zeros(number, 6, dtype=torch.int64)
    changed = samples.clone()
    changed[:other, 3:] = 1  # from the first token that differs, the rest does: a sample counts once
    return bound.finding("the same", samples, changed, sound=True)


def test_the_verdict_turns_at_the_bound() -> None:
    bound = Bound(steps=100, rounding=1e-5, level=LEVEL)
    expected = 2000 * bound.probability  # about 4
    most = int(stats.binom.isf(LEVEL, 2000, bound.probability))
    assert expected < most < 5 * expected
    assert finding(bound, 2000, 0).passed and finding(bound, 2000, most).passed
    broken = finding(bound, 2000, most + 1)
    assert not broken.passed and f"{most + 1} of 2000 samples differ" in broken.words
    assert finding(Bound(6, 0.0, LEVEL), 2000, 0).passed and not finding(Bound(6, 0.0, LEVEL), 2000, 1).passed


def test_the_least_share_that_is_found() -> None:
    exact = Bound(steps=100, rounding=2e-16, level=LEVEL).least_found(1000)
    rounded = Bound(steps=100, rounding=1e-4, level=LEVEL).least_found(1000)
    assert exact is not None and exact == pytest.approx(1 - 0.1 ** (1 / 1000), rel=1e-3)
    assert rounded is not None and rounded > 10 * exact
    assert Bound(steps=1000, rounding=1e-2, level=LEVEL).least_found(1000) is None


class AnotherKernel(TokenOracle):
    """Rounds a little by the place in the batch; and in large batches, which no small test sees, answers otherwise."""

    length, vocab_size = GRID.length, GRID.vocab_size

    def __init__(self, wrong: bool) -> None:
        self.wrong = wrong

    def rows(self, tokens: Tensor) -> Tensor:
        rows = GRID.rows(tokens)
        jitter = 2e-7 * (torch.arange(len(tokens), dtype=torch.float64) % 5)[:, None, None]
        rows = torch.cat([rows[..., :1] + jitter, rows[..., 1:]], dim=-1)
        return ((0.5 if self.wrong and len(tokens) > 1100 else 1.0) * rows).log_softmax(-1)


@pytest.mark.parametrize("wrong", [False, True])
def test_mismatches_that_rounding_does_not_explain_fail(wrong: bool) -> None:
    verdict = da.verify(AnotherKernel(wrong), 2000, samplers=[Coupled()], with_power=False)
    same = next(one for one in verdict.findings if one.check == f"{Coupled()!r} draws what Sequential draws")
    model = next(one for one in verdict.findings if one.check == "asked alone and in a batch")
    assert model.passed and model.difference is not None and 1e-8 < model.difference < 1e-6
    assert same.passed is not wrong
    assert not wrong or f"rounding of {model.difference:.1g} a step explains 0.00" in same.words
