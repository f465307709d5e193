"""Two timings and what follows from them, in words and on the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import timing
from drawahead.cli.app import run
from drawahead.timing import Gain, gain, gain_of_function

STEPS = 20


def chain(seconds: float, per_row: bool) -> da.GaussianChain:
    """A network that takes so long for a batch, or for each row of it."""

    def predict(x: Tensor, step: Tensor) -> Tensor:
        time.sleep(seconds * (len(x) if per_row else 1))
        return 0.5 * x.tanh()

    return da.GaussianChain(predict, da.schedules.DDPM(timesteps=da.schedules.spaced(STEPS, of=1000)), (2,))


def test_a_gain_is_that_of_its_two_timings() -> None:
    found = Gain(steps=100, queries=99, one=1.53e-3, many=1.95e-3, rounds=12.0)
    assert found.times == pytest.approx(153 / 23.4)
    assert found.to_dict() == {
        "steps": 100, "queries": 99, "one": 1.53e-3, "many": 1.95e-3, "rounds": 12.0, "times": found.times
    }  # fmt: skip
    words = str(found)
    assert "One query takes 1.53 ms, and a round of up to 99 takes 1.95 ms: 1.3 times as long." in words
    assert "100 queries, 153 ms; drawn ahead 12.0 rounds, 23.4 ms." in words and "6.5 times less time" in words
    slow = str(Gain(steps=100, queries=99, one=1e-3, many=50e-3, rounds=10.0))
    assert "does not pay here: 5.0 times the time" in slow and "less than 10.0 times as long" in slow


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.usefixtures("clock")
def test_a_chain_is_timed_by_drawing(per_row: bool) -> None:
    seconds = 4e-3
    found = gain(chain(seconds, per_row))
    assert (found.steps, found.queries) == (STEPS, STEPS - 1)
    reports = [da.sample(chain(0, False), 1, sampler=da.Coupled(window=STEPS - 1), seed=i).report for i in range(3)]
    assert found.rounds == pytest.approx(sum(report.rounds for report in reports) / 3)
    asked = sum(report.queries for report in reports) / sum(report.rounds for report in reports)
    assert found.one > 0.9 * seconds and found.many > 0.9 * seconds * (asked if per_row else 1)
    if per_row:
        assert found.many > 2 * found.one and found.times < STEPS / found.rounds / 2
    assert gain(chain(0, False), window=3).queries == 3


def test_a_function_is_timed_for_one_and_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = [0.0], []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def ask(queries: int) -> None:
        asked.append(queries)
        clock[0] += 1.0 + (100.0 if len(asked) % 9 in (1, 2) else 0.01 * queries)  # the first calls of each are slow

    found = gain_of_function(ask, steps=50, rounds=5, queries=40)
    assert (found.one, found.many) == (pytest.approx(1.01), pytest.approx(1.4))
    assert asked == [1] * 9 + [40] * 9


def test_what_cannot_be_timed_is_named() -> None:
    with pytest.raises(da.InputError, match="failed for 1 queries: ZeroDivisionError"):
        gain_of_function(lambda queries: 1 / 0, steps=10, rounds=2)
    with pytest.raises(da.InputError, match="rounds"):
        gain_of_function(lambda queries: None, steps=10, rounds=0)
    with pytest.raises(da.InputError, match="window"):
        gain(chain(0, False), window=0)


FILE = """
import torch
import drawahead as da
network = torch.nn.Linear(2, 2)

def ask(queries):
    return network(torch.zeros(queries, 2))

def chain():
    return da.GaussianChain(lambda x, k: 0 * x, da.schedules.DDPM(timesteps=da.schedules.spaced(12, of=1000)), (2,))
"""


def test_the_command_line_times_chains_and_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "robot.py").write_text(FILE)
    home = f"{tmp_path}/robot.py"
    assert run(["time", f"{home}:chain", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["steps"] == 12 and shown["queries"] == 11 and shown["times"] > 0
    assert run(["time", f"{home}:ask", "--steps", "100", "--rounds", "12", "--window", "8"]) == 0
    words = capsys.readouterr().out
    assert "a round of up to 8" in words and "100 queries" in words and "12.0 rounds" in words
    assert run(["time", "pairs", "--window", "4"]) == 0
    capsys.readouterr()
    for wrong, message in (
        ([f"{home}:ask"], "give --steps and --rounds"),
        ([f"{home}:chain", "--steps", "9"], "are for a function of a number"),
        ([f"{home}:network"], "Linear"),
        (["nothing"], "nothing"),
    ):
        assert run(["time", *wrong]) in (1, 2)
        assert message in capsys.readouterr().err


def test_a_clock_is_looked_at_when_the_gpu_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[bool] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(True))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    gain_of_function(lambda queries: None, steps=2, rounds=1)
    assert len(waited) == 2 * 2 * 9
