"""Nothing that was drawn before shows in what is drawn next: whatever has been changed about a chain or its model, the
samples are those of a fresh process. Captured rounds are kept from call to call, shared by nobody, and go with their
model; tests/test_guard.py has what they are captured anew for."""

from __future__ import annotations

import copy
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead import (
    HIDDEN,
    Block,
    CountingOracle,
    Coupled,
    GaussianChain,
    InputError,
    Report,
    SamplingError,
    Sequential,
    TokenChain,
)
from drawahead.chains.base import Chain
from drawahead.rounds.captured import guard, held
from drawahead.rounds.captured.batch import CapturedBatch
from drawahead.rounds.captured.guard import Guard
from drawahead.samplers import Sampler
from drawahead.targets import GaussianMixture, MixtureOfProducts
from tests.ardiffusion.test_model import CONFIGS, awake
from tests.changes import (
    CHANGES,
    DDPM,
    EVIDENCE,
    KNOWN,
    LENGTH,
    NUMBER,
    START,
    WALK,
    Change,
    Network,
    Spins,
    assert_copies_apart,
    assert_seen,
    batches_used,
    drawn,
    epsilon,
    function,
    gaussian,
    kernels,
    lanes,
    module,
    noisy,
    parts,
    same,
    spins,
    text,
    token,
    told,
)

PACKINGS = pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[CapturedBatch]:
    """The batches that captured runs were given."""
    return batches_used(monkeypatch)


# Changes


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_is_seen(change: Change) -> None:
    """In captured rounds, and in some of the packed ones, which keep nothing from call to call."""
    for graphs in (True, False) if change in CHANGES[::4] else (True,):
        assert_seen(change, graphs)


@pytest.mark.parametrize("change", [change for change in CHANGES if change.own or change.deep][::2], ids=str)
def test_a_copy_may_be_changed_alone(change: Change) -> None:
    """In captured rounds: packed ones keep nothing from call to call."""
    assert_copies_apart(change, graphs=True)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [Sequential(), Coupled(), Block(3), da.Stepwise(), da.Picard()], ids=repr)
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_is_seen_by_every_sampler(change: Change, sampler: Sampler) -> None:
    chain, seeds = change.make(), range(1, 4)
    before = [drawn(chain, True, sampler, seed) for seed in seeds]
    expected = [drawn(change.fresh(), True, sampler, seed) for seed in seeds]
    chain = change.of(chain)
    assert all(same(drawn(chain, True, sampler, seed), wanted) for seed, wanted in zip(seeds, expected, strict=True))
    assert not all(map(same, before, expected)), "this change would not show"


@PACKINGS
def test_dropout_that_is_turned_on_is_seen(graphs: bool) -> None:
    """Answers are then random, and so the samples are nobody's; but they are not those of before. And off it is off."""
    torch.manual_seed(0)
    network = Network(dropout=0.5)
    chain = GaussianChain(network, WALK, (3,), dtype=torch.float64)
    before = drawn(chain, graphs)
    network.train()
    assert not same(drawn(chain, graphs), before)
    network.eval()
    assert same(drawn(chain, graphs), before)
    network.drop.train()  # a part of it
    assert not same(drawn(chain, graphs), before)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_counter_that_is_copied_counts_for_itself(copied: Callable[[CountingOracle], CountingOracle]) -> None:
    first = CountingOracle(Spins())
    da.sample(first, 2, sampler=Sequential(), seed=0)
    calls = first.calls
    second = copied(first)
    da.sample(second, 2, sampler=Sequential(), seed=0)
    assert (first.calls, second.calls) == (calls, 2 * calls)


