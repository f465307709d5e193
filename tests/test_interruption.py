"""Which samples are drawn, and what is kept when drawing is cut short: by a stop token, by Ctrl-C, by a failure."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import drawahead as da
from drawahead.report import History
from drawahead.rounds.captured.recording import uninterrupted
from drawahead.show.progress import RunProgress, line, visible
from tests.test_drafts import adds_up

SEED = 5


def ising() -> da.TokenOracle:
    return da.targets.Ising.grid(3, 3, coupling=0.4)


def diffusion() -> da.GaussianChain:
    return da.GaussianChain(da.targets.Hypercube(4), da.DDPM(timesteps=range(950, -1, -50)))


TARGETS = {"tokens": ising, "diffusion": diffusion}
RUNS = [
    pytest.param(target, sampler, graphs, id=f"{name}-{type(sampler).__name__}-{'captured' if graphs else 'packed'}")
    for name, target in TARGETS.items()
    for sampler, graphs in [
        (da.Sequential(), False),
        (da.Coupled(window=4), False),
        (da.Block(), False),
        (da.Sequential(), True),
        (da.Coupled(window=4), True),
        (da.Coupled(), True),
        (da.Block(), True),
    ]
]


@pytest.mark.parametrize(("target", "sampler", "graphs"), RUNS)
class TestRuns:
    """Both kinds of run, tokens and diffusion alike."""

    def test_first_says_which_samples(self, target: Callable[[], da.Chain], sampler: da.Sampler, graphs: bool) -> None:
        whole = da.sample(target(), 9, sampler=sampler, seed=SEED, graphs=graphs, max_live=4)
        part = da.sample(target(), 4, first=5, sampler=sampler, seed=SEED, graphs=graphs, max_live=4)
        assert whole.numbers.tolist() == list(range(9)) and part.numbers.tolist() == [5, 6, 7, 8]
        assert torch.equal(part.samples, whole.samples[5:]) and part.complete
        assert list(part.report.progress) == [5, 6, 7, 8] and part.report.num_samples == 4
        assert all(part.report.progress[i] == whole.report.progress[i] for i in range(5, 9))

    def test_a_stop_token_keeps_what_is_finished(
        self, target: Callable[[], da.Chain], sampler: da.Sampler, graphs: bool
    ) -> None:
        whole = da.sample(target(), 9, sampler=sampler, seed=SEED, graphs=graphs)
        stop = threading.Event()
        seen: list[da.Report] = []

        def on_round(report: da.Report) -> None:
            seen.append(report)
            if report.num_samples >= 3:
                stop.set()

        part = da.sample(
            target(), 9, sampler=sampler, seed=SEED, graphs=graphs, max_live=3, on_round=on_round, stop=stop
        )
        assert 3 <= len(part.samples) < 9 and not part.complete and whole.complete
        assert torch.equal(part.samples, whole.samples[part.numbers])
        assert part.report.num_samples == len(part.samples) == len(part.report.sample_rounds)
        assert part.report.rounds == len(seen) == len(part.report.widths) == len(part.report.committed)
        assert sum(seen[0].committed) == seen[0].committed[0] and len(seen[0].widths) == 1  # as it was then
        adds_up(part.report)
        for report in seen:
            adds_up(report)

    def test_ctrl_c_keeps_what_is_finished(
        self, target: Callable[[], da.Chain], sampler: da.Sampler, graphs: bool
    ) -> None:
        whole = da.sample(target(), 9, sampler=sampler, seed=SEED, graphs=graphs)

        def on_round(report: da.Report) -> None:
            if report.num_samples >= 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as caught:
            da.sample(target(), 9, sampler=sampler, seed=SEED, graphs=graphs, max_live=3, on_round=on_round)
        assert isinstance(caught.value, da.Interrupted) and "of 9 samples" in str(caught.value)
        part = caught.value.result
        assert 3 <= len(part.samples) < 9 and not part.complete
        assert torch.equal(part.samples, whole.samples[part.numbers])
        assert da.sample(target(), 9, sampler=sampler, seed=SEED, graphs=graphs).complete  # nothing is left behind


class Interrupting(da.TokenOracle):
    """Raises, as Ctrl-C does, when it is asked for the so manieth time."""

    def __init__(self, calls: int) -> None:
        self.inner = da.targets.Ising.grid(3, 3, coupling=0.4)
        self.length, self.vocab_size, self.calls = self.inner.length, self.inner.vocab_size, calls

    def rows(self, tokens: torch.Tensor) -> torch.Tensor:
        self.calls -= 1
        if self.calls == 0:
            raise KeyboardInterrupt
        return self.inner.rows(tokens)


@pytest.mark.parametrize("sampler", [da.Sequential(), da.Coupled(), da.Block(), da.Recursive(), None])
def test_ctrl_c_in_the_oracle_keeps_what_is_finished(sampler: da.Sampler | None) -> None:
    whole = da.sample(ising(), 12, seed=SEED, sampler=sampler)
    finished = set()
    for calls in (1, 2, 3, 8, 14, 25):
        try:
            da.sample(Interrupting(calls), 12, seed=SEED, sampler=sampler, max_live=2)
        except da.Interrupted as interrupted:
            part = interrupted.result
            finished.add(len(part.samples))
            assert torch.equal(part.samples, whole.samples[part.numbers]) and not part.complete
            adds_up(part.report)  # the round that was cut short has its entries, too
            assert part.report.num_samples == len(part.samples)
    assert 0 in finished and max(finished) > 0


def test_ctrl_c_waits_until_a_round_is_captured() -> None:
    """A stream whose capture is broken off captures for good: found by `tools/soak.py` on a GPU."""
    done = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores Ctrl-C

    def capture() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            done.append("captured")

    try:
        with pytest.raises(KeyboardInterrupt):
            capture()
        assert done == ["captured"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_token_set_from_another_thread_stops_a_run() -> None:
    stop = threading.Event()
    under_way = threading.Event()

    class Slow(da.TokenOracle):
        length, vocab_size = 2000, 2

        def rows(self, tokens: torch.Tensor) -> torch.Tensor:
            under_way.set()
            time.sleep(1e-3)
            return torch.zeros(*tokens.shape, 2).log_softmax(-1)

    def press() -> None:
        under_way.wait()
        stop.set()

    thread = threading.Thread(target=press)
    thread.start()
    result = da.sample(Slow(), 50, sampler=da.Sequential(), max_live=1, seed=0, stop=stop)
    thread.join()
    assert not result.complete and result.report.rounds < 2000


def test_a_token_that_is_set_already_draws_nothing() -> None:
    stop = threading.Event()
    stop.set()
    result = da.sample(Interrupting(1), 3, seed=SEED, stop=stop)
    assert not result.complete and result.samples.shape == (0, 9) and result.report.queries == 0
    assert "0 samples" in str(result.report)


def test_a_token_set_after_the_last_round_changes_nothing() -> None:
    stop = threading.Event()
    result = da.sample(
        ising(), 3, seed=SEED, stop=stop, on_round=lambda report: stop.set() if report.num_samples == 3 else None
    )
    assert stop.is_set() and result.complete


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"first": -1}, "first must be at least 0"),
        ({"first": 1.5}, "first must be a whole number"),
        ({"first": 2**63 - 1}, "first must leave"),
    ],
)
def test_bad_input_is_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(da.InputError, match=words):
        da.sample(ising(), 2, **wrong)  # type: ignore[arg-type]


def test_given_rows_belong_to_sample_numbers() -> None:
    evidence = torch.full((6, 9), da.HIDDEN)
    evidence[:, 0] = torch.arange(6) % 2
    chain = da.TokenChain(ising(), evidence=evidence)
    assert da.sample(chain, 2, first=3, seed=0).samples[:, 0].tolist() == [1, 0]
    with pytest.raises(da.InputError, match="6 rows"):
        da.sample(chain, 2, first=5, seed=0)


def test_the_largest_numbers_can_be_drawn() -> None:
    result = da.sample(ising(), 2, first=2**63 - 2, seed=0, sampler=da.Coupled())
    assert result.numbers.tolist() == [2**63 - 2, 2**63 - 1] and len(set(result.report.progress)) == 2


def test_a_report_costs_nothing_until_it_is_read() -> None:
    """`on_round` gets one after every round: were each to copy all rounds, long runs would be quadratic."""
    copied = 0

    class Rounds(list[int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal copied
            copied += len(self)
            return super().__iter__()

        def __getitem__(self, at: Any) -> Any:
            nonlocal copied
            copied += len(range(*at.indices(len(self)))) if isinstance(at, slice) else 1
            return super().__getitem__(at)

    rounds = Rounds([3] * 2000)
    history = History(rounds, rounds, rounds, rounds, [], {0: rounds})
    assert copied == 0
    rounds.append(4)  # a later round
    assert all(history.cut(name) == (3,) * 2000 for name in ("widths", "drafts", "kept", "committed"))
    assert copied >= 4 * 2000


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_silent_unless_somebody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    assert da.sample(ising(), 3, seed=0, progress=True).complete  # stderr is no terminal here
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("clock")
def test_the_bar_shows_how_far_it_is_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("drawahead.show.progress.EVERY", 0.0)
    da.sample(ising(), 6, seed=0, sampler=da.Sequential(), max_live=3, progress=True)
    shown = terminal.getvalue()
    lines = [line for line in shown.split("\r") if line]
    assert "0/6 samples, steps 0%, round 0, 0 queries" in lines[0]
    assert re.search(r"3/6 samples, steps 50% \(.+/s\), round 9, 27 queries, 0:00 left", shown)
    assert lines[-1] == "\x1b[K" and len(lines) == 1 + 18 + 1
    da.sample(ising(), 6, seed=0)
    assert terminal.getvalue() == shown  # silent by default


def test_the_bar_goes_on_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(da.Interrupted):
        da.sample(Interrupting(3), 12, seed=0, sampler=da.Sequential(), progress=True)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_line_fits_the_terminal() -> None:
    parts = RunProgress(1000, 10, 64, 640, 12, 123456, 100.0).parts()
    text = "10/1000 samples, steps 1% (6.4/s), round 12, 123.5k queries, 2:45:00 left"
    assert line(0.5, parts, 100) == f"[##########..........] {text}" and line(0.5, parts, 79) == text
    assert line(0.5, parts, 60) == "10/1000 samples, steps 1% (6.4/s), round 12, 2:45:00 left"
    assert line(0.5, parts, 30) == "10/1000 samples, 2:45:00 left"
    assert all(len(line(0.5, parts, width)) <= width for width in range(1, 120))


def test_a_notebook_is_watched_and_a_file_is_not(tmp_path: Path) -> None:
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    assert visible(notebook) and visible(Terminal())
    with (tmp_path / "log").open("w") as file:
        assert not visible(file)


def test_time_left_is_told_once_it_is_known() -> None:
    assert RunProgress(1000, 0, 10, 100, 12, 100, 1.0).parts()[-1] == "100 queries"
    assert RunProgress(1000, 0, 10, 100, 12, 100, 4.0).parts()[-1] == "6:36 left"
    assert RunProgress(1000, 1, 10, 100, 12, 100, 1.0).parts()[-1] == "1:39 left"


def test_time_left_counts_only_what_was_drawn_now() -> None:
    parts = RunProgress(1000, 500, 10, 5000, 12, 12_345_678, 10.0, earlier=4000).parts()
    assert parts == ["500/1000 samples", "steps 50% (100/s)", "round 12", "12.3M queries", "0:50 left"]
