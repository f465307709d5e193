"""Rounds of fixed shape draw what the round engine draws, count what they ask, and stop where it stops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import (
    Block,
    CountingDenoiser,
    CountingOracle,
    Coupled,
    GaussianChain,
    InputError,
    Report,
    Result,
    SamplingError,
    Sequential,
    TokenChain,
)
from drawahead.chains.base import Chain
from drawahead.executors import Local
from drawahead.oracles import HIDDEN, TokenOracle
from drawahead.samplers import Sampler
from drawahead.targets import DenseLogistic, GaussianMixture, GaussianTarget, Hypercube, MixtureOfProducts, TreeIsing
from tests.gaussian.reference import DESIGNED, MEAN, SCHEDULES, VARIANCES, Walk, whole

NAN = torch.nan


class Masked(TokenOracle):
    """An oracle by its one door, as a masked network has it: rows of known positions mean nothing."""

    def __init__(self, oracle: TokenOracle) -> None:
        self.oracle, self.length, self.vocab_size = oracle, oracle.length, oracle.vocab_size

    def rows(self, tokens: Tensor) -> Tensor:
        return self.oracle.rows(tokens).masked_fill((tokens != HIDDEN)[..., None], NAN)


class OnePass(Masked):
    """An oracle that answers along paths, and insists on being asked about hidden positions."""

    one_pass = True

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        assert bool((rank[row, position] >= prefix).all()), "only hidden positions are asked about"
        assert bool((prefix >= 0).all()) and bool((row.diff() >= 0).all())
        return self.oracle.chain_rows(tokens, rank, row, prefix, position)


def some_evidence(oracle: TokenOracle, rows: int, share: float = 0.5) -> Tensor:
    """Of every sample another part is known: nothing of sample 1, all of samples 0 and 4."""
    generator = torch.Generator().manual_seed(2)
    evidence = torch.randint(oracle.vocab_size, (rows, oracle.length), generator=generator)
    hidden = torch.rand(rows, oracle.length, generator=generator) < torch.rand(rows, 1, generator=generator) / share
    hidden[1], hidden[0], hidden[4] = True, False, False
    return torch.where(hidden, HIDDEN, evidence)


def tokens(oracle: TokenOracle, **options: Any) -> Callable[[], Chain]:
    return lambda: TokenChain(oracle, **options)


DENSE, MIXTURE, TREE = (
    DenseLogistic(14, beta=1.5),
    MixtureOfProducts.random(13, q=3),
    TreeIsing.random(12, coupling=1.0),
)
TOKENS: dict[str, Callable[[], Chain]] = {
    "one pass": tokens(DENSE),
    "one pass, three tokens": tokens(MIXTURE),
    "one pass, a network": tokens(OnePass(DENSE)),
    "masked": tokens(Masked(MIXTURE)),
    "masked, rereading": tokens(TREE),
    "an order": tokens(Masked(DENSE), order=torch.arange(14).flip(0)),
    "spread": tokens(OnePass(MIXTURE), order="spread"),
    "evidence": tokens(Masked(MIXTURE), evidence=some_evidence(MIXTURE, 10)),
    "evidence, one pass": tokens(OnePass(DENSE), evidence=some_evidence(DENSE, 10)),
    "the same evidence": tokens(TREE, evidence=[0, 1, HIDDEN, 1] * 3),
    "one hidden": tokens(Masked(MIXTURE), evidence=[0] * 12 + [HIDDEN]),
}
LINEAR = GaussianTarget(variances=VARIANCES, mean=MEAN)
KNOWN = torch.full((10, 2, 2), NAN, dtype=torch.float64)
KNOWN[1, 0, 1], KNOWN[2], KNOWN[7, 1] = 0.3, torch.arange(4).view(2, 2), -0.5
STARTS = torch.randn(10, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2


def steep(x: Tensor, k: Tensor) -> Tensor:
    return 0.8 * x + torch.tanh(x.roll(1, -1))


GAUSSIANS: dict[str, Callable[[], Chain]] = {
    "linear, ddpm": lambda: whole(LINEAR, SCHEDULES["ddpm"]),
    "linear, euler": lambda: whole(LINEAR, SCHEDULES["euler"]),
    "cube": lambda: GaussianChain(Hypercube(5), da.StochasticLocalization(40, delta=0.02)),
    "modes": lambda: GaussianChain(
        GaussianMixture.random(3, components=5), da.StochasticLocalization(24), record=[20, 3]
    ),
    "steep": lambda: DESIGNED["steep"],
    "known": lambda: GaussianChain(steep, SCHEDULES["euler"], (2, 2), known=KNOWN, dtype=torch.float64, record=[2, 4]),
    "known, the same": lambda: GaussianChain(
        LINEAR, SCHEDULES["localization"], known=torch.tensor([NAN, 0.8], dtype=torch.float64)
    ),
    "start": lambda: GaussianChain(steep, Walk((0.5,) * 9), (3,), start=STARTS, dtype=torch.float64),
    "the same start": lambda: GaussianChain(steep, Walk((0.5,) * 9), (3,), start=STARTS[0], dtype=torch.float64),
    "deterministic steps": lambda: GaussianChain(
        steep, Walk((1.0, 0.8, 0.0, 0.5, 0.0, 0.0, 0.7, 1.0)), (3,), dtype=torch.float64, record=[3, 4, 7]
    ),
    "nothing random": lambda: GaussianChain(steep, Walk((0.0, 0.0, 0.0)), (3,), start=STARTS, dtype=torch.float64),
    "single precision": lambda: GaussianChain(lambda x, k: torch.tanh(x), SCHEDULES["ddpm"], (3,)),
    "one step": lambda: GaussianChain(steep, Walk((1.0,)), (3,), dtype=torch.float64),
}
SAMPLERS: list[Sampler] = [Sequential(), Coupled(1), Coupled(3), Coupled(1000)]
PLAIN: list[Sampler] = [Coupled(3, secant=False), Coupled(1000, secant=False)]
TOGETHER: list[tuple[Sampler, int]] = [*((sampler, 10) for sampler in SAMPLERS), (Coupled(3), 4), (Coupled(5), 1)]
"""With how many samples at a time."""


def both(make: Callable[[], Chain], sampler: Sampler, num_samples: int, **options: Any) -> tuple[Result, Result]:
    """In rounds of fixed shape, and by the engine."""
    one, other = (
        da.sample(make(), num_samples, sampler=sampler, seed=3, graphs=graphs, **options) for graphs in (True, False)
    )
    return one, other


def assert_same_run(one: Report, other: Report) -> None:
    """All that does not depend on who draws beside whom."""
    for name in (
        "sampler",
        "exact",
        "seed",
        "num_samples",
        "steps",
        "drafted",
        "accepted",
        "sample_rounds",
        "progress",
    ):
        assert getattr(one, name) == getattr(other, name), name
    assert sum(one.committed) == sum(other.committed)
    assert len(one.widths) == len(one.committed) == one.rounds and sum(one.widths) == one.queries
    assert 0 < one.oracle_seconds <= one.seconds and one.choice == "" and one.probes == 0


@pytest.mark.parametrize(("sampler", "live"), TOGETHER, ids=str)
@pytest.mark.parametrize("name", TOKENS)
def test_the_tokens_of_the_engine(name: str, sampler: Sampler, live: int) -> None:
    one, other = both(TOKENS[name], sampler, 10, max_live=live)
    assert torch.equal(one.samples, other.samples) and torch.equal(one.numbers, other.numbers)
    assert_same_run(one.report, other.report)
    if live == 10:
        assert (one.report.rounds, one.report.committed) == (other.report.rounds, other.report.committed)


@pytest.mark.parametrize(("sampler", "live"), [*TOGETHER[:-1], *((sampler, 10) for sampler in PLAIN)], ids=str)
@pytest.mark.parametrize("name", GAUSSIANS)
def test_the_vectors_of_the_engine(name: str, sampler: Sampler, live: int) -> None:
    one, other = both(GAUSSIANS[name], sampler, 10, max_live=live)
    assert one.samples.dtype == other.samples.dtype and one.samples.shape == other.samples.shape
    tolerance = 1e-9 if one.samples.dtype == torch.float64 else 1e-4
    assert torch.allclose(one.samples, other.samples, rtol=tolerance, atol=tolerance)
    assert_same_run(one.report, other.report)
    if live == 10:
        assert (one.report.rounds, one.report.committed) == (other.report.rounds, other.report.committed)


@pytest.mark.parametrize("name", ["one pass, a network", "spread"])
def test_a_whole_path_at_once(name: str) -> None:
    """Without a window, where one pass answers a path."""
    one, other = both(TOKENS[name], Coupled(), 10)
    assert torch.equal(one.samples, other.samples)
    assert one.report.sample_rounds == other.report.sample_rounds
    assert one.report.passes == 10 * one.report.rounds and one.report.rounds < one.report.steps


@pytest.mark.parametrize("chain", [TOKENS["masked"], GAUSSIANS["steep"], GAUSSIANS["cube"]])
def test_giving_up_at_the_same_round(chain: Callable[[], Chain]) -> None:
    one, other = both(chain, Coupled(3, least=1e9), 6)
    assert torch.allclose(one.samples.double(), other.samples.double(), rtol=1e-9, atol=1e-9)
    assert one.report.sample_rounds == other.report.sample_rounds
    assert set(one.report.widths[6:]) <= {6} and max(one.report.widths[:6]) == 6 * 4


@pytest.mark.parametrize("sampler", [Coupled(3), Coupled(3, least=1.7)], ids=repr)
def test_rows_that_end_early_and_give_up(sampler: Sampler) -> None:
    """Evidence makes rows of different lengths; whenever speculation stops or starts again, tokens are Sequential's."""
    oracle = Masked(DenseLogistic(40, beta=3.0))
    chain = TokenChain(oracle, evidence=some_evidence(oracle, 12, share=0.9))
    one = da.sample(chain, 12, sampler=sampler, seed=0, graphs=True).samples
    assert torch.equal(one, da.sample(chain, 12, sampler=Sequential(), seed=0).samples)


