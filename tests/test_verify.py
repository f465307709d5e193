"""`verify`: sound models pass; broken models and broken samplers fail, each for its own reason."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, TokenChain, TokenOracle
from drawahead.cli.app import run
from drawahead.errors import InputError
from drawahead.oracles.tokens import WrappedOracle
from drawahead.samplers import Sampler
from drawahead.targets import Hypercube
from tests import mutants as token_mutants
from tests.gaussian import mutants as gaussian_mutants
from tests.gaussian.reference import DESIGNED as PATHS
from tests.gaussian.reference import NONLINEAR, linear_chain
from tests.instances import DESIGNED, SMALL
from tests.verification.broken import GRID, Leaking, failed


def of_samples(sampler: Sampler) -> set[str]:
    return {f"{what} of {sampler!r}" for what in ("steps", "samples", "fixed steps")}


@pytest.mark.parametrize("name", ["ising", "urns", "dense"])
def test_sound_oracles_pass(name: str) -> None:
    verdict = da.verify(SMALL[name], 400)
    assert verdict.passed and "PASSED" in str(verdict)
    assert len([finding for finding in verdict.findings if finding.p_value is not None]) == 5
    json.dumps(verdict.to_dict())


def test_a_sound_diffusion_passes() -> None:
    assert da.verify(GaussianChain(Hypercube(4), da.StochasticLocalization(24, delta=0.05)), 400).passed


def instance(mutant: token_mutants.Mutant) -> TokenChain | TokenOracle:
    return DESIGNED[mutant.instance] if mutant.instance in DESIGNED else SMALL[mutant.instance]


# One of each kind of mistake; tests/test_mutants.py has all of them against the law tests.
QUICK_TOKENS = ("SameNoiseTwice", "WrongRatio", "OffByOne", "RedrawnDisagreement", "FirstToFinish", "FlippedJudge")


@pytest.mark.parametrize(
    "mutant",
    [
        mutant if type(mutant.sampler).__name__ in QUICK_TOKENS else pytest.param(mutant, marks=pytest.mark.slow)
        for mutant in token_mutants.MUTANTS
    ],
    ids=lambda mutant: type(mutant.sampler).__name__,
)
def test_broken_samplers_of_tokens_are_caught(mutant: token_mutants.Mutant) -> None:
    draws = mutant.draws * (5 if type(mutant.sampler).__name__ in QUICK_TOKENS else 20) // 8
    verdict = da.verify(instance(mutant), draws, samplers=[mutant.sampler], with_power=False)
    assert failed(verdict) and failed(verdict) <= of_samples(mutant.sampler)


# One of each sampler, and those that only steps show.
QUICK = ("RatioOfOne", "BlockRatioOfOne", "MirrorSign", "StaleNoise", "LateSecant", "Picard")


@pytest.mark.parametrize(
    "mutant",
    [
        mutant if type(mutant.sampler).__name__ in QUICK else pytest.param(mutant, marks=pytest.mark.slow)
        for mutant in gaussian_mutants.MUTANTS
    ],
    ids=lambda mutant: f"{type(mutant.sampler).__name__}, {mutant.chain}",
)
def test_broken_samplers_of_diffusions_are_caught(mutant: gaussian_mutants.Mutant) -> None:
    known = {**PATHS, **NONLINEAR}
    chain = known[mutant.chain] if mutant.chain in known else linear_chain(mutant.chain)
    draws = mutant.draws // 2 if type(mutant.sampler).__name__ in QUICK else 2 * mutant.draws
    verdict = da.verify(chain, draws, samplers=[mutant.sampler], with_power=False)
    assert failed(verdict) and failed(verdict) <= of_samples(mutant.sampler)


class Broken(WrappedOracle):
    """Looks like the grid, and is not."""

    def __init__(self) -> None:
        super().__init__(GRID)

    def rows(self, tokens: Tensor) -> Tensor:
        return self.oracle.rows(tokens)


class Dropout(Broken):
    """Answers at random, as a network in training mode does."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def rows(self, tokens: Tensor) -> Tensor:
        rows = self.oracle.rows(tokens)
        return (rows + 0.3 * torch.randn(rows.shape, generator=self.generator)).log_softmax(-1)


class SeesTheGuess(Broken):
    """Its door for paths forgets to hide what is not drawn."""

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        shown = tokens[row].clone()
        shown[torch.arange(len(row)), position] = da.HIDDEN
        return self.oracle.rows(shown)[torch.arange(len(row)), position]


class AnotherDoor(Broken):
    """Its door for single rows has another temperature."""

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return (0.7 * self.oracle.rows_at(tokens, context, position)).log_softmax(-1)


