"""The default measures, chooses, says why, and changes no law."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Auto, CountingDenoiser, CountingOracle, Coupled, GaussianChain, Sequential, TokenChain
from drawahead.agreement import chi_square
from drawahead.oracles import HIDDEN, TokenOracle
from drawahead.samplers.auto import Choice
from drawahead.targets import DenseLogistic, GaussianMixture, Hypercube, MixtureOfProducts, Pairs, Product, TreeIsing
from tests.exactness import combined, joint_law, outcome_counts
from tests.gaussian.reference import innovations, path_p_value, whole

Check = Callable[[float], None]


class Bench:
    """What `Auto` may measure, made up."""

    def __init__(
        self,
        seconds: Callable[[int], float],
        rounds: Callable[[int], float] | None = None,
        *,
        steps: int = 1000,
        live: int = 4,
        whole: bool = False,
    ) -> None:
        self._seconds, self._rounds = seconds, rounds
        self.steps, self.live, self.whole, self.pilots = steps, live, whole, rounds is not None
        self.where = f"pilots {self.pilots}"
        self.asked: list[int] = []

    def seconds(self, window: int) -> float:
        self.asked.append(window)
        return self._seconds(window)

    def rounds(self, window: int) -> float:
        assert self._rounds is not None, "pilots are not cheap here"
        return self._rounds(window)


def chosen(bench: Bench, memory: dict[Any, Choice] | None = None) -> Choice:
    return Auto().choose(bench, {} if memory is None else memory)


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


@pytest.mark.parametrize("rounds", [None, lambda window: 1000 / (1 + 0.3 * window)], ids=["times", "pilots"])
def test_where_time_grows_with_the_queries_it_is_sequential(rounds: Callable[[int], float] | None) -> None:
    choice = chosen(Bench(linear, rounds))
    assert choice.sampler == Sequential() and ("gain" in choice.reason or "cannot pay" in choice.reason)


@pytest.mark.parametrize("rounds", [None, lambda window: 1000 / (1 + 0.3 * window)], ids=["times", "pilots"])
def test_where_queries_are_free_the_window_is_wide(rounds: Callable[[int], float] | None) -> None:
    choice = chosen(Bench(flat, rounds))
    assert window_of(choice) >= 500 and ("less time" if rounds else "expected gain") in choice.reason


@pytest.mark.parametrize("rounds", [None, lambda window: 1000 / (1 + 0.3 * window)], ids=["times", "pilots"])
def test_where_queries_are_free_up_to_a_point_the_window_ends_about_there(
    rounds: Callable[[int], float] | None,
) -> None:
    choice = chosen(Bench(lambda window: 0.01 * max(1.0, (window + 1) / 64), rounds))
    assert 16 <= window_of(choice) <= 128


def test_pilots_decide() -> None:
    """A target on which nothing is ever kept is drawn one step at a time, however cheap its rounds are."""
    assert chosen(Bench(flat, lambda window: 1000.0)).sampler == Sequential()
    assert chosen(Bench(flat, lambda window: 960.0)).sampler == Sequential()
    assert window_of(chosen(Bench(flat, lambda window: 800.0))) >= 32
    narrow = chosen(Bench(lambda window: 0.01 + 1e-5 * window, lambda window: 100.0 if window < 100 else 99.0))
    assert window_of(narrow) == 32


@pytest.mark.parametrize("unlucky", [32, 64, 128, 256])
def test_one_unlucky_pilot_does_not_decide(unlucky: int) -> None:
    """Whichever window's pilots take a tenth more rounds than they should, the choice costs 6% more time at most."""

    def seconds(window: int) -> float:
        return 1.0 + window / 64

    def rounds(window: int) -> float:
        return 15 + 1070 / window

    choice = chosen(Bench(seconds, lambda window: rounds(window) * (1.1 if window == unlucky else 1.0)))
    least = min(rounds(window) * seconds(window) for window in (32, 64, 128, 256))
    assert rounds(window_of(choice)) * seconds(window_of(choice)) <= 1.06 * least


def test_one_pass_answers_a_whole_path() -> None:
    for rounds in (None, lambda window: 20.0):
        bench = Bench(flat, rounds, whole=True)
        choice = chosen(bench)
        assert isinstance(choice.sampler, Coupled) and choice.sampler.window is None
        assert set(bench.asked) == {0, 999}
    assert chosen(Bench(linear, whole=True)).sampler == Sequential()