# What is counted


@pytest.mark.parametrize(("sampler", "live"), TOGETHER[:-1], ids=str)
@pytest.mark.parametrize("name", ["one pass", "masked", "masked, rereading", "evidence", "evidence, one pass"])
def test_the_report_counts_what_the_oracle_saw(name: str, sampler: Sampler, live: int) -> None:
    chain = TOKENS[name]()
    assert isinstance(chain, TokenChain)
    counting = chain.oracle = CountingOracle(chain.oracle)
    report = da.sample(chain, 10, sampler=sampler, seed=0, graphs=True, max_live=live).report
    assert (report.rounds, report.queries, report.passes) == (counting.calls, counting.queries, counting.passes)
    assert report.rereads == counting.rereadings == 0
    assert report.passes <= report.queries and (counting.one_pass or report.passes == report.queries)
    assert 0 <= report.accepted <= report.drafted
    if isinstance(sampler, Sequential):
        rows = 8 if "evidence" in name else 10  # two have nothing to draw
        assert report.drafted == 0 and set(report.widths) == {rows}


@pytest.mark.parametrize(("sampler", "live"), TOGETHER[:-1], ids=str)
def test_the_report_counts_what_the_denoiser_saw(sampler: Sampler, live: int) -> None:
    schedule = SCHEDULES["euler"]
    counting = CountingDenoiser(LINEAR.denoiser(schedule))
    chain = GaussianChain(counting, schedule, (2,), dtype=torch.float64)
    report = da.sample(chain, 10, sampler=sampler, seed=0, graphs=True, max_live=live).report
    assert (report.rounds, report.queries, report.passes) == (counting.calls, counting.queries, counting.queries)
    assert sum(report.committed) == 10 * 6


