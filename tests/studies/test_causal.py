"""The study of left-to-right models: its baseline, and that every part runs."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from studies.causal.jacobi import speculative_jacobi
from studies.causal.page import values
from studies.causal.study import COLOURS, PARTS, Fading, law, measure
from studies.speed.place import Place
from tests.exactness import LEVEL


def test_the_baseline_has_the_law_and_its_mutant_has_not() -> None:
    found = law(Place("cpu"))["p"]
    assert found["resampled"] >= LEVEL and found["coupled"] >= LEVEL and found["kept"] < LEVEL


def test_the_baseline_counts_its_passes() -> None:
    generator = torch.Generator().manual_seed(0)
    prompt = torch.full((3, 1), COLOURS)
    tokens, passes = speculative_jacobi(Fading(), prompt, 20, 6, generator, stride=4)
    assert tokens.shape == (3, 20) and bool(((passes >= 3) & (passes <= 20)).all())


def test_every_part_runs(tmp_path: Path) -> None:
    arguments = argparse.Namespace(out=tmp_path, device="cpu", parts=[part for part in PARTS if part != "law"])
    data = measure(arguments, lambda *words: None)
    assert None not in values(data).values() and "32 beside 1" in str(values(data)["shapes"])
