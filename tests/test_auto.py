"""The default measures, chooses, says why, and changes no law."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Auto, CountingDenoiser, CountingOracle, Coupled, GaussianChain, Sequential, TokenChain
from drawahead.models.oracles import HIDDEN, TokenOracle
from drawahead.samplers.auto import Choice, Experience, between, expected_rounds
from drawahead.targets import DenseLogistic, GaussianMixture, Hypercube, MixtureOfProducts, Pairs, Product, TreeIsing
from drawahead.verification.statistics import chi_square
from tests.exactness import combined, joint_law, outcome_counts
from tests.gaussian.reference import innovations, path_p_value, whole

Check = Callable[[float], None]


class Made:
    """What `Auto` may measure, made up."""

    def __init__(
        self,
        seconds: Callable[[int], float],
        *,
        steps: int = 1000,
        whole: bool = False,
        captured: bool = False,
        harmless: bool = True,
        live: int = 1,
    ) -> None:
        self._seconds, self.live = seconds, live
        self.steps, self.whole, self.captured, self.harmless = steps, whole, captured, harmless
        self.first = 128 if captured else 1
        self.asked: list[int] = []

    def seconds(self, window: int) -> float:
        self.asked.append(window)
        return self._seconds(window)


def chosen(made: Made, known: Experience | None = None) -> Choice:
    return Auto().choose(made, Experience() if known is None else known)


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
    choice = chosen(made)
    assert choice.sampler == Sequential() and "times as long" in choice.reason
    assert captured or max(made.asked) == 1, "finding that out costs two rounds of one query and one of two"


@pytest.mark.parametrize("captured", [False, True])
def test_where_queries_are_free_the_window_is_wide(captured: bool) -> None:
    choice = chosen(Made(flat, captured=captured))
    assert window_of(choice) >= 64 and "less time" in choice.reason


@pytest.mark.parametrize("captured", [False, True])
def test_where_queries_are_free_up_to_a_point_the_window_ends_about_there(captured: bool) -> None:
    choice = chosen(Made(lambda window: 0.01 * max(1.0, (window + 1) / 64), captured=captured))
    assert 32 <= window_of(choice) <= 128


@pytest.mark.parametrize("unknown", [flat, linear, lambda window: 0.01 + 1e-4 * window])
def test_it_never_times_a_window_that_could_cost_more_than_it_wins(unknown: Callable[[int], float]) -> None:
    """In packed rounds nothing is timed that is more than four times as wide as what was timed before."""
    made = Made(unknown)
    chosen(made)
    widest = 1
    for window in made.asked:
        assert window <= 4 * widest
        widest = max(widest, window)
    assert len(set(made.asked)) <= 6


@pytest.mark.parametrize("captured", [False, True])
def test_samples_that_took_more_rounds_than_expected_narrow_or_end_it(captured: bool) -> None:
    """What earlier samples took decides, once there are some."""
    made, known = Made(lambda window: 0.01 + 1e-4 * window, captured=captured), Experience()
    first = window_of(chosen(made, known))
    known.learn(first, None, 1000.0, 8)  # nothing was ever kept
    assert chosen(made, known).sampler == Sequential()


def test_the_best_window_is_found_from_what_samples_took() -> None:
    """Calls one after another: the window settles where rounds times their seconds are least, within a tenth."""

    def seconds(window: int) -> float:
        return 1.0 + window / 40

    def rounds(window: int) -> float:
        return 8.0 + 3000 / window

    known = Experience()
    made = Made(seconds, captured=True)
    for _ in range(6):
        window = window_of(chosen(made, known))
        known.learn(window, seconds(window), rounds(window), 1)
    best = min(rounds(1 << i) * seconds(1 << i) for i in range(2, 10))
    assert rounds(window) * seconds(window) <= 1.1 * best


def test_a_choice_that_changes_samples_is_kept_unless_another_is_much_better() -> None:
    def seconds(window: int) -> float:
        return 1.0 + window / 40

    for harmless, changes in ((True, True), (False, False)):
        known = Experience()
        made = Made(seconds, captured=True, harmless=harmless)
        first = window_of(chosen(made, known))
        known.learn(first, seconds(first), 20.0 + 2500 / first, 4)
        known.learn(first * 4, seconds(first * 4), 20.0 + 2500 / (first * 4), 4)
        assert (window_of(chosen(made, known)) != first) == changes
    known.learn(first, seconds(first), 2000.0, 1000)
    assert chosen(made, known).sampler != Coupled(window=first)  # much better, now


def test_what_turned_out_slower_than_one_by_one_is_given_up() -> None:
    """Though samples change with it: but not for a little that another window might win."""

    def seconds(window: int) -> float:
        return 1.0 + window / 40

    made, known = Made(seconds, captured=True, harmless=False), Experience()
    first = window_of(chosen(made, known))
    known.learn(first, None, 0.99 * made.steps / seconds(first), 4)
    assert window_of(chosen(made, known)) == first
    known.learn(first, None, 1.02 * made.steps / seconds(first), 4000)
    assert chosen(made, known).sampler == Sequential()
    assert chosen(made, known).sampler == Sequential(), "it stays so"


def test_a_sample_among_others_gives_up_later_than_one_alone() -> None:
    """All others would wait for it while it goes on one step at a time."""
    alone, among = (chosen(Made(lambda window: 1.0 + window / 8, captured=True, live=live)).sampler for live in (1, 64))
    assert isinstance(alone, Coupled) and isinstance(among, Coupled) and alone.window == among.window
    assert 0.5 * alone.least < among.least < 0.9 * alone.least


def test_expected_rounds_follow_what_was_seen() -> None:
    known = Experience()
    guess = expected_rounds(1000, known)
    assert 15 < guess(128) < 35 and guess(4) >= 200 and guess(999) >= 1
    hoped = guess(128)
    known.learn(128, None, 2 * hoped, 3)
    assert expected_rounds(1000, known)(128) == pytest.approx(2 * hoped)
    known.learn(16, None, 200.0, 50)
    known.learn(128, None, 60.0, 1000)
    fitted = expected_rounds(1000, known)
    assert fitted(128) == pytest.approx(60.0, rel=0.1) and fitted(16) == pytest.approx(200.0, rel=0.15)
    assert fitted(4) <= 1000


def test_times_between_two_windows_lie_on_a_line() -> None:
    known = {0: 1.0, 8: 2.0, 64: 4.0}
    assert between(known, 4) == pytest.approx(1.5) and between(known, 8) == 2.0
    assert between(known, 36) == pytest.approx(3.0) and between(known, 128) > 4.0
    assert between({0: 1.0}, 50) == 1.0


def test_one_pass_answers_a_whole_path() -> None:
    for captured in (False, True):
        made = Made(flat, whole=True, captured=captured)
        choice = chosen(made)
        assert isinstance(choice.sampler, Coupled) and choice.sampler.window is None
        assert set(made.asked) == {0, 999}
        assert chosen(Made(linear, whole=True, captured=captured)).sampler == Sequential()


def test_it_will_give_up_where_a_round_must_pay_for_itself() -> None:
    """`least` is how many steps a round must commit, on average, to take no longer than as many single ones."""
    choice = chosen(Made(lambda window: 0.001 if not window else 0.002, captured=True))
    assert isinstance(choice.sampler, Coupled) and choice.sampler.least == pytest.approx(2.0)


@pytest.mark.parametrize("steps", [1, 7])
def test_few_steps_are_not_worth_measuring(steps: int) -> None:
    made = Made(fails, steps=steps)
    choice = chosen(made)
    assert choice.sampler == Sequential() and f"{steps} steps" in choice.reason and not made.asked


def test_what_fails_is_sequential_and_not_remembered() -> None:
    known = Experience()
    choice = chosen(Made(fails), known)
    assert choice.sampler == Sequential() and "measuring failed: out of memory" in choice.reason
    assert known.choice is None and chosen(Made(flat), known).sampler != Sequential()


def test_what_was_measured_is_remembered() -> None:
    known = Experience()
    for _ in range(4):
        last = chosen(Made(flat), known)
    again = Made(fails)
    assert chosen(again, known) == last and not again.asked


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


def test_a_model_whose_time_grows_with_the_batch_is_drawn_step_by_step() -> None:
    report = da.sample(Sleeping(Pairs(16), sequence=1e-2), 2, seed=0).report
    assert report.sampler == "Sequential()" and report.rounds == 16 and report.choice


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
        DenseLogistic(20, beta=1.5),
        TreeIsing.random(20),
        Sleeping(MixtureOfProducts.random(20, q=3)),
        OnePass(DenseLogistic(20), call=2e-3),
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
    assert (report.probes > 0) == (oracle.length >= 8)
    assert torch.equal(result.samples, da.sample(oracle, 6, seed=0, sampler=Sequential()).samples)
    assert report.to_dict()["choice"] == report.choice and report.to_dict()["probes"] == report.probes


@pytest.mark.parametrize("graphs", [None, True])
def test_the_report_counts_what_a_denoiser_was_asked(graphs: bool | None) -> None:
    schedule = da.StochasticLocalization(30, delta=0.05)
    counting = CountingDenoiser(GaussianMixture.random(3).denoiser(schedule))
    report = da.sample(GaussianChain(counting, schedule, (3,)), 5, seed=0, graphs=graphs).report
    assert report.choice and counting.queries == report.queries + report.probes and report.probes > 0


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

    chain = TokenChain(rows, length=20, vocab_size=2)
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

    chain = da.GaussianChain(denoiser, da.DDPM(timesteps=da.schedules.spaced(12, 1000)), (3,), dtype=torch.float64)
    report = da.sample(chain, 2, seed=0).report
    asked = seen.copy()
    seen.clear()
    da.sample(chain, 2, seed=0, sampler=Sequential())
    first = seen[0]  # where the samples of this seed start
    probed = 0  # queries before the samples themselves are begun
    while not torch.equal(asked[0][:2], first):
        probed += len(asked.pop(0))
    assert probed == report.probes > 0


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
def test_noise_that_was_drawn_before_has_no_part_in_how_it_is_drawn_again(
    graphs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds that it took may change the choice for other seeds; the same call draws the same samples again."""
    windows = iter(range(2, 9))

    def choose(auto: Auto, timings: object, known: Experience) -> Choice:
        known.choice = Choice(Coupled(next(windows)), "made up")
        return known.choice

    monkeypatch.setattr(Auto, "choose", choose)
    chain = GaussianChain(lambda x, k: torch.tanh(x), da.DDPM(timesteps=da.schedules.spaced(30, 1000)), (3,))
    first, other, later, again = (
        da.sample(chain, 2, seed=seed, first=number, graphs=graphs) for seed, number in ((0, 0), (1, 0), (0, 2), (0, 0))
    )
    samplers = [result.report.sampler for result in (first, other, later)]
    assert len(set(samplers)) == 3 and again.report.sampler == samplers[0]
    assert torch.equal(again.samples, first.samples)


