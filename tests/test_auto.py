"""The default measures, chooses, says why, and changes no law."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import CountingDenoiser, CountingOracle, Coupled, GaussianChain, Sequential, TokenChain
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.rounds.choosing import Choice, between, choose, expected_rounds
from drawahead.samplers import Sampler
from drawahead.samplers.record import from_repr
from drawahead.targets import DenseLogistic, GaussianMixture, Hypercube, MixtureOfProducts, Pairs, Product, TreeIsing
from drawahead.verification.statistics import chi_square
from tests.exactness import combined, joint_law, outcome_counts
from tests.gaussian.reference import innovations, path_p_value, whole

Check = Callable[[float], None]


class Made:
    """What may be measured, made up."""

    def __init__(
        self,
        seconds: Callable[[int], float],
        *,
        steps: int = 1000,
        whole: bool = False,
        captured: bool = False,
        live: int = 1,
        batches: int = 1,
        rounds: float | None = None,
    ) -> None:
        self._seconds, self.live, self.batches, self._rounds = seconds, live, batches, rounds
        self.steps, self.whole, self.captured = steps, whole, captured
        self.asked: list[int] = []
        self.piloted: list[Sampler] = []

    def seconds(self, window: int) -> float:
        self.asked.append(window)
        return self._seconds(window)

    def pilot(self, sampler: Sampler, most: float) -> float | None:
        self.piloted.append(sampler)
        window = sampler.window if isinstance(sampler, Coupled) and sampler.window else self.steps - 1
        rounds = expected_rounds(self.steps, window) if self._rounds is None else self._rounds
        return None if rounds > most else rounds


def linear(window: int) -> float:
    return 0.01 * (window + 1)


def flat(window: int) -> float:
    return 0.01


def fails(window: int) -> float:
    raise RuntimeError("out of memory")


def window_of(choice: Choice) -> int:
    assert isinstance(choice.sampler, Coupled) and choice.sampler.window is not None
    return choice.sampler.window


# How it chooses


@pytest.mark.parametrize("captured", [False, True])
def test_where_time_grows_with_the_queries_it_is_sequential(captured: bool) -> None:
    made = Made(linear, captured=captured)
    choice = choose(made)
    assert choice.sampler == Sequential() and "times as long" in choice.reason
    assert captured or max(made.asked) == 1, "finding that out costs two rounds of one query and one of two"


@pytest.mark.parametrize("captured", [False, True])
def test_where_queries_are_free_the_window_is_wide(captured: bool) -> None:
    choice = choose(Made(flat, captured=captured))
    assert window_of(choice) >= 64 and "less time" in choice.reason


@pytest.mark.parametrize("captured", [False, True])
def test_where_queries_are_free_up_to_a_point_the_window_ends_about_there(captured: bool) -> None:
    choice = choose(Made(lambda window: 0.01 * max(1.0, (window + 1) / 64), captured=captured))
    assert 32 <= window_of(choice) <= 128


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("unknown", [flat, linear, lambda window: 0.01 + 1e-4 * window])
def test_it_never_times_a_window_that_could_cost_more_than_it_wins(
    unknown: Callable[[int], float], captured: bool
) -> None:
    """Nothing is timed that is more than four times as wide as what was timed before; where rounds are captured, the
    first is of as many queries as a GPU answers at once."""
    made = Made(unknown, captured=captured)
    choose(made)
    widest = 128 if captured else 1
    for window in made.asked:
        assert window <= 4 * widest
        widest = max(widest, window)
    assert len(made.asked) <= 8


@pytest.mark.parametrize("steps", [40, 100, 1000])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("slope", [0.0, 1e-4, 1e-3, 1e-2])
def test_packed_measuring_takes_a_tenth_of_single_steps_at_most(steps: int, batches: int, slope: float) -> None:
    """Where speculation does not pay, timings and pilots together; where it does, that is won back."""
    made = Made(lambda window: 0.01 + slope * window, steps=steps, batches=batches)
    choice = choose(made)
    spent = sum(0.01 + slope * window for window in made.asked)
    if choice.sampler == Sequential():
        assert spent <= 0.1 * 0.01 * steps * batches


@pytest.mark.parametrize("captured", [False, True])
def test_a_pilot_that_takes_too_many_rounds_ends_it(captured: bool) -> None:
    """It is drawn where it costs a tenth of single steps at most."""
    made = Made(flat, captured=captured, rounds=1e9)
    choice = choose(made)
    assert (
        choice.sampler == Sequential() and "a pilot sample took more than" in choice.reason and len(made.piloted) == 1
    )
    dear = Made(lambda window: 0.01 * (1 + window / 16), captured=captured, rounds=1e9)
    assert isinstance(choose(dear).sampler, Coupled) and not dear.piloted, "too dear: a sample gives up by itself"


def test_the_gain_is_what_the_pilot_showed() -> None:
    assert "about 50.0x less time" in choose(Made(flat, captured=True, rounds=20)).reason


def test_a_sample_among_others_gives_up_later_than_one_alone() -> None:
    """All others would wait for it while it goes on one step at a time."""
    alone, among = (choose(Made(lambda window: 1.0 + window / 8, captured=True, live=live)).sampler for live in (1, 64))
    assert isinstance(alone, Coupled) and isinstance(among, Coupled) and alone.window == among.window
    assert 0.5 * alone.least < among.least < 0.9 * alone.least


def test_times_between_two_windows_lie_on_a_line() -> None:
    seconds = {0: 1.0, 8: 2.0, 64: 4.0}
    assert between(seconds, 4) == pytest.approx(1.5) and between(seconds, 8) == 2.0
    assert between(seconds, 36) == pytest.approx(3.0) and between(seconds, 128) > 4.0
    assert between({0: 1.0}, 50) == 1.0


def test_one_pass_answers_a_whole_path() -> None:
    for captured in (False, True):
        made = Made(flat, whole=True, captured=captured)
        choice = choose(made)
        assert isinstance(choice.sampler, Coupled) and choice.sampler.window is None
        assert set(made.asked) == {0, 999}
        assert choose(Made(linear, whole=True, captured=captured)).sampler == Sequential()


def test_it_will_give_up_where_a_round_must_pay_for_itself() -> None:
    """`least` is how many steps a round must commit, on average, to take no longer than as many single ones."""
    dear = Made(lambda window: 0.001 if not window else 0.008, captured=True)  # so that no pilot is drawn
    choice = choose(dear)
    assert isinstance(choice.sampler, Coupled) and choice.sampler.least == pytest.approx(8.0) and not dear.piloted


@pytest.mark.parametrize("steps", [1, 7, 39])
def test_few_steps_are_not_worth_measuring(steps: int) -> None:
    made = Made(fails, steps=steps)
    choice = choose(made)
    assert choice.sampler == Sequential() and f"{steps} steps" in choice.reason and not made.asked


def test_what_fails_is_sequential_and_not_remembered() -> None:
    broken = True

    def rows(tokens: Tensor) -> Tensor:
        if broken:
            raise RuntimeError("no such table")
        return MixtureOfProducts.random(64).rows(tokens)

    runner = da.Runner(TokenChain(rows, length=64, vocab_size=2))
    with pytest.raises(da.SamplingError, match="no such table") as caught:
        runner.sample(2, seed=0)
    assert "measuring failed: no such table" in caught.value.result.report.choice and runner.report is None
    broken = False
    assert runner.sample(2, seed=0).report.probes > 0, "it is measured now"


# What it does


class Sleeping(TokenOracle):
    """A masked model whose time is known: so long a call, and so long a sequence."""

    def __init__(self, oracle: TokenOracle, call: float = 0.0, sequence: float = 0.0) -> None:
        self.oracle, self.length, self.vocab_size = oracle, oracle.length, oracle.vocab_size
        self.call, self.sequence, self.calls = call, sequence, 0

    def rows(self, tokens: Tensor) -> Tensor:
        self.calls += 1
        time.sleep(self.call + self.sequence * len(tokens))
        return self.oracle.rows(tokens)


@pytest.mark.usefixtures("clock")
def test_a_model_whose_time_grows_with_the_batch_is_drawn_step_by_step() -> None:
    report = da.sample(Sleeping(Pairs(48), sequence=1e-2), 2, seed=0).report
    assert report.sampler == "Sequential()" and report.rounds == 48 and report.choice


@pytest.mark.usefixtures("clock")
def test_a_model_that_waits_is_asked_much_at_a_time() -> None:
    oracle = Sleeping(MixtureOfProducts.random(64), call=0.02)
    result = da.sample(oracle, 2, seed=0)
    assert result.report.sampler.startswith("Coupled") and "times as long" in result.report.choice
    assert oracle.calls < 32, "measuring and drawing together"
    assert torch.equal(result.samples, da.sample(oracle.oracle, 2, seed=0, sampler=Sequential()).samples)
    asked = oracle.calls
    again = da.sample(oracle, 2, seed=1).report
    assert again.probes == 0 and oracle.calls - asked == again.rounds and again.sampler == result.report.sampler
    assert "chosen" in str(again) and "more to choose" in str(result.report)


@pytest.mark.usefixtures("clock")
def test_captured_rounds_are_measured_too() -> None:
    oracle = Sleeping(MixtureOfProducts.random(64), call=3e-3)
    result = da.sample(oracle, 2, seed=0, graphs=True)
    assert result.report.sampler.startswith("Coupled") and "less time" in result.report.choice
    assert result.report.rounds < 32
    assert torch.equal(result.samples, da.sample(oracle.oracle, 2, seed=0, sampler=Sequential()).samples)
    slow = Sleeping(MixtureOfProducts.random(40), sequence=5e-3)
    assert da.sample(slow, 2, seed=0, graphs=True).report.sampler == "Sequential()"


class OnePass(Sleeping):
    one_pass = True

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        time.sleep(self.call)
        return self.oracle.chain_rows(tokens, rank, row, prefix, position)


def oracles() -> list[TokenOracle]:
    return [
        DenseLogistic(48, beta=1.5),
        TreeIsing.random(48),
        Sleeping(MixtureOfProducts.random(48, q=3)),
        OnePass(DenseLogistic(48), call=2e-3),
        Product.random(7),
    ]


@pytest.mark.parametrize("graphs", [None, True])
@pytest.mark.parametrize("index", range(len(oracles())))
def test_the_report_counts_what_was_asked_and_what_it_took_to_choose(index: int, graphs: bool | None) -> None:
    """On every kind of oracle; and whatever was chosen, the tokens are Sequential's."""
    oracle = oracles()[index]
    counting = CountingOracle(oracle)
    result = da.sample(counting, 6, seed=0, graphs=graphs)
    report = result.report
    assert report.choice and report.exact and report.sampler.startswith(("Sequential", "Coupled"))
    assert counting.queries == report.queries + report.probes
    assert (report.probes > 0) == (oracle.length >= 20)
    assert torch.equal(result.samples, da.sample(oracle, 6, seed=0, sampler=Sequential()).samples)
    assert report.to_dict()["choice"] == report.choice and report.to_dict()["probes"] == report.probes


