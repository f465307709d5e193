"""The budget of the suite, and what every test gets."""

from __future__ import annotations

import collections
import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.exactness import CHECKS, LEVEL

torch.set_num_threads(1)  # tests run beside each other, one process a core
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; Triton reads it when it is first imported

SLOW_FILES = {
    *("every_command", "ray", "killing", "workers", "power", "doctor", "lecture", "speed", "memory", "site", "call"),
    *("causal", "rtk", "science_study", "emoji_study", "training", "molecules", "ligandmpnn", "diffusers_plugin"),
    *("foreign_files", "sampling", "rollouts"),
}
"""Few tests that take long: workers begin with them, so that none is left with one when the others are done."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    count = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.stem.removeprefix("test_") not in SLOW_FILES, -count[item.path], item.path))
    if sum("check" in getattr(item, "fixturenames", ()) for item in items) > CHECKS:
        raise pytest.UsageError(f"more than the {CHECKS} stochastic checks that tests/exactness.py allows for")


def pytest_collection_finish() -> None:
    """All that was imported stays: whoever collects garbage later need not look through a million objects."""
    gc.freeze()


@pytest.fixture
def check() -> Callable[[float], None]:
    """The one way to turn a p-value into a verdict: one check a test, each at the level of the budget."""
    spent: list[float] = []

    def verdict(p_value: float) -> None:
        spent.append(p_value)
        assert len(spent) == 1, "one stochastic check a test: combine the p-values first"
        assert p_value >= LEVEL, f"the samples do not have their law: p = {p_value:.3g}"

    return verdict


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes when something sleeps, and a millionth of a second at each look: as on a machine that does nothing
    else, and has all the speed there is."""
    now = 0.0

    def passes(seconds: float = 1e-6) -> float:
        nonlocal now
        now += seconds
        return now

    for name in ("perf_counter", "monotonic", "sleep"):
        monkeypatch.setattr(time, name, passes)


EMOJI_WORDS = ["apple", "cat", "face", "green", "red", "smiling"]


@pytest.fixture
def emoji_weights(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny emoji model with random weights where the shipped one would be: tests need no trained one."""
    from safetensors.torch import save_file

    from drawahead.networks import files
    from drawahead.networks.emoji import EmojiNetwork
    from drawahead.networks.pixel_transformer import PixelTransformer

    shape = {"width": 8, "layers": 2, "heads": 2}
    network = EmojiNetwork(len(EMOJI_WORDS), **shape)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: (torch.randn(weight.shape, generator=generator) * 0.2).half()
        for name, weight in network.state_dict().items()
    }
    path = tmp_path_factory.mktemp("weights") / "emoji.safetensors"
    save_file(weights, path, metadata={"words": json.dumps(EMOJI_WORDS), "network": json.dumps(shape)})
    tiny = {"width": 16, "layers": 1, "heads": 2}
    pixels = PixelTransformer(8, len(EMOJI_WORDS) + 1, **tiny)  # type: ignore[arg-type]
    weights = {name: weight.half().contiguous() for name, weight in pixels.state_dict().items()}
    tokens = path.with_name("emoji_tokens.safetensors")
    save_file(weights, tokens, metadata={"words": json.dumps(EMOJI_WORDS), "network": json.dumps(tiny)})
    shipped, made = files.place, {"emoji": path, "emoji_tokens": tokens}
    monkeypatch.setattr(files, "place", lambda name: made.get(name) or shipped(name))
    return path