def test_padding_is_saved_at_the_end() -> None:
    """The last rounds are narrower than the window, if less is left."""
    report = da.sample(Masked(DenseLogistic(60, beta=3.0)), 2, sampler=Coupled(16), seed=0, graphs=True).report
    assert report.widths[0] == 2 and max(report.widths) == 2 * 17 and report.widths[-1] < 2 * 17


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_rows_with_nothing_hidden(sampler: Sampler) -> None:
    counting = CountingOracle(DenseLogistic(4))
    result = da.sample(TokenChain(counting, evidence=[0, 0, 1, 1]), 3, sampler=sampler, seed=0, graphs=True)
    assert result.samples.tolist() == [[0, 0, 1, 1]] * 3 and result.report.sample_rounds == (0, 0, 0)
    assert result.report.rounds == counting.calls == 0
    evidence = torch.tensor([[0, 1, 1, 0], [HIDDEN, 1, 0, HIDDEN]])
    some = da.sample(TokenChain(DenseLogistic(4), evidence=evidence), 2, sampler=sampler, seed=0, graphs=True)
    assert some.samples[0].tolist() == [0, 1, 1, 0] and some.report.sample_rounds[0] == 0 < some.report.rounds


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_on_round_sees_the_report_so_far(sampler: Sampler) -> None:
    reports: list[Report] = []
    result = da.sample(DENSE, 7, sampler=sampler, seed=0, max_live=3, graphs=True, on_round=reports.append)
    assert [report.rounds for report in reports] == list(range(1, result.report.rounds + 1))
    done = [report.num_samples for report in reports]
    assert done == sorted(done) and done[-1] == 7 and all(len(r.sample_rounds) == r.num_samples for r in reports)
    assert reports[-1].widths == result.report.widths


