"""Captured rounds draw what packed rounds draw, on every kind of chain; they count what they ask, and rows that end
are given the next sample."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import (
    Auto,
    Block,
    CountingDenoiser,
    CountingOracle,
    Coupled,
    GaussianChain,
    InputError,
    Picard,
    Recursive,
    Report,
    Result,
    SamplingError,
    Separated,
    Sequential,
    StackedChain,
    StackedPlan,
    Stepwise,
    TokenChain,
    ardiffusion,
    rtk,
)
from drawahead.chains.base import Chain
from drawahead.executors import Local
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.samplers import SAMPLERS, Sampler
from drawahead.samplers.window import WindowSampler
from drawahead.schedules import Given, Plan
from drawahead.targets import DenseLogistic, GaussianMixture, GaussianTarget, Hypercube, MixtureOfProducts, TreeIsing
from tests.ardiffusion.reference import LANGEVIN, TARGET
from tests.ardiffusion.reference import SCHEDULES as PARTS
from tests.changes import batches_used
from tests.exactness import combined, law_p_value
from tests.gaussian.reference import (
    DESIGNED,
    MEAN,
    SCHEDULES,
    VARIANCES,
    Walk,
    innovations,
    linear_chain,
    linear_moments,
    linear_p_value,
    path_p_value,
    whole,
)
from tests.gaussian.stacked_reference import BENT, LINEAR, PLANS, normal
from tests.gaussian.stacked_reference import linear_p_value as lanes_p_value
from tests.gaussian.stacked_reference import whole as every_state
from tests.instances import SMALL, crossed, small_law

NAN = torch.nan
NUMBER, LIVE = 5, 3
"""Samples that are drawn, and rows that they are drawn in: rows are refilled."""
Make = Callable[[], Chain]
Check = Callable[[float], None]


# Every kind of chain


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


def tokens(oracle: TokenOracle, **options: Any) -> Make:
    return lambda: TokenChain(oracle, **options)


def orders(rows: int, length: int) -> Tensor:
    return torch.rand(rows, length, generator=torch.Generator().manual_seed(5)).argsort(1)


DENSE = DenseLogistic(14, beta=1.5)
DENSE_60 = DenseLogistic(60, beta=2.0)
MIXTURE = MixtureOfProducts.random(13, q=3)
TREE = TreeIsing.random(12, coupling=1.0)
TOKENS: dict[str, Make] = {
    "one pass": tokens(DENSE),
    "one pass, three tokens": tokens(MIXTURE),
    "one pass, a network": tokens(OnePass(DENSE)),
    "masked": tokens(Masked(MIXTURE)),
    "masked, a formula": tokens(TREE),
    "an order": tokens(Masked(DENSE), order=torch.arange(14).flip(0)),
    "an order for each": tokens(OnePass(MIXTURE), order=orders(NUMBER, 13)),
    "spread": tokens(OnePass(MIXTURE), order="spread"),
    "evidence": tokens(Masked(MIXTURE), evidence=some_evidence(MIXTURE, NUMBER)),
    "evidence, one pass": tokens(OnePass(DENSE), evidence=some_evidence(DENSE, NUMBER), order=orders(NUMBER, 14)),
    "the same evidence": tokens(TREE, evidence=[0, 1, HIDDEN, 1] * 3),
    "one hidden": tokens(Masked(MIXTURE), evidence=[0] * 12 + [HIDDEN]),
    "told": lambda: TokenChain(
        lambda tokens, condition: (MIXTURE.rows(tokens) + condition[:, None]).log_softmax(-1),
        length=13,
        vocab_size=3,
        condition=normal(NUMBER, 3, seed=6),
    ),
}

KNOWN = torch.full((NUMBER, 2, 2), NAN, dtype=torch.float64)
KNOWN[1, 0, 1], KNOWN[2], KNOWN[4, 1] = 0.3, torch.arange(4).view(2, 2), -0.5
STARTS = normal(NUMBER, 3, seed=0) * 2
WALK = Walk((0.5,) * 5)
GAUSS = GaussianTarget(variances=VARIANCES, mean=MEAN)


def steep(x: Tensor, k: Tensor) -> Tensor:
    return 0.8 * x + torch.tanh(x.roll(1, -1))


def planned(a: Sequence[float], b: float, s: Sequence[float], bend: float = 0.3) -> Make:
    """Coefficients of any sign and size, around a denoiser that is not linear."""
    ones = torch.ones(len(a) + 1, dtype=torch.float64)
    first, third = (torch.tensor(part, dtype=torch.float64) for part in (a, s))
    plan = Plan(first, torch.full_like(first, b), third, ones, ones, torch.arange(len(a)), start=1.0)
    return lambda: GaussianChain(lambda x, k: 0.5 * x + bend * torch.sin(3 * x), Given(plan), (2,), dtype=torch.float64)


VECTORS: dict[str, Make] = {
    "linear, ddpm": lambda: whole(GAUSS, SCHEDULES["ddpm"]),
    "linear, euler": lambda: whole(GAUSS, SCHEDULES["euler"]),
    "cube": lambda: GaussianChain(Hypercube(5), da.StochasticLocalization(7, delta=0.02)),
    "modes": lambda: GaussianChain(
        GaussianMixture.random(3, components=5), da.StochasticLocalization(9), record=[8, 3]
    ),
    "steep": lambda: DESIGNED["steep"],
    "known": lambda: GaussianChain(steep, SCHEDULES["euler"], (2, 2), known=KNOWN, dtype=torch.float64, record=[2, 4]),
    "known, the same": lambda: GaussianChain(
        GAUSS, SCHEDULES["localization"], known=torch.tensor([NAN, 0.8], dtype=torch.float64)
    ),
    "start": lambda: GaussianChain(steep, WALK, (3,), start=STARTS, dtype=torch.float64),
    "the same start": lambda: GaussianChain(steep, WALK, (3,), start=STARTS[0], dtype=torch.float64),
    "deterministic steps": lambda: GaussianChain(
        steep, Walk((1.0, 0.8, 0.0, 0.5, 0.0, 0.0, 0.7, 1.0)), (3,), dtype=torch.float64, record=[3, 4, 7]
    ),
    "nothing random": lambda: GaussianChain(steep, Walk((0.0, 0.0, 0.0)), (3,), start=STARTS, dtype=torch.float64),
    "told vectors": lambda: GaussianChain(
        lambda x, k, pull, push: pull * torch.tanh(x) + push,
        WALK,
        (3,),
        dtype=torch.float64,
        condition={"pull": normal(NUMBER, 3, seed=6), "push": normal(1, 3, seed=7)},
    ),
    "one step": lambda: GaussianChain(steep, Walk((1.0,)), (3,), dtype=torch.float64),
    "A is zero": planned([0.9, 0.0, 0.0, 0.8, 0.0, 1.1], 0.4, [0.7] * 6),
    "A is negative": planned([-0.9, 0.8, -1.1] * 2, 0.5, [0.4] * 6),
    "A grows": planned([2.0] * 8, -1.5, [1.0] * 8),
}


def lanes(name: str, **options: Any) -> Make:
    return lambda: StackedChain(BENT[name], PLANS[name], (2,), dtype=torch.float64, **options)


def interrupted() -> Chain:
    """Deterministic steps in the middle, and at the end."""
    plan, fixed = PLANS["mixing"], torch.tensor([False, False, True, False, True, True])
    options: dict[str, Any] = {"start": plan.start, "final": plan.final, "deterministic": fixed, "reads": plan.reads}
    return StackedChain(
        BENT["mixing"], StackedPlan(plan.a, plan.b, plan.s, **options), (2,), record=[2, 3, 5], dtype=torch.float64
    )


STACKS: dict[str, Make] = {
    "mixing": lambda: every_state(PLANS["mixing"], BENT["mixing"]),
    "refreshed": lanes("refreshed", record=[5, 3]),
    "in turn": lanes("in turn"),
    "driven": lanes("driven", start=normal(NUMBER, 2, 2, seed=3)),
    "deterministic lanes": interrupted,
    "told lanes": lambda: StackedChain(
        lambda x, k, condition: BENT["mixing"](x, k) + condition,
        PLANS["mixing"],
        (2,),
        dtype=torch.float64,
        condition=normal(NUMBER, 2, seed=6),
    ),
    "kernels": lambda: rtk.chain(
        GaussianMixture(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0]]), 0.3),
        rtk.ULD(0.3, 2.0, 3),
        rtk.Segments.even(2.0, 2, last=0.1),
        spread=0.3,
    ),
    "parts": lambda: ardiffusion.chain(TARGET, PARTS["ddpm"]),
}
CHAINS = TOKENS | VECTORS | STACKS
LONG: dict[str, Make] = {
    "a long text": tokens(Masked(DENSE_60)),
    "a long text, one pass": tokens(OnePass(DENSE_60), evidence=some_evidence(DENSE_60, NUMBER)),
    "a long walk": lambda: GaussianChain(GaussianMixture.random(3), da.StochasticLocalization(80), record=[70, 3]),
    "a long walk that grows": planned([1.2] * 24, -1.0, [1.0] * 24, bend=0.05),
    "parts by kernels": lambda: ardiffusion.chain(TARGET, LANGEVIN),
}
"""Where windows grow and shrink over several widths."""

# Every sampler that draws in windows

WINDOWS: list[WindowSampler] = [
    Sequential(),
    Coupled(),
    Coupled(1),
    Coupled(3),
    Coupled(1000),
    Coupled(secant=False),
    Coupled(3, least=1.7),
    Block(),
    Block(3),
    Block(pipelined=False),
    Stepwise(),
    Picard(),
]
MORE: list[WindowSampler] = [
    Coupled(2),
    Coupled(5),
    Coupled(3, secant=False),
    Coupled(1000, secant=False),
    Coupled(least=2.5),
    Coupled(4, least=1e9),
    Block(1),
    Block(1000),
    Block(2, pipelined=False),
    Stepwise(2),
    Stepwise(pipelined=False),
    Stepwise(4, pipelined=False),
    Picard(window=3),
    Picard(tolerance=2.0),
]
COSTLY: list[Sampler] = [Block(), Stepwise(), Block(3, pipelined=False), Block(3), Block(pipelined=False)]
"""On vectors each of their rounds solves for quantiles: in CI every chain of vectors has two of the first three."""
AS_THEY_COME = [sampler for sampler in WINDOWS if sampler == type(sampler)()]
EACH = [*AS_THEY_COME, Coupled(3)]
"""Where their settings can make no difference."""
SET = [sampler for sampler in WINDOWS if sampler not in AS_THEY_COME]
CHEAP, CHEAP_SET = ([sampler for sampler in some if sampler not in COSTLY] for some in (AS_THEY_COME, SET))
PAIRS: list[tuple[str, Sampler]] = crossed(TOKENS, SET, AS_THEY_COME) + crossed(VECTORS | STACKS, CHEAP_SET, CHEAP)
for i, name in enumerate(VECTORS | STACKS):
    PAIRS += [(name, sampler) for j, sampler in enumerate(COSTLY[:3]) if (i + j) % 3]


def test_no_sampler_that_draws_in_windows_is_left_out() -> None:
    windowed = {sampler for sampler in SAMPLERS.values() if issubclass(sampler, WindowSampler)}
    assert {type(sampler) for sampler in WINDOWS} == windowed == set(SAMPLERS.values()) - {Recursive}


def both(chain: Any, sampler: Sampler, num_samples: int = NUMBER, **options: Any) -> tuple[Result, Result]:
    """Captured, and packed."""
    options = {"seed": 3, **options}
    one, other = (da.sample(chain, num_samples, sampler=sampler, graphs=graphs, **options) for graphs in (True, False))
    return one, other


def assert_same_values(one: Tensor, other: Tensor) -> None:
    """Tokens bit by bit, vectors up to rounding."""
    assert one.dtype == other.dtype and one.shape == other.shape
    if one.is_floating_point():
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-9), float((one - other).abs().max())
    else:
        assert torch.equal(one, other)


def assert_same_run(one: Report, other: Report) -> None:
    """All that does not depend on who draws beside whom."""
    for name in ("sampler", "exact", "seed", "num_samples", "steps", "drafted", "accepted", "sample_rounds"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.progress == other.progress
    assert sum(one.committed) == sum(other.committed)
    assert len(one.drafts) == len(one.kept) == one.rounds
    assert (sum(one.drafts), sum(one.kept)) == (one.drafted, one.accepted)
    assert all(0 <= kept <= drafts for drafts, kept in zip(one.drafts, one.kept, strict=True))
    assert len(one.widths) == len(one.committed) == one.rounds and sum(one.widths) == one.queries
    assert 0 < one.oracle_seconds <= one.seconds and one.choice == "" and one.probes == 0


@pytest.mark.parametrize(("name", "sampler"), PAIRS, ids=str)
def test_both_packings_draw_the_same(name: str, sampler: Sampler) -> None:
    one, other = both(CHAINS[name](), sampler, max_live=LIVE)
    assert torch.equal(one.numbers, other.numbers)
    assert_same_values(one.samples, other.samples)
    assert_same_run(one.report, other.report)


@pytest.mark.slow
@pytest.mark.parametrize(("live", "first", "seed"), [(1, 0, 4), (2, 1, 2**63 + 1)], ids=str)
@pytest.mark.parametrize("sampler", [*WINDOWS, *MORE], ids=repr)
@pytest.mark.parametrize("name", CHAINS | LONG)
def test_both_packings_draw_the_same_however_many(
    name: str, sampler: Sampler, live: int, first: int, seed: int
) -> None:
    chain = (CHAINS | LONG)[name]()
    one, other = both(chain, sampler, NUMBER - first, max_live=live, first=first, seed=seed)
    assert torch.equal(one.numbers, other.numbers)
    assert_same_values(one.samples, other.samples)
    assert_same_run(one.report, other.report)


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("sampler", [Coupled(), Coupled(24), Picard()], ids=repr)
def test_both_packings_draw_the_same_where_windows_change(sampler: Sampler, name: str) -> None:
    one, other = both(LONG[name](), sampler, max_live=LIVE)
    assert_same_values(one.samples, other.samples)
    assert_same_run(one.report, other.report)


@pytest.mark.parametrize(
    ("name", "sampler"),
    crossed(("masked", "deterministic steps", "deterministic lanes"), MORE, [*AS_THEY_COME, Picard(window=3)]),
    ids=str,
)
def test_both_packings_draw_the_same_with_other_settings(name: str, sampler: Sampler) -> None:
    """All at once: round by round they then do the same, too."""
    one, other = both(CHAINS[name](), sampler)
    assert_same_values(one.samples, other.samples)
    assert_same_run(one.report, other.report)
    for part in ("rounds", "committed", "drafts", "kept"):
        assert getattr(one.report, part) == getattr(other.report, part), part


@pytest.mark.parametrize("sampler", [Sequential(), Coupled(), Block(3)], ids=repr)
def test_single_precision(sampler: Sampler) -> None:
    """A network in float32 answers slightly differently in a batch of another shape, and only that shows."""
    chain = GaussianChain(lambda x, k: torch.tanh(x), SCHEDULES["ddpm"], (3,))
    one, other = both(chain, sampler, max_live=LIVE)
    assert one.samples.dtype == torch.float32 and torch.allclose(one.samples, other.samples, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["one pass, a network", "spread"])
def test_a_whole_path_at_once(name: str) -> None:
    """Without a window, where one pass answers a path."""
    one, other = both(TOKENS[name](), Coupled())
    assert torch.equal(one.samples, other.samples) and one.report.sample_rounds == other.report.sample_rounds
    assert one.report.passes == NUMBER * one.report.rounds and one.report.rounds < one.report.steps


# The law, with rows that are refilled

EXACT: list[Sampler] = [Stepwise(), Block(), Coupled()]


@pytest.mark.parametrize("sampler", [*EXACT, Coupled(2), Block(2, pipelined=False)], ids=repr)
def test_the_law_of_tokens(sampler: Sampler, check: Check) -> None:
    """8000 draws on 64 cells: rejected with probability 0.99 from total variation 0.06."""
    check(law_p_value(SMALL["ising"], small_law("ising"), sampler, 8_000, max_live=3_000, graphs=True))


@pytest.mark.parametrize("sampler", EXACT, ids=repr)
def test_the_law_of_vectors(sampler: Sampler, check: Check) -> None:
    """3000 draws: Kolmogorov-Smirnov finds a distance of 0.07."""
    chain = linear_chain("euler")
    samples = da.sample(chain, 3_000, sampler=sampler, seed=0, max_live=1_200, graphs=True).samples
    moments = linear_moments(chain.plan)
    check(combined([linear_p_value(chain, samples, moments), path_p_value(innovations(chain, samples))]))


@pytest.mark.parametrize("sampler", EXACT, ids=repr)
def test_the_law_of_lanes(sampler: Sampler, check: Check) -> None:
    check(lanes_p_value("refreshed", sampler, 3_000, graphs=True))


# Rows that end are given the next sample


def makespan(rounds: Sequence[int], rows: int) -> int:
    """How many rounds it takes if no row waits while there are samples: each begins in the row that is free first."""
    free = [0] * rows
    for taken in rounds:
        heapq.heappush(free, heapq.heappop(free) + taken)
    return max(free)


RAGGED = [13, 1, 2, 1, 9, 3, 1, 1, 12, 2, 0, 5, 1, 0, 4, 1]
"""How many tokens of each sample are hidden."""


def ragged(lengths: Sequence[int] = RAGGED, oracle: TokenOracle | None = None) -> TokenChain:
    oracle = oracle or Masked(MIXTURE)
    hidden = torch.arange(oracle.length) < torch.tensor(lengths)[:, None]
    return TokenChain(oracle, evidence=torch.where(hidden, HIDDEN, torch.tensor(1)))


@pytest.mark.parametrize("live", [2, 5])
@pytest.mark.parametrize("sampler", EACH, ids=repr)
def test_no_row_waits_while_there_are_samples(sampler: Sampler, live: int) -> None:
    chain, number = ragged(), len(RAGGED)
    report = da.sample(chain, number, sampler=sampler, seed=0, graphs=True, max_live=live).report
    assert report.rounds == makespan(report.sample_rounds, live)
    parts = [
        da.sample(
            chain, min(live, number - first), first=first, sampler=sampler, seed=0, graphs=True, max_live=live
        ).report.rounds
        for first in range(0, number, live)
    ]
    assert report.rounds <= 0.85 * sum(parts)


@pytest.mark.parametrize("sampler", [Coupled(), Coupled(3), Block(), Stepwise()], ids=repr)
@pytest.mark.parametrize("name", ["masked", "modes", "refreshed"])
def test_samples_that_take_other_numbers_of_rounds_are_refilled_too(name: str, sampler: Sampler) -> None:
    report = da.sample(CHAINS[name](), NUMBER, sampler=sampler, seed=0, graphs=True, max_live=LIVE).report
    assert report.rounds == makespan(report.sample_rounds, LIVE)
    assert len(set(report.sample_rounds)) > 1


@pytest.mark.parametrize("sampler", [Sequential(), Coupled(), Block()], ids=repr)
def test_samples_with_nothing_to_draw_take_no_row(sampler: Sampler) -> None:
    """All of the first ones are known: the rows they would have had are there for those that come after."""
    lengths = [0, 0, 0, 5, 5, 5, 5, 0, 5, 5]
    chain = ragged(lengths)
    one, other = both(chain, sampler, len(lengths), max_live=4)
    assert torch.equal(one.samples, other.samples)
    assert one.report.rounds == makespan(one.report.sample_rounds, 4)


# What is counted


class Noting(Masked):
    """Notes the size of every call."""

    def __init__(self, oracle: TokenOracle) -> None:
        super().__init__(oracle)
        self.sizes: list[int] = []

    def rows(self, tokens: Tensor) -> Tensor:
        self.sizes.append(len(tokens))
        return super().rows(tokens)


COUNTED = ("one pass", "masked", "masked, a formula", "evidence", "evidence, one pass")


@pytest.mark.parametrize(("name", "sampler"), crossed(COUNTED, SET + MORE[::3], AS_THEY_COME), ids=str)
def test_the_report_counts_what_the_oracle_saw(name: str, sampler: Sampler) -> None:
    chain = TOKENS[name]()
    assert isinstance(chain, TokenChain)
    counting = CountingOracle(chain.oracle)
    counted = TokenChain(counting, order=chain.order, evidence=chain.evidence)
    report = da.sample(counted, NUMBER, sampler=sampler, seed=0, graphs=True, max_live=LIVE).report
    assert (report.rounds, report.queries, report.passes) == (counting.calls, counting.queries, counting.passes)
    assert report.passes <= report.queries and (counting.one_pass or report.passes == report.queries)
    assert 0 <= report.accepted <= report.drafted
    assert sum(report.committed) == (
        NUMBER * chain.steps if chain.evidence is None else int((chain.evidence == HIDDEN).sum())
    )


@pytest.mark.parametrize("sampler", EACH, ids=repr)
def test_padding_is_counted_round_by_round(sampler: Sampler) -> None:
    noting = Noting(MIXTURE)
    report = da.sample(noting, NUMBER, sampler=sampler, seed=0, graphs=True, max_live=LIVE).report
    assert report.widths == tuple(noting.sizes)
    packed = da.sample(noting, NUMBER, sampler=sampler, seed=0, max_live=LIVE).report
    assert report.queries >= packed.queries
    if isinstance(sampler, Sequential):  # a row is padding once no sample is left for it
        assert set(report.widths) == {LIVE} and report.drafted == 0


def counted(name: str) -> tuple[Chain, CountingDenoiser]:
    if name == "gaussian":
        counting = CountingDenoiser(GAUSS.denoiser(SCHEDULES["euler"]))
        return GaussianChain(counting, SCHEDULES["euler"], (2,), dtype=torch.float64), counting
    counting = CountingDenoiser(LINEAR["driven"])
    return StackedChain(counting, PLANS["driven"], (2,), dtype=torch.float64), counting


@pytest.mark.parametrize(("name", "sampler"), crossed(("gaussian", "stacked"), SET + MORE[::3], AS_THEY_COME), ids=str)
def test_the_report_counts_what_the_denoiser_saw(name: str, sampler: Sampler) -> None:
    chain, counting = counted(name)
    report = da.sample(chain, NUMBER, sampler=sampler, seed=0, graphs=True, max_live=LIVE).report
    assert (report.rounds, report.queries, report.passes) == (counting.calls, counting.queries, counting.queries)
    assert sum(report.committed) == NUMBER * chain.steps and sum(report.drafts) == report.drafted


@pytest.mark.parametrize("sampler", [Coupled(16), Block(16), Stepwise(16)], ids=repr)
def test_padding_is_saved_at_the_end(sampler: Sampler) -> None:
    """The last rounds are narrower than the window, if less is left."""
    report = da.sample(Masked(DenseLogistic(30, beta=3.0)), 2, sampler=sampler, seed=0, graphs=True).report
    assert report.widths[0] == 2 and max(report.widths) == 2 * 17 and report.widths[-1] < 2 * 17


@pytest.mark.parametrize("sampler", EACH, ids=repr)
def test_rows_with_nothing_hidden(sampler: Sampler) -> None:
    counting = CountingOracle(DenseLogistic(4))
    result = da.sample(TokenChain(counting, evidence=[0, 0, 1, 1]), 3, sampler=sampler, seed=0, graphs=True)
    assert result.samples.tolist() == [[0, 0, 1, 1]] * 3 and result.report.sample_rounds == (0, 0, 0)
    assert result.report.rounds == counting.calls == 0
    evidence = torch.tensor([[0, 1, 1, 0], [HIDDEN, 1, 0, HIDDEN]])
    some = da.sample(TokenChain(DenseLogistic(4), evidence=evidence), 2, sampler=sampler, seed=0, graphs=True)
    assert some.samples[0].tolist() == [0, 1, 1, 0] and some.report.sample_rounds[0] == 0 < some.report.rounds


# A caller who looks on


@pytest.mark.parametrize("sampler", EACH, ids=repr)
def test_on_round_sees_the_report_so_far(sampler: Sampler) -> None:
    reports: list[Report] = []
    result = da.sample(DENSE, 7, sampler=sampler, seed=0, max_live=3, graphs=True, on_round=reports.append)
    assert [report.rounds for report in reports] == list(range(1, result.report.rounds + 1))
    done = [report.num_samples for report in reports]
    assert done == sorted(done) and done[-1] == 7 and all(len(r.sample_rounds) == r.num_samples for r in reports)
    assert reports[-1].widths == result.report.widths


@pytest.mark.parametrize(
    ("name", "sampler"), crossed(("masked", "linear, ddpm", "deterministic lanes"), SET, AS_THEY_COME), ids=str
)
def test_looking_on_changes_nothing(name: str, sampler: Sampler) -> None:
    """Where nobody looks, the device begins the next round before the last one is written down."""
    options: dict[str, Any] = {"sampler": sampler, "seed": 1, "max_live": LIVE, "graphs": True}
    alone = da.sample(CHAINS[name](), NUMBER, **options)
    watched = da.sample(CHAINS[name](), NUMBER, on_round=lambda report: None, **options)
    assert torch.equal(alone.samples, watched.samples)
    one, other = (result.report.to_dict() for result in (alone, watched))
    times = {"seconds", "oracle_seconds"}
    assert {key: one[key] for key in one.keys() - times} == {key: other[key] for key in other.keys() - times}


def test_a_model_that_fails_is_told_of_in_the_same_round() -> None:
    """Whether somebody looks on or not, and the next call is none the worse."""
    calls = []

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        calls.append(len(x))
        if len(calls) == 5:
            raise KeyError("the fifth call")
        return x / 10

    said = []
    chain = GaussianChain(denoiser, Walk((0.1,) * 40), (2,))
    for watch in (None, lambda report: None):
        calls.clear()
        with pytest.raises(SamplingError, match=r"in round 4 .*the fifth call") as caught:
            da.sample(chain, 1, sampler=Coupled(3), seed=0, graphs=True, on_round=watch)
        said.append(str(caught.value))
        assert torch.equal(*(da.sample(chain, 1, sampler=Coupled(3), seed=0, graphs=g).samples for g in (True, False)))
    assert said[0] == said[1]


@pytest.mark.parametrize("sampler", [Coupled(), Block(), Stepwise(), Picard(), Coupled(7)], ids=repr)
def test_how_wide_a_window_may_become(sampler: WindowSampler) -> None:
    """What is worked out on the CPU before a round is what the round itself works out, if it keeps every draft."""
    wish, width = torch.meshgrid(torch.arange(4, 300), torch.arange(300), indexing="ij")
    wish, width = wish.flatten(), width.flatten()
    expected = sampler.next_width(wish, width, width).tolist()
    assert sampler.widest_next(tuple(wish.tolist()), tuple(width.tolist())) == expected


@pytest.mark.parametrize("sampler", [Coupled(4), Block(), Sequential()], ids=repr)
def test_a_caller_may_stop_it(sampler: Sampler) -> None:
    def fail(report: Report) -> None:
        if report.num_samples >= 3:
            raise KeyError("enough")

    whole_run = da.sample(DENSE, 9, sampler=sampler, seed=0, graphs=True).samples
    with pytest.raises(SamplingError, match="enough") as caught:
        da.sample(DENSE, 9, sampler=sampler, seed=0, max_live=3, graphs=True, on_round=fail)
    result = caught.value.result
    assert 3 <= len(result.numbers) < 9 and torch.equal(result.samples, whole_run[result.numbers])


@pytest.mark.parametrize("name", ["masked", "linear, ddpm", "deterministic lanes"])
@pytest.mark.parametrize("sampler", [Coupled(4), Block(), Stepwise(3), Sequential()], ids=repr)
def test_a_stop_token_keeps_what_is_finished(sampler: Sampler, name: str) -> None:
    stop, chain = threading.Event(), CHAINS[name]()
    whole_run = da.sample(chain, NUMBER, sampler=sampler, seed=0, graphs=True, max_live=3).samples

    def enough(report: Report) -> None:
        if report.num_samples >= 2:
            stop.set()

    part = da.sample(chain, NUMBER, sampler=sampler, seed=0, graphs=True, max_live=3, on_round=enough, stop=stop)
    assert 2 <= len(part.samples) < NUMBER and not part.complete
    assert_same_values(part.samples, whole_run[part.numbers])
    again = da.sample(chain, NUMBER, sampler=sampler, seed=0, graphs=True, max_live=3).samples
    assert_same_values(again, whole_run)  # nothing is left behind


@pytest.mark.parametrize("name", ["one pass", "linear, ddpm", "refreshed"])
@pytest.mark.parametrize("inner", [Coupled(4), Block()], ids=repr)
def test_a_caller_may_draw_from_the_same_model_meanwhile(name: str, inner: Sampler) -> None:
    """Between two rounds of one call another takes place: with the same sampler, or another one."""
    make = CHAINS[name]
    chain = make()
    alone = da.sample(make(), 3, sampler=inner, seed=9, graphs=True).samples
    seen: list[Tensor] = []

    def draw(report: Report) -> None:
        seen.append(da.sample(chain, 3, sampler=inner, seed=9, graphs=True).samples)

    within = da.sample(chain, 3, sampler=Coupled(4), seed=0, graphs=True, on_round=draw).samples
    assert_same_values(within, da.sample(make(), 3, sampler=Coupled(4), seed=0, graphs=False).samples)
    assert len(seen) > 1
    for samples in seen:
        assert_same_values(samples, alone)


# Bad answers


@pytest.mark.parametrize(("sampler", "bad"), [*((s, NAN) for s in EACH), (Coupled(3), torch.inf)], ids=repr)
def test_a_prediction_that_is_no_number_stops_the_run(sampler: Sampler, bad: float) -> None:
    """Sample 3 starts at 100 and stays there: at step 2 its prediction is bad. Those before it are kept."""

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return torch.where(((k == 2) & (x[:, 0] > 50))[:, None], bad, x / 10)

    start = torch.zeros(6, 2)
    start[3] = 100
    chain = GaussianChain(denoiser, Walk((0.1,) * 5), (2,), start=start)
    with pytest.raises(SamplingError, match="not finite or not normalised; draw with graphs=False") as caught:
        da.sample(chain, 6, sampler=sampler, seed=0, max_live=1, graphs=True)
    result = caught.value.result
    assert result.numbers.tolist() == [0, 1, 2] and result.samples.isfinite().all()
    assert result.report.num_samples == 3 and "3 of 6 samples finished" in str(caught.value)


@pytest.mark.parametrize("sampler", EACH, ids=repr)
def test_an_answer_about_lanes_that_is_no_number_stops_the_run(sampler: Sampler) -> None:
    def oracle(x: Tensor, k: Tensor) -> Tensor:
        return torch.where(((k == 3) & (x[:, 0, 0] > 50))[:, None], NAN, LINEAR["mixing"](x, k) / 10)

    start = torch.zeros(4, 2, 2, dtype=torch.float64)
    start[2] = 1000.0
    chain = StackedChain(oracle, PLANS["mixing"], (2,), start=start, dtype=torch.float64)
    with pytest.raises(SamplingError, match="not finite or not normalised; draw with graphs=False") as caught:
        da.sample(chain, 4, sampler=sampler, seed=0, max_live=1, graphs=True)
    assert caught.value.result.numbers.tolist() == [0, 1]


BAD: list[Callable[[Tensor], Tensor]] = [lambda rows: rows + 0.1, lambda rows: rows.exp(), lambda rows: rows * NAN]


@pytest.mark.parametrize("wrap", [Masked, OnePass])
@pytest.mark.parametrize(
    ("sampler", "change"), [*((sampler, BAD[2]) for sampler in EACH), *((Coupled(3), bad) for bad in BAD[:2])]
)
def test_rows_that_are_no_law_stop_the_run(
    sampler: Sampler, change: Callable[[Tensor], Tensor], wrap: type[Masked]
) -> None:
    """Tokens drawn before are kept: what is bad is bad once four samples are done."""

    class Wrong(wrap):  # type: ignore[misc,valid-type]
        def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
            return self.change(super().rows_at(tokens, context, position))

        def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
            return self.change(super().chain_rows(tokens, rank, row, prefix, position))

        def change(self, rows: Tensor) -> Tensor:
            return change(rows) if done[-1] >= 4 else rows

    done = [0]
    with pytest.raises(SamplingError, match="not finite or not normalised") as caught:
        da.sample(
            Wrong(DENSE),
            6,
            sampler=sampler,
            seed=0,
            max_live=2,
            graphs=True,
            on_round=lambda report: done.append(report.num_samples),
        )
    result = caught.value.result
    assert 4 <= len(result.numbers) < 6
    assert torch.equal(result.samples, da.sample(DENSE, 6, sampler=sampler, seed=0).samples[result.numbers])


@pytest.mark.parametrize("sampler", EACH, ids=repr)
def test_no_sample_is_made_of_bad_answers(sampler: Sampler) -> None:
    """A short row whose answer is bad never counts as finished, though others go on for longer."""
    evidence = torch.full((3, 8), HIDDEN)
    evidence[1, :5] = 0
    product = MixtureOfProducts.random(8, q=3)

    def rows(tokens: Tensor) -> Tensor:
        short = (tokens[:, :5] == 0).all(1) & ((tokens != HIDDEN).sum(1) == 6)
        return product.rows(tokens).masked_fill(short[:, None, None], NAN)

    chain = TokenChain(rows, length=8, vocab_size=3, evidence=evidence)
    with pytest.raises(SamplingError) as caught:
        da.sample(chain, 3, sampler=sampler, seed=0, graphs=True)
    assert 1 not in caught.value.result.numbers.tolist()


@pytest.mark.parametrize("sampler", EACH, ids=repr)
def test_what_only_padding_asks_may_be_bad(sampler: Sampler) -> None:
    """Beside a long row a short one is padded: what is answered there is nobody's, and no reason to stop."""
    lengths = [2, 13]

    def rows(tokens: Tensor) -> Tensor:
        answers = MIXTURE.rows(tokens)
        return answers.masked_fill((tokens != HIDDEN)[..., None], NAN)

    chain = ragged(lengths, da.FunctionOracle(rows, 13, 3))
    one, other = both(chain, sampler, 2)
    assert torch.equal(one.samples, other.samples)

    def counter(x: Tensor, k: Tensor) -> Tensor:
        """Every step adds one; a state beyond that of its step is one that no sample is ever in."""
        return torch.ones_like(x).masked_fill((x > k[:, None] + 0.5).any(1)[:, None], NAN)

    walk = GaussianChain(counter, Walk((0.01,) * 5), (2,), dtype=torch.float64)
    assert_same_values(*(result.samples for result in both(walk, sampler, 3, max_live=2)))