@pytest.mark.parametrize("graphs", [None, True])
def test_the_report_counts_what_a_denoiser_was_asked(graphs: bool | None) -> None:
    schedule = da.StochasticLocalization(60, delta=0.05)
    counting = CountingDenoiser(GaussianMixture.random(3).denoiser(schedule))
    report = da.sample(GaussianChain(counting, schedule, (3,)), 5, seed=0, graphs=graphs).report
    assert report.choice and counting.queries == report.queries + report.probes and report.probes > 0


@pytest.mark.usefixtures("clock")
def test_one_pass_end_to_end() -> None:
    report = da.sample(OnePass(DenseLogistic(40), call=5e-3), 3, seed=0).report
    assert report.sampler.startswith("Coupled(window=None") and report.rounds < 20


def test_evidence_leaves_few_steps() -> None:
    chain = TokenChain(DenseLogistic(20), evidence=[1] * 15 + [HIDDEN] * 5)
    report = da.sample(chain, 3, seed=0).report
    assert report.sampler == "Sequential()" and report.probes == 0 and "only 5 steps" in report.choice


def test_the_run_itself_meets_what_measuring_met() -> None:
    def rows(tokens: Tensor) -> Tensor:
        raise ValueError("no such model")

    chain = TokenChain(rows, length=60, vocab_size=2)
    with pytest.raises(da.SamplingError, match="no such model") as caught:
        da.sample(chain, 2, seed=0)
    assert "measuring failed" in caught.value.result.report.choice