def test_a_caller_may_stop_it() -> None:
    def stop(report: Report) -> None:
        if report.num_samples >= 3:
            raise KeyError("enough")

    with pytest.raises(SamplingError, match="enough") as caught:
        da.sample(DENSE, 9, sampler=Coupled(4), seed=0, max_live=3, graphs=True, on_round=stop)
    result = caught.value.result
    assert result.numbers.tolist() == [0, 1, 2]
    assert torch.equal(result.samples, da.sample(DENSE, 3, sampler=Sequential(), seed=0).samples)


def test_a_caller_may_draw_from_the_same_model_meanwhile() -> None:
    def draw(report: Report) -> None:
        da.sample(oracle, 3, sampler=Coupled(4), seed=9, graphs=True)

    oracle = DenseLogistic(14, beta=1.5)
    within = da.sample(oracle, 3, sampler=Coupled(4), seed=0, graphs=True, on_round=draw).samples
    assert torch.equal(within, da.sample(DenseLogistic(14, beta=1.5), 3, sampler=Sequential(), seed=0).samples)


# What is remembered


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("make", [lambda: DenseLogistic(14, beta=1.5), lambda: Masked(MIXTURE), GAUSSIANS["cube"]])
def test_a_batch_is_used_again(make: Callable[[], Any], sampler: Sampler) -> None:
    home = make()
    first = da.sample(home, 5, sampler=sampler, seed=0, graphs=True).samples
    (batch,) = home._fixed_batches.values()
    other = da.sample(home, 5, sampler=sampler, seed=1, graphs=True).samples
    again = da.sample(home, 5, sampler=sampler, seed=0, graphs=True).samples
    assert list(home._fixed_batches.values()) == [batch]
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(other, da.sample(make(), 5, sampler=sampler, seed=1, graphs=True).samples)


def test_a_batch_is_used_again_for_another_chain_on_the_same_oracle() -> None:
    oracle = Masked(MIXTURE)
    evidence = some_evidence(oracle, 10)
    known = [{"evidence": evidence}, {"evidence": [0] * 13}]
    for options in ({}, *known, {"order": "spread"}, {"order": range(13)}, {}):
        chain = TokenChain(oracle, **options)  # type: ignore[arg-type]
        one = da.sample(chain, 10, sampler=Coupled(4), seed=1, graphs=True).samples
        assert torch.equal(one, da.sample(chain, 10, sampler=Sequential(), seed=1).samples), options
    assert sorted(rows for rows, _, _ in oracle.__dict__["_fixed_batches"]) == [8, 10]


def test_a_batch_with_known_entries_is_used_again() -> None:
    chain = GAUSSIANS["known"]()
    first = da.sample(chain, 10, sampler=Coupled(4), seed=0, graphs=True).samples
    da.sample(chain, 10, sampler=Coupled(4), seed=1, graphs=True)
    assert torch.equal(da.sample(chain, 10, sampler=Coupled(4), seed=0, graphs=True).samples, first)
    part = da.sample(chain, 10, sampler=Coupled(4), seed=0, graphs=True, max_live=5).samples
    assert torch.allclose(part, first, rtol=1e-12, atol=1e-12)


def test_few_batches_are_kept() -> None:
    chain = GAUSSIANS["cube"]()
    for window in range(1, 9):
        da.sample(chain, 3, sampler=Coupled(window), seed=0, graphs=True)
        da.sample(chain, 3, sampler=Coupled(window, secant=False), seed=0, graphs=True)
    assert len(chain.__dict__["_fixed_batches"]) == 4


def test_a_batch_goes_on_after_a_bad_answer() -> None:
    """What was remembered from a run that failed does no harm to the next."""
    broken = True

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return torch.full_like(x, NAN) if broken and bool((k == 5).any()) else steep(x, k)

    chain = GaussianChain(denoiser, Walk((0.5,) * 9), (3,), dtype=torch.float64)
    with pytest.raises(SamplingError):
        da.sample(chain, 4, sampler=Coupled(3), seed=0, graphs=True)
    broken = False
    one, other = (da.sample(chain, 4, sampler=Coupled(3), seed=0, graphs=graphs).samples for graphs in (True, False))
    assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)


# Bad answers