@PACKINGS
@pytest.mark.parametrize("make", [spins, module, lanes, text], ids=lambda make: make.__name__)
def test_threads_may_draw_from_the_same_model_at_once(make: Callable[[], Chain], graphs: bool) -> None:
    chain, seeds = make(), range(3)
    alone = [drawn(make(), graphs, seed=seed) for seed in seeds]
    found: dict[tuple[int, int], Tensor] = {}
    together = threading.Barrier(len(seeds))

    def work(seed: int) -> None:
        together.wait()
        for time in range(2):
            found[seed, time] = drawn(chain, graphs, seed=seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 * len(seeds)
    assert all(same(samples, alone[seed]) for (seed, _), samples in found.items())


# Chains are values: another setting is another chain


NOT_VALID: list[tuple[Callable[..., Chain], str, Any]] = [
    (gaussian, "record", [20]),
    (gaussian, "known", torch.zeros(2)),
    (lanes, "record", [20]),
    (token, "order", "left to right"),
    (token, "order", torch.zeros(LENGTH, dtype=torch.int64)),
    (token, "evidence", torch.full((LENGTH,), 7)),
]


@pytest.mark.parametrize(
    ("make", "name", "value"),
    NOT_VALID,
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
def test_another_setting_is_checked_as_by_the_constructor(make: Callable[..., Chain], name: str, value: Any) -> None:
    with pytest.raises(InputError):
        make().replace(**{name: value})


@dataclass(frozen=True)
class Tabled(da.schedules.Schedule):
    """A user's schedule, which holds a tensor: two of them cannot be compared by value."""

    s: Tensor

    def plan(self) -> da.schedules.Plan:
        return replace(WALK.plan(), s=self.s)


def test_a_schedule_is_another_if_it_is_another_object() -> None:
    one, other = (Tabled(torch.full((6,), s, dtype=torch.float64)) for s in (0.5, 0.9))
    chain = gaussian(schedule=one)
    assert same(drawn(chain.replace(schedule=other), False), drawn(gaussian(schedule=other), False))
    assert not same(drawn(chain, False), drawn(chain.replace(schedule=other), False))


@pytest.mark.parametrize("make", [gaussian, lanes, token], ids=lambda make: make.__name__)
def test_a_chain_cannot_be_changed(make: Callable[..., Chain]) -> None:
    chain = make()
    before = dict(vars(chain))
    for name in (*vars(chain), "another"):
        with pytest.raises(AttributeError, match=rf"chain\.replace\({name}=\.\.\.\) makes another"):
            setattr(chain, name, None)
    with pytest.raises(InputError, match="cannot be changed"):
        del chain.device
    assert all(vars(chain)[name] is part for name, part in before.items())
    with pytest.raises(InputError, match=r"chain\.replace\(condition=\.\.\.\) makes another"):
        told().condition["condition"] = START
    copies = copy.copy(chain), copy.deepcopy(chain)
    assert all(same(drawn(each, False), drawn(chain, False)) for each in copies)


# What was captured is used again


KINDS: dict[str, Callable[[], Chain]] = {
    "tokens": spins,
    "a mixture": lambda: TokenChain(MixtureOfProducts.random(LENGTH)),
    "a function": function,
    "noisy": noisy,
    "text": text,
    "module": module,
    "lanes": lanes,
    "parts": lambda: parts(awake(CONFIGS[0])),
    "target": lambda: GaussianChain(GaussianMixture.random(3), DDPM),
    "epsilon": lambda: epsilon(Network()),
    "kernels": lambda: kernels(Network()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_captured_is_used_again(kind: str, used: list[CapturedBatch]) -> None:
    """From the second call on, whatever the seed, and without capturing anything more for what was drawn before."""
    chain = KINDS[kind]()
    first = drawn(chain, True, seed=0)
    shapes = set(used[0].graphs)
    again = drawn(chain, True, seed=0)
    assert used[1] is used[0] and set(used[1].graphs) == shapes and shapes
    other = drawn(chain, True, seed=1)
    assert used[2] is used[0]
    assert same(first, again) and not same(first, other) and same(other, drawn(KINDS[kind](), True, seed=1))


@pytest.mark.parametrize("sampler", [Sequential(), Coupled(), Block(3), da.Stepwise(), da.Picard()], ids=repr)
def test_every_sampler_uses_it_again(sampler: Sampler, used: list[CapturedBatch]) -> None:
    for chain in (spins(), module()):
        first, second = (drawn(chain, True, sampler) for _ in range(2))
        assert used[-1] is used[-2] and same(first, second)


def swapped(network: Network) -> None:
    network.first.weight.data = network.first.weight.data.clone()


def rescaled(network: Network) -> None:
    network.scale = 2.0


@pytest.mark.parametrize(
    ("change", "begins", "again"),
    [
        (lambda network: None, True, True),
        (rescaled, True, False),
        (swapped, False, False),
    ],
    ids=["as it was", "a number has changed", "a tensor lies elsewhere"],
)
def test_a_first_round_begins_before_it_is_known_to_count(
    change: Callable[[Network], None],
    begins: bool,
    again: bool,
    used: list[CapturedBatch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a device that works while Python does, if the round can do no harm; it counts if nothing has changed."""
    happened: list[str] = []

    def looking(*arguments: Any) -> Any:
        happened.append("looked")
        return Guard(*arguments)

    def asking(*arguments: Any) -> Any:
        happened.append("asked")
        return plain(*arguments)

    plain, network = CapturedBatch.round, Network()
    monkeypatch.setattr(held, "ASYNCHRONOUS", {"cpu"})
    monkeypatch.setattr(held.Held, "is_due", lambda held, batch: False)
    monkeypatch.setattr(guard, "Guard", looking)
    monkeypatch.setattr(CapturedBatch, "round", asking)
    chain = GaussianChain(network, WALK, (3,), dtype=torch.float64)
    before, rounds = (da.sample(chain, NUMBER, sampler=Coupled(3), seed=1, graphs=True).report.rounds for _ in range(2))
    assert before == rounds
    change(network)
    happened.clear()
    result = da.sample(chain, NUMBER, sampler=Coupled(3), seed=1, graphs=True)
    assert happened[: 1 + begins] == ["asked", "looked"][1 - begins :]
    assert (used[-1] is used[-2]) == again
    in_vain = happened.count("asked") - result.report.rounds
    assert in_vain > 0 if begins and not again else in_vain == 0
    fresh = module()
    change(fresh.denoiser)
    assert torch.equal(result.samples, drawn(fresh, True, seed=1))


def through(runner: da.Runner, chain: Chain) -> Tensor:
    return runner.using(chain=chain).sample(NUMBER, seed=1).samples


def test_orders_and_evidence_are_the_samples_own(used: list[CapturedBatch]) -> None:
    """Chains on one oracle may go through one runner, which captures nothing anew for them."""
    chain = TokenChain(Spins())
    runner = da.Runner(chain, Coupled(3), graphs=True)
    each = torch.stack([EVIDENCE, EVIDENCE.flip(0)] * 2)
    options: list[dict[str, Any]] = [{}, {"evidence": EVIDENCE}, {"evidence": each}, {"order": "spread"}, {}]
    for option in options:
        other = chain.replace(**option)
        assert same(through(runner, other), drawn(other, False, Sequential())), option
    assert len({id(batch) for batch in used}) == 1


def test_starts_known_entries_and_conditions_are_the_samples_own(used: list[CapturedBatch]) -> None:
    chain = module(known=KNOWN, start=START)
    runner = da.Runner(chain, Coupled(3), graphs=True)
    first = through(runner, chain)
    other = chain.replace(known=2 * KNOWN, start=-START)
    assert same(through(runner, other), drawn(other, False)) and not same(through(runner, other), first)
    assert same(through(runner, chain), first) and len({id(batch) for batch in used}) == 1
    conditioned = da.Runner(told(), Coupled(3), graphs=True)
    conditioned.sample(NUMBER, seed=1)
    otherwise = conditioned.sample(NUMBER, seed=1, condition={"condition": -START}).samples
    assert same(otherwise, drawn(told(-START), False)) and used[-1] is used[-2]


def test_a_batch_of_another_size_is_another(used: list[CapturedBatch]) -> None:
    chain = spins()
    whole = drawn(chain, True)
    few = da.sample(chain, NUMBER, sampler=Coupled(3), seed=1, graphs=True, max_live=2).samples
    assert same(few, whole) and (used[0].rows, used[1].rows) == (NUMBER, 2)
    assert same(drawn(chain, True), whole) and used[2] is used[0]


def test_each_sampler_has_its_own(used: list[CapturedBatch]) -> None:
    chain = module()
    samplers: list[Sampler] = [Coupled(3), Coupled(4), Coupled(3, secant=False), Coupled(3, least=1.5), da.Picard(3.0)]
    first = [drawn(chain, True, sampler) for sampler in samplers]
    assert len({id(batch) for batch in used}) == len(samplers)
    assert all(same(drawn(chain, True, sampler), before) for sampler, before in zip(samplers, first, strict=True))
    assert used[len(samplers) :] == used[: len(samplers)]


def test_few_are_kept_and_the_oldest_goes_first(used: list[CapturedBatch]) -> None:
    chain = spins()
    for window in range(1, 13):
        drawn(chain, True, Coupled(window))
    drawn(chain, True, Coupled(12))
    drawn(chain, True, Coupled(1))
    drawn(chain, True, Coupled(6))
    assert used[12] is used[11] and used[13] is not used[0] and used[14] is used[5]


def test_what_is_in_use_is_not_shared(used: list[CapturedBatch]) -> None:
    """A call within a call has a batch of its own."""
    chain = module()
    expected = drawn(chain, True)

    def draw(report: Report) -> None:
        assert same(drawn(chain, True), expected)

    assert same(da.sample(chain, NUMBER, sampler=Coupled(3), seed=1, graphs=True, on_round=draw).samples, expected)
    assert used[1] is used[0] and all(batch is not used[1] for batch in used[2:]) and used[2] is used[3]


def test_a_run_that_fails_leaves_nothing_wrong_behind() -> None:
    broken = True

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return torch.full_like(x, torch.nan) if broken and bool((k == 4).any()) else torch.tanh(x)

    chain = GaussianChain(denoiser, WALK, (3,), dtype=torch.float64)
    with pytest.raises(SamplingError):
        drawn(chain, True)
    broken = False
    assert same(drawn(chain, True), drawn(chain, False))


def test_bad_answers_do_not_stay_with_a_batch(used: list[CapturedBatch]) -> None:
    """Evidence that the model cannot bear is another sample's business: the batch that met it is used again."""

    def rows(tokens: Tensor) -> Tensor:
        return Spins().rows(tokens).masked_fill((tokens[:, 0] == 1)[:, None, None], torch.nan)

    oracle = da.FunctionOracle(rows, LENGTH, 2)
    good, bad = (TokenChain(oracle, evidence=[first] + [HIDDEN] * (LENGTH - 1)) for first in (0, 1))
    expected = drawn(good, True)
    with pytest.raises(SamplingError):
        drawn(bad, True)
    assert same(drawn(good, True), expected)


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_run_that_is_stopped_leaves_nothing_wrong_behind(rounds: int, used: list[CapturedBatch]) -> None:
    chain, stop = spins(), threading.Event()
    whole = drawn(chain, True)
    part = da.sample(
        chain,
        NUMBER,
        sampler=Coupled(3),
        seed=2,
        graphs=True,
        stop=stop,
        on_round=lambda report: stop.set() if report.rounds >= rounds else None,
    )
    assert not part.complete and same(drawn(chain, True), whole) and used[2] is used[0]


# What is kept goes with its model


@pytest.fixture
def _only_what_is_new() -> Iterator[None]:
    """Garbage is looked for among what a test has made, which takes milliseconds."""
    gc.freeze()
    yield
    gc.unfreeze()


def references(chain: Chain) -> list[weakref.ref[Any]]:
    """To a chain, its model, the modules and tensors of it."""
    model: Any = getattr(chain, "oracle", None) or chain.denoiser  # type: ignore[attr-defined]
    held = [chain, model, *(part for part in vars(model).values() if isinstance(part, nn.Module | Tensor))]
    modules = [part for owner in held if isinstance(owner, nn.Module) for part in owner.modules()]
    return [weakref.ref(one) for one in [*held, *modules, *(p for part in modules for p in part.parameters())]]


@PACKINGS
@pytest.mark.usefixtures("_only_what_is_new")
@pytest.mark.parametrize("sampler", [Coupled(3), None], ids=["Coupled", "Auto"])
@pytest.mark.parametrize("kind", ["tokens", "text", "module", "lanes", "noisy", "a function", "parts"])
def test_nothing_is_left_of_a_model_that_goes(
    kind: str, sampler: Sampler | None, graphs: bool, used: list[CapturedBatch]
) -> None:
    chain = KINDS[kind]()
    for seed in range(2):
        da.sample(chain, NUMBER, sampler=sampler, seed=seed, graphs=graphs)
    watched = references(chain) + [weakref.ref(batch) for batch in used]
    assert (len(used) > 0) == graphs
    used.clear()
    del chain
    gc.collect()
    assert not [reference() for reference in watched if reference() is not None]


@pytest.mark.usefixtures("_only_what_is_new")
def test_models_that_come_and_go_leave_no_tensors() -> None:
    def alive() -> int:
        gc.collect()
        return sum(issubclass(type(one), Tensor) for one in gc.get_objects())

    def come_and_go(seed: int) -> None:
        drawn(GaussianChain(Network(seed), WALK, (3,), dtype=torch.float64), True)
        drawn(spins(seed), True)

    come_and_go(0)
    before = alive()
    for seed in range(8):
        come_and_go(seed)
    assert alive() <= before


@pytest.mark.usefixtures("_only_what_is_new")
def test_what_is_kept_of_others_stays(used: list[CapturedBatch]) -> None:
    chains = [spins(seed) for seed in range(3)]
    for chain in chains:
        drawn(chain, True)
    del chain, chains[1]
    gc.collect()
    for chain in chains:
        drawn(chain, True)
    assert used[3] is used[0] and used[4] is used[2]


def drawn_while_they_go(chain: Chain, others: list[Chain], line: int) -> Tensor:
    """The others go before the line of this number, of those that look after what is kept, is executed."""

    def following(frame: Any, event: str, argument: Any) -> Any:
        nonlocal line
        if frame.f_code.co_filename != held.__file__:
            return None
        if event == "line" and (line := line - 1) == -1:
            others.clear()
            gc.collect()
        return following

    before = sys.gettrace()
    sys.settrace(following)
    try:
        return drawn(chain, True)
    finally:
        sys.settrace(before)


@pytest.mark.usefixtures("_only_what_is_new")
def test_a_model_may_go_at_any_moment_of_another_ones_call(used: list[CapturedBatch]) -> None:
    """Garbage is collected when Python likes."""
    chain, line, others = spins(), -1, list[Chain]()
    expected = drawn(chain, True)
    while not others:
        line, others = line + 1, [spins(1)]
        drawn(others[0], True)
        drawn(chain, True)
        found = drawn_while_they_go(chain, others, line)
        assert same(found, expected) and used[-1] is used[-2], f"before line {line}"
    assert line > 10


@pytest.mark.usefixtures("_only_what_is_new")
def test_a_class_that_knows_its_instance_goes_with_it() -> None:
    """Classes made in a function often refer to what was made there."""

    def made() -> weakref.ref[Any]:
        class Local(Spins):
            def rows(self, tokens: Tensor) -> Tensor:
                return Spins.rows(model, tokens)

        model = Local()
        drawn(TokenChain(model), True)
        return weakref.ref(model)

    left = made()
    gc.collect()
    assert left() is None


@pytest.mark.usefixtures("_only_what_is_new")
def test_a_model_that_goes_while_it_is_drawn_from_goes_after_it() -> None:
    """The call holds it; nothing else does."""
    box = [module()]
    reference = weakref.ref(box[0])
    da.sample(box.pop(), 3, sampler=Coupled(3), seed=0, graphs=True)
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("make", [spins, module, lanes], ids=lambda make: make.__name__)
def test_nothing_is_planted_in_what_users_own(make: Callable[[], Chain]) -> None:
    chain = make()
    model: Any = getattr(chain, "oracle", None) or chain.denoiser  # type: ignore[attr-defined]
    before = set(vars(chain)), set(vars(model))
    for sampler in (Coupled(3), None):
        for graphs in (True, False):
            da.sample(chain, 3, sampler=sampler, seed=0, graphs=graphs)
    assert (set(vars(chain)), set(vars(model))) == before


@pytest.mark.parametrize("sampler", [Coupled(3), Coupled(), Coupled(12), da.Block(), da.Sequential()], ids=repr)
@pytest.mark.parametrize("kind", ["vectors", "tokens", "one pass", "told"])
def test_rounds_that_begin_early_change_nothing(
    kind: str, sampler: da.Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device that works while Python does, a round begins before the one before it is read back: samples, rounds
    and what the model is asked stay the same, but for a round that nobody needed any more."""
    makes: dict[str, Callable[[], Chain]] = {
        "vectors": lambda: GaussianChain(Network(), da.DDPM(timesteps=da.schedules.spaced(40, of=1000)), (3,)),
        "tokens": lambda: TokenChain(
            lambda tokens: torch.zeros(len(tokens), 30, 3).log_softmax(-1), length=30, vocab_size=3
        ),
        "one pass": lambda: TokenChain(da.targets.DenseLogistic(40, beta=1.5)),
        "told": lambda: module(),
    }
    rounds: list[int] = []
    plain = CapturedBatch.round
    monkeypatch.setattr(CapturedBatch, "round", lambda *given: rounds.append(1) or plain(*given))

    def drawn_twice(number: int, live: int) -> list[da.Result]:
        chain = makes[kind]()
        results = []
        for seed in (1, 2):
            rounds.clear()
            results.append(da.sample(chain, number, sampler=sampler, seed=seed, graphs=True, max_live=live))
            assert len(rounds) == results[-1].report.rounds
        return results

    for number, live in ((1, 1), (5, 2), (4, 4)):
        before = drawn_twice(number, live)
        with monkeypatch.context() as early:
            early.setattr(held, "ASYNCHRONOUS", {"cpu"})
            after = drawn_twice(number, live)
        for one, other in zip(before, after, strict=True):
            assert torch.equal(one.samples, other.samples)
            assert one.report.sample_rounds == other.report.sample_rounds or live < number
            assert one.report.rounds <= other.report.rounds <= one.report.rounds + number


@pytest.mark.parametrize("live", [1, 2, 3])
def test_samples_that_wait_are_drawn_although_a_round_was_begun_for_those_that_ended(
    live: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All drafts are kept at once: rows end in a round behind which the next one was begun already."""
    monkeypatch.setattr(held, "ASYNCHRONOUS", {"cpu"})
    rounds: list[int] = []
    plain = CapturedBatch.round
    monkeypatch.setattr(CapturedBatch, "round", lambda *given: rounds.append(1) or plain(*given))
    lengths = torch.tensor([9, 30, 17, 40, 9, 33])
    evidence = torch.where(torch.arange(40) < lengths[:, None], -1, 0)
    chain = TokenChain(
        lambda tokens: torch.zeros(len(tokens), 40, 3).log_softmax(-1), length=40, vocab_size=3, evidence=evidence
    )
    for sampler in (Coupled(8), Coupled(16), Coupled(40)):
        told: list[int] = []
        expected = da.sample(chain, 6, sampler=sampler, seed=1, max_live=live)
        rounds.clear()
        result = da.sample(
            chain,
            6,
            sampler=sampler,
            seed=1,
            graphs=True,
            max_live=live,
            on_round=lambda report, told=told: told.append(report.rounds),
        )
        assert result.complete and torch.equal(result.samples, expected.samples)
        assert told[-1] == result.report.rounds == len(rounds)
        assert result.report.rounds <= expected.report.rounds + 6


def test_rounds_do_begin_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: most rounds of a long chain are asked for before the one before is read back."""
    under_way: list[int] = []
    look = CapturedBatch.look

    def looking(batch: CapturedBatch) -> Any:
        positions, number = look(batch), len(under_way)
        under_way.append(0)

        def read() -> Any:
            under_way[number] = len(under_way) - number
            return positions()

        return read

    monkeypatch.setattr(held, "ASYNCHRONOUS", {"cpu"})
    monkeypatch.setattr(CapturedBatch, "look", looking)
    chain = GaussianChain(Network(), da.DDPM(timesteps=da.schedules.spaced(100, of=1000)), (3,))
    for seed in range(2):
        under_way.clear()
        da.sample(chain, 1, sampler=Coupled(4), seed=seed, graphs=True)
    assert sum(number == 2 for number in under_way) > len(under_way) / 2 and max(under_way) == 2