def test_it_will_give_up_where_a_round_must_pay_for_itself() -> None:
    """`least` is how many steps a round must commit, on average, to take no longer than as many single ones."""
    choice = chosen(Bench(lambda window: 0.001 if not window else 0.002))
    assert isinstance(choice.sampler, Coupled) and choice.sampler.least == pytest.approx(2.0)


@pytest.mark.parametrize("steps", [1, 7])
def test_few_steps_are_not_worth_measuring(steps: int) -> None:
    bench = Bench(fails, fails, steps=steps)
    choice = chosen(bench)
    assert choice.sampler == Sequential() and f"{steps} steps" in choice.reason and not bench.asked


def test_what_fails_is_sequential_and_not_remembered() -> None:
    memory: dict[Any, Choice] = {}
    choice = chosen(Bench(fails), memory)
    assert choice.sampler == Sequential() and "measuring failed: out of memory" in choice.reason and not memory
    assert chosen(Bench(flat), memory).sampler != Sequential()
    assert chosen(Bench(flat, fails), {}).sampler == Sequential()


def test_what_was_chosen_is_remembered() -> None:
    memory: dict[Any, Choice] = {}
    first = chosen(Bench(flat), memory)
    again = Bench(fails)
    assert chosen(again, memory) == first and not again.asked
    for other in (Bench(linear, live=5), Bench(linear, steps=999), Bench(linear, lambda window: 900.0)):
        assert chosen(other, memory).sampler == Sequential() and other.asked  # another question
    assert len(memory) == 4


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
    report = da.sample(Sleeping(Pairs(16), sequence=2e-3), 2, seed=0).report
    assert report.sampler == "Sequential()" and report.rounds == 16 and report.choice


def test_a_model_that_waits_is_asked_much_at_a_time() -> None:
    oracle = Sleeping(MixtureOfProducts.random(64), call=0.02)
    result = da.sample(oracle, 2, seed=0)
    assert result.report.sampler.startswith("Coupled") and "times as long" in result.report.choice
    assert oracle.calls < 32, "measuring and drawing together"
    assert torch.equal(result.samples, da.sample(oracle.oracle, 2, seed=0, sampler=Sequential()).samples)
    asked = oracle.calls
    again = da.sample(oracle, 2, seed=1).report
    assert again.probes == 0 and oracle.calls - asked == again.rounds and again.choice == result.report.choice
    assert "chosen" in str(again) and "more to choose" in str(result.report)


def test_rounds_of_fixed_shape_are_measured_too() -> None:
    oracle = Sleeping(MixtureOfProducts.random(64), call=3e-3)
    result = da.sample(oracle, 2, seed=0, graphs=True)
    assert result.report.sampler.startswith("Coupled") and "a pilot needed" in result.report.choice
    assert result.report.rounds < 32
    assert torch.equal(result.samples, da.sample(oracle.oracle, 2, seed=0, sampler=Sequential()).samples)
    slow = Sleeping(MixtureOfProducts.random(40), sequence=1e-3)
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
    assert Coupled(least=1.0).pays(position, 5).all()  # too early to say
    assert Coupled(least=1.0).pays(position, 6).tolist() == [False, True, True]
    assert Coupled(least=5.0).pays(position, 7).tolist() == [False, False, True]


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


# What it costs


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "together"), [(120, 4), (200, 1)])
def test_it_is_never_much_slower_than_sequential(steps: int, together: int) -> None:
    """On a network whose time grows with the batch, with its measuring: at least 0.95 times as fast."""
    chain = da.networks.fashion(steps)
    da.sample(chain, together, seed=9, sampler=Sequential())  # warm up
    auto = sequential = 0.0
    for seed in range(3):
        chain.__dict__.pop("_choices", None)  # measure every time
        for sampler in (None, Sequential()):
            began = time.perf_counter()
            report = da.sample(chain, together, seed=seed, sampler=sampler).report
            spent = time.perf_counter() - began
            auto, sequential = (auto + spent, sequential) if sampler is None else (auto, sequential + spent)
            assert sampler is not None or report.choice
    assert sequential >= 0.95 * auto, f"{auto:.2f} s, of which {sequential:.2f} s were needed"