@pytest.mark.parametrize("answer", [lambda x: x[:, :1], lambda x: x[:-1], lambda x: x.numpy()])
def test_an_answer_of_the_wrong_shape_is_named(answer: Callable[[Tensor], Any]) -> None:
    chain = GaussianChain(lambda x, k: answer(x), Walk((0.5,) * 6), (3,))
    with pytest.raises(SamplingError, match="denoiser must answer"):
        da.sample(chain, 3, sampler=Coupled(3), seed=0, graphs=True)
    oracle = TokenChain(lambda tokens: answer(torch.zeros(*tokens.shape, 2)), length=5, vocab_size=2)
    with pytest.raises(SamplingError, match="oracle must answer"):
        da.sample(oracle, 3, sampler=Coupled(3), seed=0, graphs=True)


# What is refused


class Alone(Sampler):
    """A sampler that draws in no window."""

    guarantee = Sequential.guarantee

    def run(self, paths: Any) -> Any:
        return Sequential().run(paths)


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (DENSE, {"sampler": Recursive()}, "graphs=True needs a sampler that draws in windows.*Recursive"),
    (VECTORS["cube"](), {"sampler": Recursive()}, "graphs=True needs a sampler that draws in windows"),
    (STACKS["mixing"](), {"sampler": Recursive()}, "graphs=True needs a sampler that draws in windows"),
    (da.tilings.dominoes("square", 4), {"sampler": Separated()}, "graphs=True needs .* windows.*Separated"),
    (DENSE, {"sampler": Alone()}, "graphs=True needs a sampler that draws in windows"),
    (DENSE, {"sampler": Coupled(3), "max_batch_size": 4}, "captured rounds are not split"),
    (DENSE, {"sampler": Block(), "executor": Local()}, "captured rounds are not split"),
    (VECTORS["cube"](), {"sampler": Sequential(), "max_batch_size": 4}, "captured rounds are not split"),
    (DENSE, {"sampler": Auto(), "max_batch_size": 4}, "captured rounds are not split"),
    (DENSE, {"max_batch_size": 4}, "captured rounds are not split"),
    (DENSE, {"executor": Local(4)}, "captured rounds are not split"),
]


@pytest.mark.parametrize(("target", "options", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_captured_is_refused(target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        da.sample(target, 2, graphs=True, **options)


def test_on_a_cpu_rounds_are_packed_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    used = batches_used(monkeypatch)
    oracle = Masked(DenseLogistic(14))
    one, other = (da.sample(oracle, 2, sampler=Coupled(3), seed=0, graphs=graphs).report for graphs in (None, False))
    assert one.widths == other.widths and not used
    captured = da.sample(oracle, 2, sampler=Coupled(3), seed=0, graphs=True).report
    assert captured.queries > other.queries and len(used) == 1
