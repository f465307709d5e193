"""What is large is refused before it is built, shown while it is, and left at once."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
import torch

import drawahead as da
from drawahead import tilings
from drawahead.cli.app import run
from drawahead.cli.building import built, scaled, unfinished
from drawahead.oracles import needs as _needs


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_needs, "free_memory", lambda: 2**30)
    assert run(["sample", "dominoes", "--size", "200"]) == 1
    shown = capsys.readouterr().err
    assert "dominoes of size 200 needs about 14.9 GiB of memory to be set up, and 1.0 GiB are free" in shown
    monkeypatch.setattr(_needs, "free_memory", lambda: 2**20)
    with pytest.raises(da.InputError, match="a graph with 10000 vertices needs about"):
        tilings.dominoes("square", 100)
    monkeypatch.setattr(_needs, "free_memory", lambda: None)  # a system that does not say
    assert tilings.dominoes("square", 4).length == 16


@pytest.mark.usefixtures("clock")
def test_what_it_needs_grows_as_it_should() -> None:
    assert tilings.needs("square", 40).bytes == 16 * tilings.needs("square", 20).bytes
    assert tilings.needs("aztec", 10).lines == 110 and _needs.of_matching(9, two_colours=False).lines == 9
    assert tilings.needs("square", 100).seconds() > 50 * tilings.needs("square", 40).seconds() > 0
    free = _needs.free_memory()
    assert free is None or free > 0


def test_ctrl_c_does_not_wait() -> None:
    begun, over = threading.Event(), threading.Event()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def work() -> None:
        begun.set()
        over.wait()

    def press() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            built("it", work, 30.0)
        assert unfinished()
    finally:
        over.set()
        presser.join()
        signal.signal(signal.SIGINT, before)
    until = time.monotonic() + 60
    while unfinished() and time.monotonic() < until:
        time.sleep(0.01)
    assert not unfinished()


def test_what_fails_fails_as_it_would() -> None:
    def fail() -> None:
        raise da.InputError("no such board")

    assert built("it", lambda: 3, 0.0) == 3
    with pytest.raises(da.InputError, match="no such board"):
        built("it", fail, 0.0)


def test_other_targets_are_weighed_by_smaller_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_needs, "free_memory", lambda: 2**30)
    for name in ("dense", "mixture", "markov"):
        assert run(["sample", name, "--size", "300000000"]) == 1
        assert f"{name} of size 300000000 needs about" in capsys.readouterr().err
    sizes: list[int] = []

    def make(size: int) -> list[torch.Tensor]:
        sizes.append(size)
        return [torch.zeros(size, size)]

    with pytest.raises(da.InputError, match=r"it needs about 44\.7 GiB of memory"):
        scaled("it", make, 63_245, 4)  # three copies of a square of float32
    assert sizes == [8, 16]
    assert scaled("it", make, 16, 4)[0].shape == (16, 16) and scaled("it", make, 30, 4)[0].shape == (30, 30)
    assert sizes == [8, 16, 16, 8, 16, 30]
    assert run(["sample", "digits", "--size", "99"]) == 1 and "have size 8, not 99" in capsys.readouterr().err