@pytest.mark.parametrize(
    ("oracle", "check"),
    [
        (Dropout(), "asked twice"),
        (Leaking(GRID, 0.5), "asked alone and in a batch"),
        (SeesTheGuess(), "knows only what is drawn"),
        (AnotherDoor(), "rows, rows_at and chain_rows agree"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, TokenOracle) else "",
)
def test_broken_oracles_are_caught(oracle: TokenOracle, check: str) -> None:
    verdict = da.verify(oracle, 100, samplers=[Coupled()])
    assert check in failed(verdict) and not verdict.passed
    assert check in verdict.words and check in str(verdict)


def test_a_denoiser_that_draws_is_caught() -> None:
    generator = torch.Generator().manual_seed(0)
    chain = GaussianChain(
        lambda x, k: x + torch.randn(x.shape, generator=generator), da.DDPM(da.schedules.linear_betas(20)), (3,)
    )
    assert "asked twice" in failed(da.verify(chain, 100, samplers=[Block()]))


def test_rounding_is_told_and_is_no_failure() -> None:
    def single(tokens: Tensor) -> Tensor:
        jitter = 1e-5 * torch.arange(len(tokens), dtype=torch.float64)[:, None, None] % 7e-5
        rows = GRID.rows(tokens)
        return torch.cat([rows[..., :1] + jitter, rows[..., 1:]], dim=-1).log_softmax(-1)

    verdict = da.verify(da.FunctionOracle(single, 6, 2), 200)
    assert verdict.passed
    finding = next(finding for finding in verdict.findings if finding.check == "asked alone and in a batch")
    assert finding.difference is not None and 1e-7 < finding.difference < 1e-3 and "rounding" in finding.words


def test_power_is_found_by_spoiling_samples() -> None:
    few, many = (da.verify(GRID, number).power["samples"] for number in (100, 2000))
    way = "wrong tokens"
    assert many[way] is not None and many[way] <= 0.125
    assert few[way] is None or few[way] > many[way]
    independent = da.targets.Product.random(6)
    assert da.verify(independent, 300).power["samples"]["tokens drawn without regard to the others"] is None


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"num_samples": 49}, "num_samples must be at least 50, not 49: with fewer samples the tests could not tell"),
        ({"num_samples": 100.0}, "whole number"),
        ({"level": 0.0}, "level must be between 0 and 1"),
        ({"samplers": []}, "one or more samplers"),
        ({"samplers": ["copuled"]}, "copuled"),
    ],
)
def test_inputs_that_are_refused_before_anything_is_drawn(bad: dict[str, object], words: str) -> None:
    def unasked(tokens: Tensor) -> Tensor:
        raise AssertionError("the model was asked")

    with pytest.raises(InputError, match=words):
        da.verify(da.FunctionOracle(unasked, 6, 2), **bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("chain", [TokenChain(GRID), GaussianChain(Hypercube(4), da.StochasticLocalization(8))])
def test_runners_of_its_own_draw_and_are_closed(chain: da.Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """What verifying captures is not left behind: neither in the chain's own runner nor in another."""
    runners: list[da.Runner] = []
    views: list[tuple[da.Runner, da.Runner]] = []
    begun, number = da.Runner.__init__, 1 + isinstance(chain, GaussianChain)  # recorded states are another chain's
    own_using = da.Runner.using

    def counted(runner: da.Runner, *args: object, **options: object) -> None:
        begun(runner, *args, **options)  # type: ignore[arg-type]
        runners.append(runner)

    def using(runner: da.Runner, **options: Any) -> da.Runner:
        views.append((runner, own_using(runner, **options)))
        return views[-1][1]

    monkeypatch.setattr(da.Runner, "__init__", counted)
    monkeypatch.setattr(da.Runner, "using", using)
    own = importlib.import_module("drawahead.sample")
    monkeypatch.setattr(own, "own_runner", lambda *_, **__: pytest.fail("drawn with the chain's own runner"))
    assert da.verify(chain, 50, with_power=False).passed
    assert len(runners) == number and runners[0].chain is chain
    for runner in runners:
        assert any(view.report is not None for made_from, view in views if made_from is runner)
        with pytest.raises(InputError, match="closed"):
            runner.sample(1)


OWN = """
import drawahead as da
from tests.test_verify import SeesTheGuess
good = da.targets.Ising(2, 3)
number = 7
def make(): return da.targets.Pairs(4)
def bad(): return SeesTheGuess()
def fails(): raise ValueError("no weights")
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "own_models.py").write_text(OWN)
    return str(tmp_path / "own_models.py")


def test_the_command(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("good", "make"):
        assert run(["verify", f"{file}:{name}", "--num", "100"]) == 0
        assert "PASSED" in capsys.readouterr().out
    assert run(["verify", f"{file}:bad", "--num", "100", "--json"]) == 3
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["passed"] is False and any(not finding["passed"] for finding in verdict["findings"])
    assert run(["verify", "drawahead.targets:Pairs.random", "--num", "100"]) == 1
    assert run(["verify", "ising", "--num", "100", "--sampler", "stepwise", "--window", "3", "--quiet"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("number", "not an oracle"),
        ("missing", "has no 'missing'"),
        ("fails", "no weights"),
    ],
)
def test_what_is_no_model(name: str, words: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", f"{file}:{name}"]) == 1
    assert words in capsys.readouterr().err


def test_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(tmp_path)]) == 1
    assert "config.json" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{}")
    assert run(["verify", str(tmp_path)]) == 1
    assert "cannot be loaded" in capsys.readouterr().err
    assert run(["verify", "no.such.module:thing"]) == 1
    assert "cannot be imported" in capsys.readouterr().err
