"""Out of memory halves the chunk, is told once and remembered; what cannot be halved is said plainly."""

from __future__ import annotations

import warnings

import pytest
import torch

import drawahead as da
from drawahead import AnswerError, Local, SamplingError
from drawahead.executors.chunks import out_of_memory
from tests.executors.troubled import Crowded, Troubled, small

ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
    MemoryError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("most", [None, 20])
def test_too_large_a_chunk_is_halved_once_and_for_all(error: Exception, most: int | None) -> None:
    crowded = Crowded(7, error)
    with pytest.warns(RuntimeWarning, match="ran out of memory") as told:
        result = da.sample(Troubled(small(), crowded), 30, sampler=da.Coupled(4), seed=3, max_batch_size=most)
    alone = da.sample(small(), 30, sampler=da.Coupled(4), seed=3)
    assert torch.equal(result.samples, alone.samples)
    assert result.report.widths == alone.report.widths, "chunks are parts of a round"
    assert len(told) == 1
    tried = [30, 15, 7] if most is None else [20, 10, 5]
    assert crowded.sizes[:3] == tried and max(crowded.sizes[3:]) == tried[2], "what was learnt is not forgotten"


def test_a_given_executor_remembers_from_call_to_call() -> None:
    executor, crowded = Local(), Crowded(5, MemoryError())
    oracle = Troubled(small(), crowded)
    with pytest.warns(RuntimeWarning, match="max_batch_size=5"):
        da.sample(oracle, 20, sampler=da.Sequential(), seed=0, executor=executor)
    assert "at most 5" in executor.notes[0] and len(executor.notes) == 1
    crowded.sizes.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.sample(oracle, 20, sampler=da.Sequential(), seed=1, executor=executor)
    assert max(crowded.sizes) == 5


def test_one_item_that_does_not_fit_is_an_error_that_says_what_to_do() -> None:
    crowded = Crowded(0, ERRORS[0])
    with pytest.raises(SamplingError, match=r"single item.*half-precision.*20\.00 GiB") as raised:
        da.sample(Troubled(small(), crowded), 30, sampler=da.Block(), seed=0)
    assert isinstance(raised.value.__cause__, AnswerError)
    assert crowded.sizes == [30, 15, 7, 3, 1]


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    assert all(out_of_memory(error) for error in ERRORS)
    assert not any(out_of_memory(error) for error in (RuntimeError("shape mismatch"), ValueError("out of memory")))
    crowded = Crowded(3, RuntimeError("shape mismatch"))
    with pytest.raises(SamplingError, match="shape mismatch"):
        da.sample(Troubled(small(), crowded), 30, sampler=da.Block(), seed=0)
    assert crowded.sizes == [30]


def test_the_memory_of_the_machine_itself() -> None:
    """What torch really raises on a CPU is recognised."""
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60, dtype=torch.uint8)
    assert out_of_memory(raised.value)
