"""What a verification says it would have found: every part says it, it is true, and the verdict's one line knows it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, TokenChain, TokenOracle
from drawahead.chains.base import Answer, Paths
from drawahead.laws import Categorical
from drawahead.randomness import Purpose
from drawahead.rounds.threads import Thread
from drawahead.samplers import Sequential
from drawahead.targets import Hypercube, Ising, Pairs, Product
from drawahead.verification.steps import AT_RANDOM, TOO_EARLY, token_steps
from drawahead.verification.vector_steps import RecordedChain, vector_steps
from tests.verification.broken import Leaking, Louder, Peeking, failed

GRID = Ising(3, 3, coupling=0.6, field=0.2)
VECTORS = GaussianChain(Hypercube(4), da.StochasticLocalization(24, delta=0.05))


def test_every_part_tells_its_power() -> None:
    verdict = da.verify(GRID, 1000)
    model = {"asked twice", "asked alone and in a batch", "knows only what is drawn"}
    assert set(verdict.power) == {*model, "rows, rows_at and chain_rows agree", "steps", "samples", "the same samples"}
    assert set(verdict.power["steps"]) == {AT_RANDOM, TOO_EARLY, "noise used twice"}
    for part, ways in verdict.power.items():
        line = next(line for line in str(verdict).splitlines() if line.strip().startswith(f"{part}: ") and "(" in line)
        assert ways and all(way in line for way in ways)
    vectors = da.verify(VECTORS, 300)
    assert set(vectors.power) == {"asked twice", "asked alone and in a batch", "steps", "samples"}
    assert json.loads(json.dumps(vectors.to_dict()))["power"] == vectors.power


def test_a_verdict_without_power_says_so() -> None:
    verdict = da.verify(GRID, 100, with_power=False)
    assert verdict.passed and not verdict.power
    assert "not measured" in str(verdict) and "was not measured" in verdict.words
    assert not verdict.words.startswith("PASSED:")


def test_a_part_that_is_blind_is_named_in_the_verdict() -> None:
    verdict = da.verify(GRID, 60)
    assert verdict.passed and verdict.power["samples"]["wrong tokens"] is None
    blind = "60 samples are too few for the test of samples to detect wrong tokens"
    assert blind in verdict.blind and blind in verdict.words and blind in str(verdict) and "\n" not in verdict.words
    assert blind in verdict.to_dict()["blind"]
    enough = da.verify(Pairs(16), 1000)
    assert not enough.blind and enough.words.startswith("PASSED: ")


class InHalfPrecision(TokenOracle):
    """A law of many independent tokens, worked out in bfloat16."""

    length, vocab_size = 150, 2

    def rows(self, tokens: Tensor) -> Tensor:
        logits = torch.linspace(-2, 2, 300, dtype=torch.bfloat16).view(150, 2)
        return logits.sin().float().log_softmax(-1).expand(len(tokens), -1, -1)


def test_rounding_that_hides_everything_is_told() -> None:
    """In half precision, over many steps, rounding explains whatever number of samples differs."""
    verdict = da.verify(InHalfPrecision(), 50, samplers=[Coupled()])
    assert verdict.passed and verdict.power["the same samples"]["wrong samples"] is None
    assert "rounds too much for a comparison with Sequential" in verdict.words


@pytest.mark.parametrize(("times", "passes"), [(0.5, True), (20.0, False)])
def test_leaks_and_peeks_are_found_from_what_is_said_on(times: float, passes: bool) -> None:
    model = da.verify(GRID, 60, samplers=[Block()]).power
    peek = model["knows only what is drawn"]["a difference"]
    assert peek is not None
    found = failed(da.verify(Peeking(GRID, times * peek), 60, samplers=[Block()]))
    assert ("knows only what is drawn" not in found) is passes
    leak = model["asked alone and in a batch"]["a difference"]
    assert leak is not None
    found = failed(da.verify(Leaking(GRID, times * leak), 60, samplers=[Block()]))
    assert ("asked alone and in a batch" not in found) is passes


@dataclass(frozen=True)
class AtRandom(Sequential):  # type: ignore[misc]
    """Draws some tokens from all, alike."""

    share: float = 0.0

    def run(self, paths: Paths) -> Thread:
        while len(paths):
            one = torch.ones(len(paths), dtype=torch.int64)
            answer: Answer = yield paths.ask(None, one, torch.zeros(len(paths), 1, dtype=torch.int64))
            law, step = answer.target, paths.steps(1)
            assert isinstance(law, Categorical)
            alike = Categorical(torch.full_like(law.log_probs, -math.log(law.log_probs.shape[-1])))
            wrong = paths.stream.uniform(Purpose.ACCEPT, step) < self.share
            noise = law.noise(paths.stream, Purpose.VALUE, step)
            paths.commit(torch.where(wrong, alike.draw(noise), law.draw(noise)), one)


def found_of_ten(chain: TokenChain, share: float, level: float) -> int:
    found = 0
    for seed in range(10):
        samples = da.sample(chain, 300, sampler=AtRandom(share), seed=seed).samples
        found += token_steps(chain, samples, seed).p_value < level
    return found


def test_wrong_tokens_are_found_as_often_as_said() -> None:
    """By the test of steps: nine times in ten from the share that is told on, and seldom far below it."""
    verdict = da.verify(GRID, 300, samplers=[Block()])
    share, level = verdict.power["steps"][AT_RANDOM], verdict.level / 2
    assert share is not None and 0.02 < share < 0.4
    chain = TokenChain(GRID)
    assert found_of_ten(chain, share, level) >= 8
    assert found_of_ten(chain, share / 4, level) <= 1


def test_a_wrong_spread_is_found_as_often_as_said() -> None:
    told = da.verify(VECTORS, 300, samplers=[Block()]).power["steps"]["a spread wrong"]
    assert told is not None and told <= 0.06
    louder = Louder(factor=1 + told, steps=tuple(range(VECTORS.steps)))
    level = da.verify(VECTORS, 300, samplers=[louder], with_power=False).level / 2
    recording, found = RecordedChain.of(VECTORS, 300), 0
    assert recording is not None
    for seed in range(10):
        samples = da.sample(recording.chain, 300, sampler=louder, seed=seed).samples
        found += vector_steps(recording, samples, seed).p_value < level
    assert found >= 8


def test_where_tokens_are_independent_there_is_nothing_to_draw_too_early() -> None:
    power = da.verify(Product.random(6), 300).power["steps"]
    assert TOO_EARLY not in power and power[AT_RANDOM] is not None