def test_what_was_chosen_for_many_seeds_is_not_all_kept() -> None:
    known, choice = Experience(), Choice(Sequential(), "made up")
    for seed in range(5000):
        known.note((seed, 0), choice)
    assert (4999, 0) in known.past and (0, 0) not in known.past and len(known.past) < 2000


def test_the_gain_in_the_report_is_the_one_that_came() -> None:
    """Not what was hoped for: it is worked out from the rounds that samples took."""
    oracle = Sleeping(MixtureOfProducts.random(64), call=0.02)
    da.sample(oracle, 2, seed=1)
    one, other = (da.sample(oracle, 2, seed=0, sampler=sampler).report for sampler in (None, Sequential()))
    assert float(one.choice.split(":")[-1].split("x")[0]) == pytest.approx(other.seconds / one.seconds, rel=0.3)


def test_nothing_is_remembered_of_a_model_that_is_gone() -> None:
    from drawahead.engine import start

    oracle = Sleeping(MixtureOfProducts.random(20))
    da.sample(oracle, 2, seed=0)
    known = len(start._EXPERIENCE)
    del oracle
    gc.collect()
    assert len(start._EXPERIENCE) < known


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
            began = time.perf_counter()
            report = da.sample(chain, together, seed=seed, sampler=sampler).report
            spent = time.perf_counter() - began
            auto, sequential = (auto + spent, sequential) if sampler is None else (auto, sequential + spent)
            assert sampler is not None or report.choice
    assert sequential >= 0.95 * auto, f"{auto:.2f} s, of which {sequential:.2f} s were needed"