def test_a_sampler_that_is_named_is_not_chosen() -> None:
    report = da.sample(DenseLogistic(20), 3, seed=0, sampler=Coupled()).report
    assert report.choice == "" and report.probes == 0


def test_the_law(check: Check) -> None:
    """Tokens against their enumerated law, and paths of a diffusion, each as it happens to be drawn here."""
    tree = TreeIsing.random(8, coupling=0.8, field=0.2)
    tokens = da.sample(tree, 20_000, seed=0, max_live=20_000)
    chain = whole(Hypercube(2), da.StochasticLocalization(12, delta=0.05))
    paths = da.sample(chain, 2_000, seed=0, max_live=2_000, graphs=True)
    assert tokens.report.choice and paths.report.choice
    check(
        combined(
            [
                chi_square(outcome_counts(tokens.samples, 2), joint_law(tree)),
                path_p_value(innovations(chain, paths.samples)),
            ]
        )
    )


# Giving up


@pytest.mark.parametrize("graphs", [None, True])
@pytest.mark.parametrize("least", [1e9, 3.0])
def test_a_hard_target_is_gone_on_with_step_by_step(least: float, graphs: bool | None) -> None:
    """Left to right, each token is the sum of all before it and a coin: a guess is worth nothing."""

    def rows(tokens: Tensor) -> Tensor:
        ones = ((tokens == 1) * torch.arange(1, 31)).sum(1)  # no two prefixes look alike
        p = torch.where(((ones * 7919) % 13 < 6), 0.95, 0.05).double()
        return torch.stack([1 - p, p], dim=-1).log()[:, None].expand(-1, 30, 2)

    chain = TokenChain(rows, length=30, vocab_size=2, order=range(30))
    result = da.sample(chain, 8, seed=0, sampler=Coupled(window=6, least=least), graphs=graphs)
    plain = da.sample(chain, 8, seed=0, sampler=Coupled(window=6), graphs=graphs)
    reference = da.sample(chain, 8, seed=0, sampler=Sequential())
    assert torch.equal(result.samples, reference.samples) and torch.equal(plain.samples, reference.samples)
    widths = result.report.widths
    assert widths[0] == 8 and widths[1] == widths[5] == 8 * 7  # six rounds of trial
    if least == 1e9:
        assert max(widths[6:]) == 8 and result.report.rounds > plain.report.rounds
        assert all(steps[7] - steps[6] == 1 for steps in result.report.progress.values())
    assert result.report.queries < plain.report.queries


