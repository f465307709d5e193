"""What a large run holds at a time."""

from __future__ import annotations

import subprocess
import sys

from tests.peak import PEAK

SCRIPT = (
    PEAK
    + """
import torch
import drawahead as da
torch.set_num_threads(1)

class Enough(Exception):
    pass

def stop(report):
    if report.rounds == 4:  # the widest windows are under way from the second round on
        raise Enough

chain = da.GaussianChain(
    lambda x, k: torch.tanh(x), da.DDPM(), (3, 32, 32), dtype=torch.float32
)
try:
    da.sample(chain, 16, sampler=da.Coupled(window=128), seed=0, on_round=stop)
except da.SamplingError as error:
    assert isinstance(error.__cause__, Enough), error
    assert max(error.result.report.widths) >= 16 * 128
print(peak() / 2**30)
"""
)


def test_coupled_images_under_four_gibibytes() -> None:
    """16 images of 3072 numbers, 1000 steps, 128 of them in the window: one tensor of states is 48 MiB."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 4
