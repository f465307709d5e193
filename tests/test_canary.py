"""What a guard cannot see, the canary finds: now and then the model is asked what its captured rounds were asked.

Rounds are only captured on a GPU. Here a stand-in for a CUDA graph does what one does: it goes on with the world as it
was when it was recorded, whatever has changed since.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, GaussianChain, Runner
from drawahead.rounds.captured import batch as captured
from drawahead.rounds.captured import canary, held
from tests.changes import NUMBER, WALK, Network, same, spins

NAME = "DRAWAHEAD_TEST_SCALE"
HIDDEN_SCALES, PLURAL = 1.0, "SCALES"


@contextmanager
def variable(value: str) -> Iterator[None]:
    now = os.environ[NAME]
    os.environ[NAME] = value
    try:
        yield
    finally:
        os.environ[NAME] = now


@contextmanager
def composed(value: float) -> Iterator[None]:
    now = globals()["HIDDEN_SCALES"]
    globals()["HIDDEN_SCALES"] = value
    try:
        yield
    finally:
        globals()["HIDDEN_SCALES"] = now


@pytest.fixture(autouse=True)
def _scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "1.0")
    monkeypatch.setitem(globals(), "HIDDEN_SCALES", 1.0)


class Frozen:
    """Stands for a graph: replays the work with what it was recorded with."""

    def __init__(self, work: Callable[[Any], None], model: Any) -> None:
        self.work, self.model = work, copy.deepcopy(model)
        self.environment, self.scales = os.environ[NAME], globals()["HIDDEN_SCALES"]
        work(model)  # as a graph's outputs are there once it is recorded

    def replay(self) -> None:
        with variable(self.environment), composed(self.scales):
            self.work(self.model)

    def pool(self) -> None:
        """There is none."""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Frozen]:
    """Everything that was recorded."""
    made: list[Frozen] = []

    def record(work: Callable[[Any], None], model: Any, device: torch.device, pool: Any = None) -> Frozen:
        made.append(Frozen(work, model))
        return made[-1]

    monkeypatch.setattr(captured, "record", record)
    monkeypatch.setattr(canary, "record", record)
    return made


@pytest.fixture
def _every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held.Held, "is_due", lambda held, batch: True)


def by_environment(x: Tensor, k: Tensor) -> Tensor:
    return float(os.environ[NAME]) * torch.tanh(x)


def by_composed_name(x: Tensor, k: Tensor) -> Tensor:
    return float(globals()["HIDDEN_" + PLURAL]) * torch.tanh(x)


CHANGES: dict[str, tuple[Any, Callable[[pytest.MonkeyPatch], None]]] = {
    "an environment variable": (by_environment, lambda patch: patch.setenv(NAME, "0.5")),
    "a name put together": (by_composed_name, lambda patch: patch.setitem(globals(), "HIDDEN_SCALES", 0.5)),
}


def runner_of(denoiser: Any) -> Runner:
    return Runner(GaussianChain(denoiser, WALK, (3,), dtype=torch.float64), Coupled(3), graphs=True)


@pytest.mark.usefixtures("_every_call")
@pytest.mark.parametrize("name", CHANGES)
def test_what_the_guard_cannot_see_the_canary_finds(
    name: str, recorded: list[Frozen], monkeypatch: pytest.MonkeyPatch
) -> None:
    denoiser, change = CHANGES[name]
    runner = runner_of(denoiser)
    before = runner.sample(NUMBER, seed=1).samples
    count = len(recorded)
    assert same(runner.sample(NUMBER, seed=1).samples, before) and len(recorded) == count
    change(monkeypatch)
    with pytest.warns(RuntimeWarning, match="no longer answers as its captured rounds do"):
        after = runner.sample(NUMBER, seed=1).samples
    assert len(recorded) > count, "the rounds are captured anew"
    assert same(after, runner_of(denoiser).sample(NUMBER, seed=1).samples) and not same(after, before)
    assert same(runner.sample(NUMBER, seed=1).samples, after)


@pytest.mark.parametrize("name", CHANGES)
def test_without_it_samples_would_be_old(name: str, recorded: list[Frozen], monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in does what a graph does; and `recapture` is for those who know."""
    denoiser, change = CHANGES[name]
    runner = runner_of(denoiser)
    before = runner.sample(NUMBER, seed=1).samples
    change(monkeypatch)
    monkeypatch.setattr(held.Held, "is_due", lambda held, batch: False)
    assert same(runner.sample(NUMBER, seed=1).samples, before), "the canary alone could tell"
    runner.recapture()
    assert not same(runner.sample(NUMBER, seed=1).samples, before)