def test_what_pays_goes_on() -> None:
    """Where much is kept, asking for a few steps a round changes nothing; and it is decided sample by sample."""
    for sampler in (Coupled(window=8, least=3.0), Coupled(window=8)):
        report = da.sample(Pairs(96), 4, seed=0, sampler=sampler).report
        assert report.mean_rounds < 20
    one, other = (
        da.sample(Pairs(96), 4, seed=0, sampler=sampler).report
        for sampler in (Coupled(window=8, least=3.0), Coupled(window=8))
    )
    assert one.widths == other.widths
    position = torch.tensor([4, 6, 30])
    assert Coupled(least=1.0).pays(position, torch.tensor(5)).all()  # too early to say
    assert Coupled(least=1.0).pays(position, torch.tensor(6)).tolist() == [False, True, True]
    assert Coupled(least=5.0).pays(position, torch.tensor([7, 7, 7])).tolist() == [False, False, True]


def test_on_a_diffusion_it_looks_at_other_noise_only() -> None:
    """How long a model takes may depend on the state: what is timed must not be the samples that are drawn."""
    seen: list[Tensor] = []

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        seen.append(x.clone())
        return 0.9 * x

    chain = da.GaussianChain(denoiser, da.DDPM(timesteps=da.schedules.spaced(60, 1000)), (3,), dtype=torch.float64)
    report = da.sample(chain, 2, seed=0).report
    asked = seen.copy()
    seen.clear()
    da.sample(chain, 2, seed=0, sampler=Sequential())
    first = seen[0]  # where the samples of this seed start
    probed = 0  # queries before the samples themselves are begun
    while not torch.equal(asked[0][:2], first):
        probed += len(asked.pop(0))
    assert probed == report.probes > 0


