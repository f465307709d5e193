"""A GPU that fails is said at once, in one line, and no sample that was finished before is lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.rounds.captured.batch import CapturedBatch

WORDS = "CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA\nmore"
ERRORS = {"accelerator": torch.AcceleratorError, "runtime": RuntimeError}


class Failing(da.TokenOracle):
    """Its device fails when it is asked for the so manieth time."""

    length, vocab_size = 4, 2

    def __init__(self, calls: int, error: type[Exception]) -> None:
        self.calls, self.error, self.inner = calls, error, da.targets.Pairs(4)

    def rows(self, tokens: Tensor) -> Tensor:
        self.calls -= 1
        if self.calls < 0:
            raise self.error(WORDS)
        return self.inner.rows(tokens)


@pytest.fixture(autouse=True)
def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for such a device, as captured rounds do when they are given back, is told the same again."""

    def wait(batch: Any) -> None:
        raise torch.AcceleratorError(WORDS)

    monkeypatch.setattr(CapturedBatch, "wait", wait)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("sampler", [None, "sequential", "coupled"])
@pytest.mark.parametrize("error", ERRORS)
def test_it_is_said_in_a_line(error: str, sampler: str | None, graphs: bool) -> None:
    runner = da.Runner(Failing(0, ERRORS[error]), sampler, graphs=graphs)
    with pytest.raises(
        da.SamplingError, match=r"^the device failed \(CUDA error: .*start the process again$"
    ) as caught:
        runner.sample(3, seed=0)
    assert runner.report is None and not len(caught.value.result.samples) and "\n" not in str(caught.value)


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
def test_what_is_finished_is_kept(graphs: bool) -> None:
    whole = da.sample(Failing(10**6, RuntimeError), 6, seed=0, sampler="sequential", max_live=2, graphs=graphs)
    finished = set()
    for calls in (3, 6, 9, 11):
        with pytest.raises(da.SamplingError, match="the device failed") as caught:
            da.sample(Failing(calls, ERRORS["accelerator"]), 6, seed=0, sampler="sequential", max_live=2, graphs=graphs)
        result = caught.value.result
        assert torch.equal(result.samples, whole.samples[result.numbers])
        finished.add(len(result.samples))
    assert max(finished) > 0


def test_other_failures_are_told_as_before() -> None:
    class Wrong(Failing):
        def rows(self, tokens: Tensor) -> Tensor:
            raise KeyError("no")

    with pytest.raises(da.SamplingError, match="sampling stopped in round"):
        da.sample(Wrong(0, KeyError), 2, seed=0, sampler="coupled", graphs=False)
