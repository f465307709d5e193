"""Evidence that differs from sample to sample: every step of every sample is tested, and the model is asked of them."""

from __future__ import annotations

import pytest
import torch

import drawahead as da
from drawahead import HIDDEN, Block, Coupled, TokenChain
from drawahead.chains.base import Tally
from drawahead.targets import Pairs
from drawahead.verification.steps import token_steps
from tests.verification.broken import GRID, Leaking, Peeking, Stale, failed, ragged


def test_a_sound_oracle_passes() -> None:
    verdict = da.verify(TokenChain(GRID, evidence=ragged(GRID, 300)), 300)
    assert verdict.passed and not verdict.untested
    assert {"asked twice", "knows only what is drawn"} <= {finding.check for finding in verdict.findings}


@pytest.mark.parametrize("share", [0.03, 0.005])
def test_an_oracle_that_peeks_fails(share: float) -> None:
    chain = TokenChain(Peeking(GRID, share), evidence=ragged(GRID, 300))
    assert "knows only what is drawn" in failed(da.verify(chain, 300, samplers=[Block()], with_power=False))


def test_an_oracle_that_leaks_fails_though_the_first_samples_are_known() -> None:
    evidence = ragged(GRID, 100)
    evidence[:20] = 0
    chain = TokenChain(Leaking(GRID, 0.006), evidence=evidence)
    verdict = da.verify(chain, 100, samplers=[Block()], with_power=False)
    assert "asked alone and in a batch" in failed(verdict)


def test_every_step_of_every_sample_is_in_the_test() -> None:
    evidence = ragged(GRID, 200)
    chain = TokenChain(GRID, evidence=evidence)
    samples = da.sample(chain, 200, sampler=Coupled(), seed=3).samples
    steps = token_steps(chain, samples, 3)
    length = (evidence == HIDDEN).sum(1)
    for table in steps.tables:
        assert torch.equal((~table[..., 0].isnan()).sum(1), length)
    assert steps.count == int(length.sum())


def test_steps_that_go_wrong_fail() -> None:
    """Tokens of pairs drawn two at a time, in samples that have four positions hidden, beside one with none."""
    pairs = Pairs(8)
    evidence = torch.full((400, 8), HIDDEN)
    evidence[:, :4] = torch.tensor([0, 0, 1, 1])
    evidence[0] = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])
    chain = TokenChain(pairs, evidence=evidence)
    assert f"steps of {Stale()!r}" in failed(da.verify(chain, 400, samplers=[Stale()], with_power=False))


def test_where_nothing_is_hidden_the_verdict_says_that_nothing_was_tested() -> None:
    verdict = da.verify(TokenChain(GRID, evidence=torch.zeros(6, dtype=torch.int64)), 50)
    assert verdict.passed and "there is no query" in verdict.words and "PASSED:" not in verdict.words
    assert any("none of them is random" in what for what in verdict.untested)


def test_an_impossible_token_fails_at_once() -> None:
    pairs = Pairs(6)
    chain = TokenChain(pairs)
    samples = da.sample(chain, 50, sampler=Coupled(), seed=0).samples
    assert token_steps(chain, samples, 0).p_value > 1e-3
    last = chain.start(0, torch.tensor([7]), Tally()).order[0, -1]
    samples[7, last] = 1 - samples[7, last]
    assert token_steps(chain, samples, 0).p_value == 0.0
