"""A batch is drawn much faster than its samples one at a time."""

from __future__ import annotations

import time

import pytest
import torch

import drawahead as da
from drawahead.targets import DenseLogistic


@pytest.mark.slow
def test_a_batch_is_ten_times_faster_than_its_samples_one_by_one() -> None:
    """256 samples of a dense chain of 1024 steps; one at a time is timed on 16 of them."""
    dense = DenseLogistic(1024)
    da.sample(dense, 4, seed=1)  # warm up
    began = time.process_time()  # of the processor: others may be busy, too
    together = da.sample(dense, 256, seed=0).samples
    batch = time.process_time() - began
    began = time.process_time()
    alone = da.sample(dense, 16, seed=0, max_live=1).samples
    single = (time.process_time() - began) / 16
    assert torch.equal(alone, together[:16])
    assert 256 * single >= 10 * batch, f"{256 * single:.1f} s one by one, {batch:.1f} s together"
