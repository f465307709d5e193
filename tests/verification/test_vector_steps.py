"""Every step of a chain of vectors is tested: the first, of lanes, with known entries, and those without noise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, StackedChain, StackedPlan
from drawahead.chains.base import Chain, Paths, Tally
from drawahead.samplers import Sampler
from drawahead.schedules import Given, Plan
from drawahead.verification import vector_steps as module
from drawahead.verification.vector_steps import RecordedChain, vector_steps
from tests.gaussian.reference import SCHEDULES
from tests.gaussian.stacked_reference import LINEAR, PLANS, D
from tests.verification.broken import Drifting, Louder, failed

N = 8


def forgetful(spread: tuple[float, ...] = (1.0,) * N, *, start: float = 1.0) -> Plan:
    """Steps x' = x / 5 + m / 2 + s xi: of a step's noise the last state shows next to nothing."""
    half, ones = torch.full((N,), 0.5, dtype=torch.float64), torch.ones(N + 1, dtype=torch.float64)
    return Plan(0.4 * half, half, torch.tensor(spread, dtype=torch.float64), ones, ones, torch.arange(N), start=start)


def chain_of(plan: Plan, dtype: torch.dtype = torch.float64, **more: Tensor) -> GaussianChain:
    return GaussianChain(lambda x, k: torch.tanh(x), Given(plan), (2,), dtype=dtype, **more)


def found(chain: GaussianChain | StackedChain, sampler: Sampler, number: int = 300) -> set[str]:
    return failed(da.verify(chain, number, samplers=[sampler], with_power=False))


@pytest.mark.parametrize("start", [0.0, 1.0, 5.0])
def test_the_first_step_is_tested(start: float) -> None:
    louder = Louder(factor=1.4, steps=(0,))
    assert found(chain_of(forgetful(start=start)), louder) == {f"steps of {louder!r}"}


def test_the_first_step_is_tested_from_given_states() -> None:
    louder, start = Louder(factor=1.4, steps=(0,)), torch.linspace(-3, 3, 600).view(300, 2)
    assert found(chain_of(forgetful(), start=start), louder) == {f"steps of {louder!r}"}
    assert not found(chain_of(forgetful(), start=start), Coupled())


KNOWN = torch.tensor([0.7, torch.nan])
EACH = torch.where(torch.rand(300, 2, generator=torch.Generator().manual_seed(0)) < 0.4, torch.nan, torch.tensor(0.7))


@pytest.mark.parametrize("known", [KNOWN, EACH], ids=["alike", "of each sample"])
def test_steps_with_known_entries_are_tested(known: Tensor) -> None:
    chain, louder = chain_of(forgetful(), known=known), Louder(factor=1.4, steps=(0, 3))
    assert found(chain, louder) == {f"steps of {louder!r}"}
    for sampler in (Coupled(), Block()):
        assert not found(chain, sampler)


def test_innovations_with_known_entries_are_those_of_the_free_ones() -> None:
    recording = RecordedChain.of(chain_of(forgetful(), known=EACH), 300)
    assert recording is not None
    samples = da.sample(recording.chain, 300, sampler=Coupled(), seed=5).samples
    steps = vector_steps(recording, samples, 5)
    assert torch.equal(~steps.tables[0].isnan(), EACH.isnan()[:, None].expand(300, N + 1, 2))  # and the start
    assert steps.missed is not None and steps.missed < 1e-12
    row, entry = (~EACH.isnan()).nonzero()[40].tolist()
    samples[row, 2, entry] += 1e-3
    missed = vector_steps(recording, samples, 5).missed
    assert missed is not None and missed > 1e-4  # a known entry that is not the copy it should be


def test_steps_without_noise_are_tested() -> None:
    plan = forgetful((1.0,) * 5 + (0.0, 1.0, 0.0))
    drifting = Drifting(by=1e-3, steps=(5,))
    assert found(chain_of(plan), drifting) == {f"fixed steps of {drifting!r}"}
    verdict = da.verify(chain_of(plan), 300, with_power=False)
    assert verdict.passed and any(finding.check.startswith("fixed steps") for finding in verdict.findings)


def test_where_no_step_is_random_the_verdict_says_so() -> None:
    verdict = da.verify(chain_of(forgetful((0.0,) * N), start=torch.ones(2)), 50, samplers=[Coupled()])
    assert verdict.passed and "none of them is random" in str(verdict)


@pytest.mark.parametrize("name", PLANS)
def test_steps_of_stacked_chains_are_tested(name: str) -> None:
    chain = StackedChain(LINEAR[name], PLANS[name], (D,), dtype=torch.float64)
    steps = tuple(range(chain.steps - 1))
    louder = Louder(factor=1.3, steps=steps)
    assert f"steps of {louder!r}" in found(chain, louder, 400)
    verdict = da.verify(chain, 400, samplers=[Coupled(), Block()])
    assert verdict.passed and not verdict.untested
    assert {"a spread wrong", "a mean off", "noise used twice"} == set(verdict.power["steps"])


def test_a_step_of_a_stacked_chain_that_its_samples_do_not_show() -> None:
    """Lanes that are forgotten before the end, and never leave through `final`."""
    n, c = 6, 2
    a = torch.tensor([[0.0, 0.0], [0.0, 0.1]], dtype=torch.float64).expand(n, c, c)
    plan = StackedPlan(a, torch.full((n, 2), 0.3), torch.eye(c).expand(n, c, c), start=torch.ones(c), final=[1.0, 0.0])
    chain = StackedChain(lambda x, k: torch.sin(x.sum(1)), plan, (2,), dtype=torch.float64)
    louder = Louder(factor=1.4, steps=(2,))
    assert found(chain, louder) == {f"steps of {louder!r}"}


def far_out(dtype: torch.dtype) -> GaussianChain:
    """|x| of about 100 and noise of 1e-5: less than the last place of a float32 state."""
    one = torch.ones(4, dtype=torch.float64)
    plan = Plan(one, 0.1 * one, 1e-5 * one, torch.ones(5), torch.ones(5), torch.arange(4), start=0.0)
    start = torch.tensor([100.0, -80.0])
    return GaussianChain(lambda x, k: torch.cos(x), Given(plan), (2,), start=start, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_noise_on_large_states(dtype: torch.dtype) -> None:
    verdict = da.verify(far_out(dtype), 400)
    assert verdict.passed and not verdict.untested
    louder = Louder(factor=1.4, steps=(1,))
    assert f"steps of {louder!r}" in found(far_out(dtype), louder, 400)


@pytest.mark.parametrize("sampler", [Coupled(), Block()])
def test_recording_asks_the_model_what_it_is_asked_without(sampler: Sampler) -> None:
    def asking(dtype: torch.dtype) -> tuple[GaussianChain, list[Tensor]]:
        asked: list[Tensor] = []

        def model(x: Tensor, k: Tensor) -> Tensor:
            asked.append(torch.cat([x.clone(), k[:, None].to(x)], dim=1))
            return torch.tanh(x)

        return GaussianChain(model, SCHEDULES["ddpm"], (2,), dtype=dtype), asked

    chain, asked = asking(torch.float32)
    plain = da.sample(chain, 20, sampler=sampler, seed=0).samples
    before = torch.cat(asked)
    asked.clear()
    recording = RecordedChain.of(chain, 20)
    assert recording is not None
    kept = da.sample(recording.chain, 20, sampler=sampler, seed=0).samples
    assert kept.dtype == torch.float64 and torch.equal(kept[:, -1].float(), plain)
    assert torch.cat(asked).dtype == torch.float32 and torch.equal(torch.cat(asked), before)
    asked.clear()
    vector_steps(recording, kept, 0)
    again = {tuple(row.tolist()) for row in torch.cat(asked)}
    assert again <= {tuple(row.tolist()) for row in before}  # the very states at which steps were drawn


def test_the_noise_that_comes_back_is_the_noise_that_went_in() -> None:
    for chain in (chain_of(forgetful()), StackedChain(LINEAR["mixing"], PLANS["mixing"], (D,), dtype=torch.float64)):
        recording = RecordedChain.of(chain, 6)
        assert recording is not None
        samples = da.sample(recording.chain, 6, sampler=da.Sequential(), seed=2).samples
        xi = vector_steps(recording, samples, 2).tables[0][:, -chain.steps :]
        stream = recording.chain.start(2, torch.arange(6), Tally()).stream
        step = torch.arange(chain.steps).expand(6, -1)
        noise = stream.normal(da.randomness.Purpose.VALUE, step, size=xi.shape[-1])
        # Of lanes only the axes of the spread are known: turned, the noise has the same size.
        assert torch.allclose(xi.square().sum(-1), noise.square().sum(-1), rtol=1e-8)


def test_what_does_not_fit_is_not_kept_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = chain_of(forgetful())
    for room, number, steps in ((300 * N, 300, N), (80 * N, 80, N), (50 * 5, 50, 4), (16, 4, 4)):
        monkeypatch.setattr(module, "BYTES", 16 * room)
        recording = RecordedChain.of(chain, 300)
        assert recording is not None and recording.num_samples == number
        tested = sum(step + 1 in {*recording.chain.record, N} for step in (0, *recording.chain.record))
        assert tested == steps and len(recording.chain.record) * number <= room
        words = " ".join(recording.untested)
        assert (f"{300 - number} of 300 samples" in words) == (number < 300)
        assert (f"{N - steps} of {N} steps" in words) == (steps < N)
        verdict = da.verify(chain, 300, samplers=[Coupled()], with_power=False)
        assert verdict.untested == recording.untested and all(what in verdict.words for what in verdict.untested)
        assert verdict.to_dict()["untested"] == recording.untested
    monkeypatch.setattr(module, "BYTES", 16)
    verdict = da.verify(chain, 300, samplers=[Coupled()])
    assert "too much memory" in str(verdict) and "steps" not in verdict.power


class Wrapped(Chain):
    """A chain of another kind than those whose steps are known."""

    def __init__(self, chain: GaussianChain) -> None:
        self.chain = chain

    @property
    def steps(self) -> int:
        return self.chain.steps

    def start(self, seed: int, samples: Tensor, tally: Tally) -> Paths:
        return self.chain.start(seed, samples, tally)

    def check(self, num_samples: int) -> None:
        self.chain.check(num_samples)

    def empty(self, num_samples: int) -> Tensor:
        return self.chain.empty(num_samples)


def test_steps_that_are_not_known_are_said_not_to_be_tested() -> None:
    verdict = da.verify(Wrapped(chain_of(forgetful())), 60, samplers=[Block()])
    assert verdict.passed and "it is not known what they are in a Wrapped" in verdict.words
    assert {finding.check for finding in verdict.findings} >= {"asked twice", f"samples of {Block()!r}"}