@pytest.mark.parametrize("bad", [NAN, torch.inf])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_a_prediction_that_is_no_number_stops_the_run(sampler: Sampler, bad: float) -> None:
    """Sample 3 starts at 100 and stays there: at step 2 its prediction is bad. Those before it are kept."""

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return torch.where(((k == 2) & (x[:, 0] > 50))[:, None], bad, x / 10)

    start = torch.zeros(6, 2)
    start[3] = 100
    chain = GaussianChain(denoiser, Walk((0.1,) * 5), (2,), start=start)
    with pytest.raises(SamplingError, match="not finite or not normalised; draw with graphs=False") as caught:
        da.sample(chain, 6, sampler=sampler, seed=0, max_live=2, graphs=True)
    result = caught.value.result
    assert result.numbers.tolist() == [0, 1] and result.samples.isfinite().all()
    assert result.report.num_samples == 2 and "2 of 6 samples finished" in str(caught.value)


@pytest.mark.parametrize("wrap", [Masked, OnePass])
@pytest.mark.parametrize("change", [lambda rows: rows + 0.1, lambda rows: rows.exp(), lambda rows: rows * NAN])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_rows_that_are_no_law_stop_the_run(
    sampler: Sampler, change: Callable[[Tensor], Tensor], wrap: type[Masked]
) -> None:
    """Tokens drawn before are kept: what is bad is bad from the third batch on."""

    class Wrong(wrap):  # type: ignore[misc,valid-type]
        def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
            return self.change(super().rows_at(tokens, context, position))

        def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
            return self.change(super().chain_rows(tokens, rank, row, prefix, position))

        def change(self, rows: Tensor) -> Tensor:
            return change(rows) if good.num_samples >= 4 else rows

    good = da.sample(DENSE, 1, sampler=Sequential()).report
    good = dataclasses.replace(good, num_samples=0)

    def note(report: Report) -> None:
        nonlocal good
        good = report

    with pytest.raises(SamplingError, match="not finite or not normalised") as caught:
        da.sample(Wrong(DENSE), 6, sampler=sampler, seed=0, max_live=2, graphs=True, on_round=note)
    result = caught.value.result
    assert result.numbers.tolist() == [0, 1, 2, 3]
    assert torch.equal(result.samples, da.sample(DENSE, 4, sampler=Sequential(), seed=0).samples)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_no_sample_is_made_of_bad_answers(sampler: Sampler) -> None:
    """A short row whose answer is bad never counts as finished, though others go on for longer."""
    evidence = torch.full((3, 8), HIDDEN)
    evidence[1, :5] = 0

    def rows(tokens: Tensor) -> Tensor:
        short = (tokens[:, :5] == 0).all(1) & ((tokens != HIDDEN).sum(1) == 6)
        return MixtureOfProducts.random(8, q=3).rows(tokens).masked_fill(short[:, None, None], NAN)

    chain = TokenChain(rows, length=8, vocab_size=3, evidence=evidence)
    with pytest.raises(SamplingError) as caught:
        da.sample(chain, 3, sampler=sampler, seed=0, graphs=True)
    assert 1 not in caught.value.result.numbers.tolist()


# What is refused


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (DENSE, {"sampler": Block()}, "graphs=True needs Sequential, or Coupled with a window"),
    (Masked(DENSE), {"sampler": Coupled()}, "graphs=True needs"),
    (GAUSSIANS["cube"](), {"sampler": Coupled()}, "graphs=True needs"),
    (GAUSSIANS["cube"](), {"sampler": da.Picard(window=3)}, "graphs=True needs"),
    (DENSE, {"sampler": Coupled(3), "max_batch_size": 4}, "not split"),
    (DENSE, {"sampler": Coupled(3), "executor": Local()}, "not split"),
    (DENSE, {"max_batch_size": 4}, "not split"),
]


@pytest.mark.parametrize(("target", "options", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_have_a_fixed_shape_is_refused(target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        da.sample(target, 2, graphs=True, **options)


def test_on_a_cpu_rounds_have_no_fixed_shape_unless_asked() -> None:
    oracle = DenseLogistic(14)
    da.sample(oracle, 2, sampler=Coupled(3), seed=0)
    assert "_fixed_batches" not in oracle.__dict__
    da.sample(oracle, 2, sampler=Coupled(3), seed=0, graphs=False)
    assert "_fixed_batches" not in oracle.__dict__


def test_seeds_differ_and_the_number_of_samples_changes_nothing() -> None:
    seeds = [0, 1, 2**40 + 1, 2**63 - 1]
    drawn = [da.sample(DENSE, 9, sampler=Coupled(4), seed=seed, graphs=True).samples for seed in seeds]
    assert len({tuple(samples.flatten().tolist()) for samples in drawn}) == len(seeds)
    for number, live in ((9, 2), (4, 4), (1, 1)):
        part = da.sample(DENSE, number, sampler=Coupled(4), seed=0, max_live=live, graphs=True).samples
        assert torch.equal(part, drawn[0][:number])
