"""What a report says was asked is what a counting oracle saw; and what it says of the run is so."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, CountingOracle, Coupled, Recursive, Report, Sequential, Stepwise, TokenChain
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.samplers import Sampler
from drawahead.targets import DenseLogistic, MixtureOfProducts, Pairs, Product, Table, TreeIsing
from tests.instances import PLAIN, crossed


class Network(TokenOracle):
    """A masked model with one door, which notes the shape of every call."""

    def __init__(self, oracle: TokenOracle) -> None:
        self.oracle, self.length, self.vocab_size = oracle, oracle.length, oracle.vocab_size
        self.sizes: list[int] = []

    def rows(self, tokens: Tensor) -> Tensor:
        self.sizes.append(len(tokens))
        return self.oracle.rows(tokens)


ORACLES = {
    "masked": lambda: Network(MixtureOfProducts.random(12, q=3)),
    "masked, a formula": lambda: TreeIsing.random(12),
    "one pass": lambda: DenseLogistic(12, beta=1.5),
    "one pass, points": lambda: Pairs(12),
}


def run(
    oracle: TokenOracle, sampler: Sampler, num_samples: int = 12, **options: object
) -> tuple[Report, CountingOracle]:
    counting = CountingOracle(oracle)
    report = da.sample(counting, num_samples, sampler=sampler, **{"seed": 0, **options}).report  # type: ignore[arg-type]
    return report, counting


@pytest.mark.parametrize(("door", "sampler"), crossed(ORACLES), ids=str)
def test_the_report_counts_what_the_oracle_saw(door: str, sampler: Sampler) -> None:
    report, counting = run(ORACLES[door](), sampler)
    assert (report.rounds, report.queries, report.passes) == (counting.calls, counting.queries, counting.passes)
    assert report.queries == sum(report.widths) and len(report.widths) == len(report.committed) == report.rounds
    assert report.passes <= report.queries and (counting.one_pass or report.passes == report.queries)
    assert sum(report.committed) == 12 * 12 and all(width > 0 for width in report.widths)
    assert report.num_samples == 12 == len(report.sample_rounds) and report.steps == 12
    assert max(report.sample_rounds) == report.rounds  # all began in the first
    assert report.mean_rounds == sum(report.sample_rounds) / 12
    assert report.queries_per_sample == report.queries / 12
    assert 0 <= report.accepted <= report.drafted
    assert (report.candidates > 0) <= isinstance(sampler, Recursive)
    assert 0 < report.oracle_seconds <= report.seconds
    assert report.exact and report.seed == 0 and report.sampler == repr(sampler)


@pytest.mark.parametrize("door", ORACLES)
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_max_batch_size_splits_rounds_and_adds_none(sampler: Sampler, door: str) -> None:
    whole, _ = run(ORACLES[door](), sampler)
    for size in (1, 5) if door == "masked" else (5,):
        report, counting = run(ORACLES[door](), sampler, max_batch_size=size)
        assert (report.rounds, report.widths, report.committed) == (whole.rounds, whole.widths, whole.committed)
        assert report.sample_rounds == whole.sample_rounds and report.passes == whole.passes
        assert (counting.queries, counting.passes) == (whole.queries, whole.passes)
        assert counting.calls >= counting.passes / size and counting.calls > whole.rounds


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_a_call_never_exceeds_max_batch_size(sampler: Sampler, size: int) -> None:
    network = Network(DenseLogistic(10))
    report = da.sample(network, 9, sampler=sampler, seed=0, max_batch_size=size).report
    assert max(network.sizes) <= size and sum(network.sizes) == report.queries
    in_one = Sizes(DenseLogistic(10))
    da.sample(in_one, 9, sampler=sampler, seed=0, max_batch_size=size)
    assert max(in_one.sizes) <= size


class Sizes(TokenOracle):
    """A one-pass oracle that notes how many sequences each call holds, and which of them no cell asks about."""

    one_pass = True

    def __init__(self, oracle: TokenOracle) -> None:
        self.oracle, self.length, self.vocab_size = oracle, oracle.length, oracle.vocab_size
        self.sizes: list[int] = []

    def rows(self, tokens: Tensor) -> Tensor:
        raise AssertionError("a one-pass oracle is asked along paths")

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        self.sizes.append(len(tokens))
        assert torch.equal(row.unique(), torch.arange(len(tokens)))
        keys = row * (self.length + 1) + prefix
        assert bool((keys.diff() >= 0).all()), "cells come sorted by row, then by prefix"
        assert bool((rank[row, position] >= prefix).all()), "only hidden positions are asked about"
        return self.oracle.chain_rows(tokens, rank, row, prefix, position)


@pytest.mark.parametrize("n", [1, 2, 17])
def test_sequential_takes_exactly_n_rounds(n: int) -> None:
    report, counting = run(MixtureOfProducts.random(n), Sequential(), 5)
    assert report.rounds == n and report.widths == (5,) * n == report.committed
    assert report.sample_rounds == (n,) * 5 and report.drafted == 0 and math.isnan(report.acceptance)
    assert counting.queries == 5 * n


def test_a_product_needs_no_second_window() -> None:
    """Every draft is right: a round to draft from, and one that keeps all the rest."""
    oracle = Product.random(60)
    for sampler in (Stepwise(window=100), Block(window=100), Coupled(window=100), Recursive(growth="paper")):
        report, _ = run(oracle, sampler, 10)
        assert report.rounds == 2 and report.acceptance == 1.0 and report.candidates == 0, sampler


@pytest.mark.parametrize("sampler", [Stepwise(), Block(), Coupled()], ids=repr)
def test_rounds_are_saved(sampler: Sampler) -> None:
    assert run(Pairs(256), sampler)[0].mean_rounds < 40
    assert run(DenseLogistic(256), sampler)[0].mean_rounds < 64


def test_pipelining_saves_rounds() -> None:
    for sampler in (Stepwise, Block):
        piped, apart = (run(DenseLogistic(128), sampler(pipelined=flag))[0].rounds for flag in (True, False))
        assert piped < 0.75 * apart


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_evidence_shortens(sampler: Sampler) -> None:
    evidence = torch.full((3, 12), HIDDEN)
    evidence[0, 2:], evidence[1, ::2], evidence[2] = 1, 0, 1
    chain = TokenChain(CountingOracle(MixtureOfProducts.random(12)), evidence=evidence)
    result = da.sample(chain, 3, sampler=sampler, seed=0)
    report = result.report
    assert report.steps == 6 and sum(report.committed) == 2 + 6
    assert report.sample_rounds[2] == 0 and report.rounds == max(report.sample_rounds)
    if isinstance(sampler, Sequential):
        assert report.sample_rounds == (2, 6, 0)
    assert report.progress[0][-1] == 2 and report.progress[1][-1] == 6 and report.progress[2][-1] == 0


def test_nothing_hidden_asks_nothing() -> None:
    for sampler in PLAIN:
        counting = CountingOracle(Pairs(4))
        result = da.sample(TokenChain(counting, evidence=[0, 0, 1, 1]), 3, sampler=sampler, seed=0)
        assert result.samples.tolist() == [[0, 0, 1, 1]] * 3
        assert result.report.rounds == counting.calls == 0 and result.report.sample_rounds == (0, 0, 0)
        json.dumps(result.report.to_dict(), allow_nan=False)
        assert "3 samples" in str(result.report)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_finished_samples_make_room(sampler: Sampler) -> None:
    together, _ = run(Table.random(7), sampler)
    for max_live in (1, 3):
        report, counting = run(Table.random(7), sampler, max_live=max_live)
        for name in ("sample_rounds", "queries", "drafted", "accepted", "candidates", "progress"):
            assert getattr(report, name) == getattr(together, name), name
        assert report.rounds == counting.calls > together.rounds
        if max_live == 1:
            assert report.rounds == sum(report.sample_rounds)
        else:  # no round with an empty seat while samples wait
            assert report.rounds <= sum(report.sample_rounds) / max_live + max(report.sample_rounds)
    assert set(together.progress) == set(range(12))
    for number, steps in together.progress.items():  # from 0 to n, after each of the sample's rounds
        assert steps[0] == 0 and steps[-1] == 7 and list(steps) == sorted(steps)
        assert len(steps) == together.sample_rounds[number] + 1


def test_on_round_sees_the_report_so_far() -> None:
    reports: list[Report] = []
    result = da.sample(DenseLogistic(40), 20, sampler=Block(), seed=0, max_live=8, on_round=reports.append)
    assert [report.rounds for report in reports] == list(range(1, result.report.rounds + 1))
    done = [report.num_samples for report in reports]
    assert done == sorted(done) and done[-1] == 20 and all(len(r.sample_rounds) == r.num_samples for r in reports)
    assert reports[-1].widths == result.report.widths and reports[2].widths == result.report.widths[:3]


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_a_report_is_ready_for_json_and_prints_its_figures(sampler: Sampler) -> None:
    report, _ = run(DenseLogistic(12, beta=2.0), sampler)
    plain = report.to_dict()
    again = json.loads(json.dumps(plain, allow_nan=False))
    assert again == plain
    for name in ("sampler", "exact", "seed", "num_samples", "steps", "rounds", "queries", "passes", "drafted"):
        assert again[name] == getattr(report, name)
    for name in ("widths", "committed", "drafts", "kept", "sample_rounds"):
        assert tuple(again[name]) == getattr(report, name)
    assert {int(k): tuple(v) for k, v in again["progress"].items()} == report.progress
    assert again["acceptance"] == (report.acceptance if report.drafted else None)
    assert again["mean_rounds"] == report.mean_rounds and again["seconds"] == report.seconds
    text = str(report)
    for figure in (
        type(sampler).__name__,
        "12 samples",
        "exact",
        f"{report.rounds} in all",
        f"{report.queries} in all",
        f"{report.mean_rounds:.1f} per sample",
        f"{report.seconds:.3f}",
    ):
        assert figure in text
    assert "NOT exact" not in text
    assert (f"{report.acceptance:.1%}" if report.drafted else "no drafts") in text
    assert (str(report.candidates) in text) or not report.candidates


def test_the_guarantees_are_data() -> None:
    for sampler in PLAIN:
        assert sampler.guarantee.exact and sampler.guarantee.rounds and sampler.guarantee.reference


def test_the_counting_oracle_passes_answers_through() -> None:
    inner = MixtureOfProducts.random(5, q=3)
    counting = CountingOracle(inner)
    tokens = torch.tensor([[0, HIDDEN, 2, HIDDEN, HIDDEN], [HIDDEN] * 5])
    assert torch.equal(counting.rows(tokens), inner.rows(tokens))
    context, position = torch.tensor([0, 0, 1]), torch.tensor([1, 3, 4])
    assert torch.equal(counting.rows_at(tokens, context, position), inner.rows_at(tokens, context, position))
    rank = torch.tensor([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
    cells = (torch.tensor([0, 0, 0, 1]), torch.tensor([1, 1, 3, 0]), torch.tensor([1, 4, 4, 2]))
    full = torch.zeros(2, 5, dtype=torch.long)
    assert torch.equal(counting.chain_rows(full, rank, *cells), inner.chain_rows(full, rank, *cells))
    assert (counting.calls, counting.queries, counting.passes) == (3, 2 + 2 + 3, 2 + 2 + 2)
