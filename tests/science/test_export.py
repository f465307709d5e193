"""The statistics of a job, without its samples in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead.cli.app import run


def test_the_summary_of_a_job_is_that_of_its_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = da.targets.DataSet(torch.eye(4))
    chain = da.GaussianChain(target, da.DDPM(timesteps=range(900, -1, -100)))
    job = da.jobs.draw(tmp_path / "job", chain, 20, sampler=da.Sequential(), seed=0, shard_size=6, name="eye")
    folder = str(tmp_path / "job")
    assert run(["export", folder, "--to", "npz", "--summary", "--out", str(tmp_path / "found.npz")]) == 0
    expected = da.summary(job.samples())
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_allclose(found["quantiles"], expected.quantiles)
        np.testing.assert_allclose(found["mean"], expected.mean)
        assert int(found["number"]) == 20
    assert run(["export", folder, "--to", "zarr", "--summary"]) == 1
    assert "say --to npz" in capsys.readouterr().err