@pytest.mark.usefixtures("_every_call", "recorded")
@pytest.mark.parametrize("make", [spins, lambda: GaussianChain(Network(), WALK, (3,), dtype=torch.float64)])
def test_an_unchanged_model_agrees(make: Callable[[], Any], recwarn: pytest.WarningsRecorder) -> None:
    """At whatever states its rows stand, for tokens and vectors."""
    runner = Runner(make(), Coupled(3), graphs=True)
    drawn = [runner.sample(NUMBER, seed=seed).samples for seed in range(4)]
    fresh = [Runner(make(), Coupled(3), graphs=True).sample(NUMBER, seed=seed).samples for seed in range(4)]
    assert all(map(same, drawn, fresh)) and not recwarn.list


@pytest.mark.usefixtures("recorded")
def test_it_takes_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Due once rounds have taken five hundred times as long as it takes itself."""
    sung: list[float] = []
    agrees = captured.CapturedBatch.agrees

    def noting(batch: Any, chain: Any) -> bool:
        answer = agrees(batch, chain)
        batch.canary.seconds = 1.0
        sung.append(batch.canary.seconds)
        return answer

    monkeypatch.setattr(captured.CapturedBatch, "agrees", noting)
    runner = runner_of(Network())
    runner.sample(NUMBER, seed=0)
    (batch,) = runner._held._batches.values()
    batch.canary.seconds = 1.0
    for calls, busy in enumerate((0.0, 100.0, 499.0, 550.0)):
        runner._held._busy = busy
        runner.sample(NUMBER, seed=calls)
        assert len(sung) == (busy >= 500.0)
    assert held.CANARY <= 0.01


@pytest.mark.usefixtures("_every_call", "recorded")
def test_a_default_sampler_and_a_condition_go_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def denoiser(x: Tensor, k: Tensor, shift: Tensor) -> Tensor:
        return float(os.environ[NAME]) * torch.tanh(x) + shift

    chain = GaussianChain(denoiser, WALK, (3,), dtype=torch.float64, condition={"shift": torch.zeros(1, 3)})
    with Runner(chain, Coupled(3), graphs=True) as runner:
        runner.sample(NUMBER, seed=0)
        monkeypatch.setenv(NAME, "0.25")
        other = {"shift": torch.full((NUMBER, 3), 0.5)}
        with pytest.warns(RuntimeWarning, match="no longer answers"):
            runner.sample(NUMBER, seed=0)
        assert same(
            runner.sample(NUMBER, seed=0, condition=other).samples,
            da.sample(chain.replace(condition=other), NUMBER, sampler=Coupled(3), seed=0, graphs=False).samples,
        )


@pytest.mark.usefixtures("recorded")
def test_a_model_that_changes_itself_is_named_once(recwarn: pytest.WarningsRecorder) -> None:
    class Counting(Network):
        calls = 0

        def forward(self, x: Tensor, k: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(x, k)

    runner = runner_of(Counting())
    runner.sample(NUMBER, seed=0)
    assert not recwarn.list  # a cache that the first call fills would look like this
    with pytest.warns(RuntimeWarning, match="'calls' of the model changed while samples were drawn"):
        runner.sample(NUMBER, seed=0)
    runner.sample(NUMBER, seed=0)
    assert not recwarn.list


@pytest.mark.usefixtures("recorded")
def test_a_cache_that_the_first_call_fills_is_no_reason_to_warn(recwarn: pytest.WarningsRecorder) -> None:
    class Caching(Network):
        def forward(self, x: Tensor, k: Tensor) -> Tensor:
            self.cache = {x.dtype: 1}
            return super().forward(x, k)

    runner = runner_of(Caching())
    for _ in range(3):
        runner.sample(NUMBER, seed=0)
    assert not recwarn.list