class Deceptive:
    """A denoiser whose rounds take little longer when they are wide, but whose drafts are worth little: how many steps
    a sample keeps differs much from sample to sample."""

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        time.sleep(2e-3 + 2e-4 * len(x))
        return 3 * torch.sign(torch.sin(40 * x)) + 0.1 * x


def deceptive() -> GaussianChain:
    return GaussianChain(Deceptive(), da.DDPM(timesteps=da.schedules.spaced(40, 1000)), (2,), dtype=torch.float64)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
def test_equal_calls_give_equal_samples(graphs: bool) -> None:
    """Overlapping numbers and repeated seeds, together or one by one: what was drawn decides nothing. Each is what
    a fresh chain gives for the sampler that the first report names."""
    chain, samplers = deceptive(), dict[int, str]()
    calls = [
        (2, 0, 7, 1),
        (1, 1, 7, 1),
        (3, 0, 7, 1),
        (1, 1, 7, 1),
        (2, 1, 8, 2),
        (2, 0, 8, 2),
        (2, 1, 8, 2),
        (1, 2, 7, 9),
    ]
    for num_samples, first, seed, max_live in calls:
        result = da.sample(chain, num_samples, first=first, seed=seed, max_live=max_live, graphs=graphs)
        name = samplers.setdefault(min(num_samples, max_live), result.report.sampler)
        assert result.report.sampler == name
        fresh = da.sample(
            deceptive(), num_samples, first=first, seed=seed, max_live=max_live, graphs=graphs, sampler=from_repr(name)
        )
        assert torch.equal(result.samples, fresh.samples)


@pytest.mark.usefixtures("clock")
def test_the_gain_in_the_report_is_the_one_that_came() -> None:
    """Not what was hoped for: it is worked out from the rounds that samples took."""
    oracle = Sleeping(MixtureOfProducts.random(64), call=0.02)
    da.sample(oracle, 2, seed=1)
    one, other = (da.sample(oracle, 2, seed=0, sampler=sampler).report for sampler in (None, Sequential()))
    assert float(one.choice.split(":")[-1].split("x")[0]) == pytest.approx(other.seconds / one.seconds, rel=0.3)


# What it costs


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "together"), [(120, 4), (200, 1)])
def test_it_is_never_much_slower_than_sequential(steps: int, together: int) -> None:
    """On a network whose time grows with the batch, with its measuring: at least 0.95 times as fast."""
    chain = da.networks.fashion(steps)
    da.sample(chain, together, seed=9, sampler=Sequential())  # warm up
    auto = sequential = 0.0
    for seed in range(3):
        chain = chain.replace()  # nothing is known about it: it is measured every time
        for sampler in (None, Sequential()):
            began = time.process_time()
            report = da.sample(chain, together, seed=seed, sampler=sampler).report
            spent = time.process_time() - began
            auto, sequential = (auto + spent, sequential) if sampler is None else (auto, sequential + spent)
            assert sampler is not None or report.choice
    assert sequential >= 0.95 * auto, f"{auto:.2f} s, of which {sequential:.2f} s were needed"
