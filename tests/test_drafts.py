"""Drafts round by round: each is counted in the round that judged it, whoever drafted it and whoever counts."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

import drawahead as da
from drawahead import (
    Block,
    Coupled,
    GaussianChain,
    Picard,
    Recursive,
    Report,
    Separated,
    Sequential,
    TokenChain,
)
from drawahead.counting.matchings import planar as matchings
from drawahead.oracles.tokens import TokenOracle
from drawahead.samplers import Sampler
from drawahead.targets import DenseLogistic, GaussianTarget, MixtureOfProducts, TreeIsing
from tests.gaussian.reference import MEAN, SCHEDULES, VARIANCES, Walk
from tests.instances import PLAIN, VARIANTS

STEPS = (1.0, 0.8, 0.0, 0.5, 0.0, 0.0, 0.7, 1.0)
CHAINS: dict[str, Any] = {
    "masked": lambda: TokenChain(TreeIsing.random(12)),
    "one pass": lambda: TokenChain(DenseLogistic(12, beta=1.5)),
    "evidence": lambda: TokenChain(MixtureOfProducts.random(9, q=3), evidence=[0, da.HIDDEN, da.HIDDEN] * 3),
    "gaussian": lambda: GaussianChain(GaussianTarget(variances=VARIANCES, mean=MEAN), SCHEDULES["euler"]),
    "deterministic steps": lambda: GaussianChain(lambda x, k: torch.tanh(x), Walk(STEPS), (3,), dtype=torch.float64),
}
PAIRS = [(sampler, name) for name in CHAINS for sampler in (VARIANTS if name == "masked" else PLAIN)]
PAIRS += [(Recursive(growth="paper"), name) for name in ("one pass", "evidence")]
PAIRS += [(sampler, name) for name in ("gaussian", "deterministic steps") for sampler in (Picard(), Picard(window=3))]
PAIRS += [(sampler, "gaussian") for sampler in (Coupled(2), Block(2, pipelined=False))]


def adds_up(report: Report) -> None:
    """What holds of every report, finished or not."""
    assert len(report.drafts) == len(report.kept) == len(report.widths) == len(report.committed) == report.rounds
    assert (sum(report.drafts), sum(report.kept)) == (report.drafted, report.accepted)
    assert all(0 <= kept <= drafts for drafts, kept in zip(report.drafts, report.kept, strict=True))


def live(report: Report) -> list[int]:
    """How many samples were under way in each round, where all began in the first."""
    return [sum(taken > i for taken in report.sample_rounds) for i in range(report.rounds)]


def plus(one: tuple[int, ...], other: list[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("sampler", "name"), PAIRS, ids=str)
def test_drafts_are_counted_in_the_round_that_judged_them(sampler: Sampler, name: str) -> None:
    report = da.sample(CHAINS[name](), 7, sampler=sampler, seed=0).report
    adds_up(report)
    assert report.drafts[0] == 0  # there is nothing to draft from
    if isinstance(sampler, Recursive):
        for drafts, width in zip(report.drafts, report.widths, strict=True):
            assert drafts <= 2 * width  # a segment of s steps asks s or s - 1 questions, in the round that judges it
        if sampler.growth == "paper" and name in ("masked", "one pass", "evidence"):  # every sample is one segment
            assert (report.drafts[1], report.widths[1]) == (7 * report.steps, 7 * (report.steps - 1))
    else:  # a row asks about each of its drafts and about one step more, and commits one step more than it keeps
        assert report.widths == plus(report.drafts, live(report))
        assert report.committed == plus(report.kept, live(report))


@pytest.mark.parametrize("inner", [Sequential(), Coupled(), Block(), Block(pipelined=False), Recursive()], ids=repr)
def test_the_drafts_of_pieces(inner: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    target = da.tilings.dominoes("square", 6)
    whole = da.sample(target, 4, sampler=Separated(inner), seed=0).report
    adds_up(whole)
    if not isinstance(inner, Recursive):  # one piece: as above
        assert whole.widths == plus(whole.drafts, live(whole))
    monkeypatch.setattr(matchings, "LEAF", 3)  # cut it, several levels deep
    monkeypatch.setattr(matchings, "CUTS", 1)
    seen: list[Report] = []
    report = da.sample(target, 4, sampler=Separated(inner), seed=0, on_round=seen.append).report
    adds_up(report)
    most = 2 if isinstance(inner, Recursive) else 1
    assert all(drafts <= most * width for drafts, width in zip(report.drafts, report.widths, strict=True))
    # Counted at once, not when the piece is done: so a run that is stopped has counted what it judged.
    assert [part.drafted for part in seen] == [sum(report.drafts[: i + 1]) for i in range(report.rounds)]
    assert (report.drafts[1] > 0) == (not isinstance(inner, Sequential))
    assert sum(report.committed) == sum(whole.committed) == 4 * 36


@pytest.mark.usefixtures("clock")
def test_what_auto_draws_is_counted() -> None:
    """Whatever it chooses: the rounds it timed are probes, and in no list of rounds."""

    class Busy(TokenOracle):
        length, vocab_size = 48, 2

        def rows(self, tokens: torch.Tensor) -> torch.Tensor:
            time.sleep(2e-3 * len(tokens))
            return torch.zeros(*tokens.shape, 2).log_softmax(-1)

    report = da.sample(Busy(), 5, seed=0).report
    assert report.sampler == "Sequential()" and report.rounds == 48 and report.probes > 0
    adds_up(report)
    adds_up(da.sample(DenseLogistic(40), 5, seed=0).report)


WRONG = {
    "missing drafts": lambda plain: plain.pop("drafts"),
    "missing kept": lambda plain: plain.pop("kept"),
    "no list": lambda plain: plain.update(kept=3),
    "negative": lambda plain: plain["drafts"].__setitem__(0, -1),
    "a fraction": lambda plain: plain["drafts"].__setitem__(0, 0.0),
    "a round more": lambda plain: plain["drafts"].append(0),
    "a round less": lambda plain: plain["kept"].pop(),
    "another sum": lambda plain: plain["drafts"].__setitem__(0, 1),
    "more kept than drafted": lambda plain: plain.update(kept=plain["kept"][::-1]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_dict_that_does_not_add_up_is_refused(wrong: str) -> None:
    report = da.sample(DenseLogistic(12), 3, sampler=Block(), seed=0).report
    plain = report.to_dict()
    again = Report.from_dict(plain)
    assert again == report and (again.drafts, again.kept) == (report.drafts, report.kept) and report.kept[-1]
    WRONG[wrong](plain)
    with pytest.raises(da.InputError, match=r"(of )?a report must"):
        Report.from_dict(plain)
