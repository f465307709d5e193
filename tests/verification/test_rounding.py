"""What a model owes to rounding is measured on itself; what it owes to anything else fails, however little that is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, TokenChain, TokenOracle
from drawahead.schedules import Given, LearnedVariance
from drawahead.targets import Hypercube
from drawahead.verification.rounding import Rounding, seen
from tests.gaussian.wider import plan
from tests.verification.broken import GRID, Leaking, Peeking, failed
from tests.verification.networks import Transformer, denoiser

HALF = (torch.float16, torch.bfloat16)


def checked(target: TokenOracle | GaussianChain) -> da.Verdict:
    return da.verify(target, 60, samplers=[Block()], with_power=False)


class InFloat32(TokenOracle):
    """The grid, answered in float32."""

    length, vocab_size = GRID.length, GRID.vocab_size

    def rows(self, tokens: Tensor) -> Tensor:
        return GRID.rows(tokens).float().log_softmax(-1)


@pytest.mark.parametrize("oracle", [GRID, InFloat32(), Transformer(torch.float32, split=True)])
@pytest.mark.parametrize("share", [0.03, 0.005])
def test_a_peek_fails(oracle: TokenOracle, share: float) -> None:
    assert failed(checked(Peeking(oracle, share))) == {"knows only what is drawn"}


@pytest.mark.parametrize("oracle", [GRID, InFloat32(), Transformer(torch.float32, split=True)])
def test_a_leak_fails(oracle: TokenOracle) -> None:
    assert "asked alone and in a batch" in failed(checked(Leaking(oracle, 0.006)))


def leaking_mean(share: float) -> GaussianChain:
    schedule = da.StochasticLocalization(24, delta=0.05)
    plain = Hypercube(4).denoiser(schedule)

    def model(x: Tensor, k: Tensor) -> Tensor:
        answer = plain(x, k)
        return (1 - share) * answer + share * answer.mean(0)

    return GaussianChain(model, schedule, (4,), dtype=torch.float64)


def test_a_denoiser_that_leaks_fails() -> None:
    for chain in (leaking_mean(0.006), denoiser(torch.float32, leak=0.006)):
        assert "asked alone and in a batch" in failed(checked(chain))
    assert checked(leaking_mean(0.0)).passed


def spreading(leak: float, deviation: float, size: float = 1.0) -> GaussianChain:
    """A denoiser that answers standard deviations, which grow with the mean of the batch; the plan's own are 0.3."""

    def model(x: Tensor, k: Tensor) -> Tensor:
        own = deviation * (1.2 + torch.sin(x)) * (1 + leak * torch.tanh(x.mean()))
        return torch.cat([size * torch.tanh(x), own**2], dim=1)

    return GaussianChain(model, Given(replace(plan(0.3), spread=LearnedVariance())), (2,), dtype=torch.float64)


@pytest.mark.parametrize("deviation", [0.01, 0.1, 1.0], ids=["far below the plan's", "below", "above"])
def test_a_variance_that_leaks_fails(deviation: float) -> None:
    """Also where it is so small beside what a step adds that the difference would hardly move it."""
    for size in (1.0, 1e6):
        assert "asked alone and in a batch" in failed(checked(spreading(0.5, deviation, size)))
    assert "asked alone and in a batch" in failed(checked(spreading(1e-3, deviation)))
    assert not failed(checked(spreading(0.0, deviation))) & {"asked twice", "asked alone and in a batch"}


@pytest.mark.parametrize("split", [False, True], ids=["as it is", "by the batch"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_networks_that_round_pass(dtype: torch.dtype, split: bool) -> None:
    verdict = da.verify(Transformer(dtype, split=split), 100, with_power=False)
    assert verdict.passed
    told = next(finding for finding in verdict.findings if finding.check == "asked alone and in a batch")
    assert told.difference is not None and told.allowed is not None
    assert "rounding" in told.words or not split
    # What is allowed is what the model has shown: little in float32, more in half precision.
    assert told.allowed < (1e-4 if dtype == torch.float32 else 0.11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_denoisers_that_round_pass(dtype: torch.dtype) -> None:
    assert da.verify(denoiser(dtype), 200, with_power=False).passed


def by_place(amount: float) -> TokenChain:
    """Answers that depend on the place in the batch, and on nothing else."""

    def rows(tokens: Tensor) -> Tensor:
        shift = amount * (torch.arange(len(tokens), dtype=torch.float64) % 5)[:, None, None]
        answer = GRID.rows(tokens)
        return torch.cat([answer[..., :1] + shift, answer[..., 1:]], dim=-1).log_softmax(-1)

    return TokenChain(rows, length=6, vocab_size=2)


def test_rounding_is_no_excuse_for_what_float64_does_not_do() -> None:
    assert da.verify(by_place(1e-5), 60, samplers=[Block()], with_power=False).passed
    verdict = da.verify(by_place(5e-3), 60, samplers=[Block()], with_power=False)
    assert "asked alone and in a batch" in failed(verdict) and "float64" in str(verdict)


def at_random(amount: float) -> TokenChain:
    """Answers with noise of their own, as dropout makes it."""
    generator = torch.Generator().manual_seed(0)

    def rows(tokens: Tensor) -> Tensor:
        answer = GRID.rows(tokens)
        return (answer + amount * torch.randn(answer.shape, generator=generator)).log_softmax(-1)

    return TokenChain(rows, length=6, vocab_size=2)


@pytest.mark.parametrize("amount", [0.01, 0.3])
def test_what_draws_at_random_is_not_said_to_round(amount: float) -> None:
    verdict = da.verify(at_random(amount), 300)
    assert "asked twice" in failed(verdict)
    assert "rounding decided" not in str(verdict) and "the model's own rounding" not in str(verdict)
    same = [finding for finding in verdict.findings if finding.check.endswith("draws what Sequential draws")]
    assert not same[0].passed and "does not answer the same question alike" in same[0].words


def test_the_precision_in_which_a_model_works_is_seen() -> None:
    network = torch.nn.Linear(3, 3).to(torch.bfloat16).requires_grad_(False)
    x = torch.ones(2, 3)

    def model() -> Tensor:
        return network(x.to(torch.bfloat16)).double()

    assert seen(model) == seen(torch.compile(model, backend="eager")) == torch.bfloat16
    assert seen(lambda: x.double() + 1) == seen(lambda: None) == torch.float64
    assert seen(lambda: x + 1) == torch.float32
    assert Rounding().unit == 2.0**-52 and Rounding().works_in == "float64"


def test_models_are_asked_no_more_at_a_time_than_is_said() -> None:
    most = 0

    def rows(tokens: Tensor) -> Tensor:
        nonlocal most
        most = max(most, len(tokens))
        return GRID.rows(tokens)

    da.verify(TokenChain(rows, length=6, vocab_size=2), 50, max_batch_size=5, samplers=[Coupled()], with_power=False)
    assert most == 5

    def model(x: Tensor, k: Tensor) -> Tensor:
        nonlocal most
        most = max(most, len(x))
        return torch.tanh(x)

    most = 0
    chain = GaussianChain(model, da.DDPM(da.schedules.linear_betas(5)), (2,))
    da.verify(chain, 50, max_batch_size=7, samplers=[Coupled()], with_power=False)
    assert most == 7
