"""64 samples of 4096 steps with a window of 256 fit into 2 GiB: contexts are expanded as they are asked."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import drawahead
import drawahead as da
from drawahead.rounds.captured.shapes import TABLES
from tests.peak import PEAK

LIMIT = 2 * 2**30
ROUNDS = 3  # each full window after the first is the same size; more of them only take time

SCRIPT = f"""{PEAK}
import sys, torch
import drawahead as da

class Enough(Exception):
    pass

def stop(report):
    if report.rounds >= {ROUNDS}:
        raise Enough

def network(tokens):  # answers every position, as a network does
    return torch.full((*tokens.shape, 2), 0.5).log()

target = {{
    "dense": lambda: da.targets.DenseLogistic(4096),
    "pairs": lambda: da.targets.Pairs(4096),
    "network": lambda: da.TokenChain(network, length=4096, vocab_size=2),
}}[sys.argv[1]]()
sampler = getattr(da, sys.argv[2])(window=256)
try:
    report = da.sample(target, 64, sampler=sampler, seed=0, on_round=stop).report
except da.SamplingError as error:
    assert isinstance(error.__cause__, Enough), error
    report = error.result.report
assert max(report.widths) == 64 * 257, report.widths
print(peak())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs getrusage")
@pytest.mark.parametrize(
    ("sampler", "target"),
    [
        ("Block", "dense"),
        ("Coupled", "network"),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in itertools.product(["Block"], ["pairs", "network"])),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in itertools.product(["Coupled"], ["dense", "pairs"])),
    ],
)
def test_peak_memory(sampler: str, target: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(drawahead.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, target, sampler], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < LIMIT


WINDOW = f"""{PEAK}
import sys, torch
import drawahead as da

class Enough:  # rounds with a full window are all alike
    rounds = 0
    def is_set(self):
        self.rounds += 1
        return self.rounds > 4

class Words(da.TokenOracle):
    length, vocab_size = 512, int(sys.argv[2])
    def rows(self, tokens):
        raise NotImplementedError
    def rows_at(self, tokens, context, position):
        return torch.zeros(len(position), self.vocab_size).log_softmax(-1)

size = int(sys.argv[2])
if sys.argv[1] == "images":
    schedule = da.DDPM(da.schedules.linear_betas(1000))
    chain, number = da.GaussianChain(lambda x, k: 0.5 * x, schedule, (3, size, size)), 1
else:
    chain, number = da.TokenChain(Words()), 8
before = peak()
da.sample(chain, number, sampler=da.Coupled(window=int(sys.argv[3])), seed=0, graphs=True, stop=Enough())
print(peak() - before)
"""


def peak_of(kind: str, size: int, window: int) -> int:
    environment = {**os.environ, "PYTHONPATH": str(Path(drawahead.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WINDOW, kind, str(size), str(window)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="needs getrusage")
@pytest.mark.parametrize(
    ("kind", "size", "window", "limit"),
    [
        ("images", 128, 32, 5 * 2**26),  # all noise of one image would be 0.4 GB
        ("tokens", 20_000, 16, 2**28),  # and of eight texts 0.6 GB
        pytest.param("images", 512, 32, 2**32, marks=pytest.mark.slow),
        pytest.param("tokens", 50_000, 64, 2**32, marks=pytest.mark.slow),
    ],
)
def test_captured_rounds_take_memory_for_their_window_not_for_the_chain(
    kind: str, size: int, window: int, limit: int
) -> None:
    assert peak_of(kind, size, window) < limit


class Held(TorchDispatchMode):
    """Counts the bytes that tensors hold, and the most that they held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: Counter[int] = Counter()
        self.now = self.most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and (size := tensor.untyped_storage().nbytes()):
                place = tensor.untyped_storage().data_ptr()
                self.now += 0 if self.tensors[place] else size
                self.tensors[place] += 1
                weakref.finalize(tensor, self.freed, place, size)
        self.most = max(self.most, self.now)
        return result

    def freed(self, place: int, size: int) -> None:
        self.tensors[place] -= 1
        self.now -= 0 if self.tensors[place] else size


def held_most(live: int, window: int, shape: tuple[int, ...]) -> tuple[int, int]:
    """The most bytes that a call holds beside its samples, and the bytes of a state."""
    chain = da.GaussianChain(lambda x, k: x * 0.5, da.DDPM(timesteps=da.schedules.spaced(100, of=1000)), shape)
    with da.Runner(chain, da.Coupled(window), graphs=True) as runner, Held() as held:
        runner.sample(live, seed=0)
    return held.most, chain.row_bytes


@pytest.mark.parametrize(("live", "window"), [(1, 8), (1, 64), (6, 8), (6, 32)])
def test_a_round_holds_no_more_than_the_page_says(live: int, window: int) -> None:
    """docs/speed.md: sixteen numbers for every entry of a state and step of a window."""
    most, state = held_most(live, window, (3, 32, 32))
    bound = TABLES * live * (window + 1) * state
    assert 0.25 * bound < most < bound


def test_memory_grows_with_the_window_and_not_with_the_chain() -> None:
    """The control: twice the window holds about twice as much."""
    one, other = (held_most(2, window, (3, 32, 32))[0] for window in (16, 32))
    assert 1.7 < other / one < 2.2
