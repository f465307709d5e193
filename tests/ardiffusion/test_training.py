"""Training: it learns, it resumes to the last bit, and what it leaves behind can be loaded."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import ardiffusion as ar
from drawahead.verification.statistics import same_law

PARTS = ar.Parts((4,), (2,))
CONFIG = ar.ModelConfig(PARTS, ar.TransformerEncoder(16, 1, 2), ar.MLPDenoiser(32, 2))
SHORT = ar.Training(steps=12, batch=16, block=3, save_every=3, warmup=2)


def data(rows: int = 256) -> Tensor:
    """The second part is the first, mirrored, and a little noise."""
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(rows, 2, generator=generator)
    return torch.cat([first, -first + 0.1 * torch.randn(rows, 2, generator=generator)], dim=1)


class Stop(Exception):
    pass


def stop_at(step: int) -> Callable[[ar.Progress], None]:
    def stop(progress: ar.Progress) -> None:
        if progress.step == step:
            raise Stop

    return stop


def weights(model: ar.ARModel) -> Tensor:
    return torch.cat([p.flatten() for p in model.parameters()])


def test_a_training_that_was_stopped_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    straight = ar.train(CONFIG, data(), training=SHORT)
    for step in (3, 9):
        with pytest.raises(Stop):
            ar.train(CONFIG, data(), training=SHORT, out=tmp_path, on_progress=stop_at(step))
    seen: list[int] = []
    resumed = ar.train(CONFIG, data(), training=SHORT, out=tmp_path, on_progress=lambda now: seen.append(now.step))
    assert seen == [12]  # only what was left
    assert torch.equal(weights(resumed.model), weights(straight.model))
    assert resumed.losses == straight.losses and [step for step, _ in straight.losses] == [3, 6, 9, 12]
    assert torch.equal(weights(ar.load(tmp_path)), weights(straight.model))
    again = ar.train(CONFIG, data(), training=SHORT, out=tmp_path)  # nothing is left to do
    assert torch.equal(weights(again.model), weights(straight.model))


def test_the_global_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    ar.train(CONFIG, data(), training=SHORT)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_folder_holds_a_whole_state_wherever_writing_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stop):
        ar.train(CONFIG, data(), training=SHORT, out=tmp_path, on_progress=stop_at(6))
    kept = weights(ar.load(tmp_path))
    real = os.replace

    def full(source: Path, target: Path) -> None:
        if Path(target).name == "state.json":
            raise OSError("the disk is full")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="full"):
        ar.train(CONFIG, data(), training=SHORT, out=tmp_path)
    monkeypatch.undo()
    assert torch.equal(weights(ar.load(tmp_path)), kept)
    end = ar.train(CONFIG, data(), training=SHORT, out=tmp_path)
    assert torch.equal(weights(end.model), weights(ar.train(CONFIG, data(), training=SHORT).model))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.json", "weights-00000012.safetensors"]


def test_another_training_is_not_continued(tmp_path: Path) -> None:
    ar.train(CONFIG, data(), training=SHORT, out=tmp_path)
    for config, rows, training, name in (
        (ar.ModelConfig(PARTS), 256, SHORT, "config"),
        (CONFIG, 128, SHORT, "data"),
        (CONFIG, 256, ar.Training(steps=13), "training"),
    ):
        with pytest.raises(da.InputError, match=f"another {name}"):
            ar.train(config, data(rows), training=training, out=tmp_path)


def test_folders_that_hold_no_training(tmp_path: Path) -> None:
    with pytest.raises(da.InputError, match=r"holds no state\.json"):
        ar.load(tmp_path)
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(da.InputError, match="cannot be read"):
        ar.load(tmp_path)
    (tmp_path / "state.json").write_text(json.dumps({"config": {}, "step": 1, "weights": "none"}))
    with pytest.raises(da.InputError, match="not a configuration"):
        ar.load(tmp_path)


def test_data_and_settings_that_cannot_be_trained_on() -> None:
    for wrong, words in (
        (torch.zeros(0, 4), "at least one row"),
        (torch.full((3, 4), math.nan), "finite"),
        (torch.zeros(3, 5), "shape"),
    ):
        with pytest.raises(da.InputError, match=words):
            ar.train(CONFIG, wrong, training=SHORT)
    with pytest.raises(da.InputError, match="steps"):
        ar.Training(steps=0)
    with pytest.raises(da.InputError, match="average"):
        ar.Training(average=1.0)
    with pytest.raises(da.InputError, match="loss is not finite"):
        ar.train(CONFIG, data() * 1e30, training=SHORT)


@pytest.fixture(scope="module")
def model() -> ar.ARModel:
    """Trained for a few seconds."""
    trained = ar.train(CONFIG, data(4096), training=ar.Training(steps=500, batch=128, rate=5e-3))
    assert trained.losses[-1][1] < 0.75 * trained.losses[0][1]
    return trained.model


def test_the_second_part_follows_the_first(model: ar.ARModel) -> None:
    samples = ar.sample(model, 400, sampler=da.Coupled(), seed=0).samples
    sums = samples[:, :2] + samples[:, 2:]  # 0.1 in the data; 1.4 if the parts were drawn apart
    assert float(sums.square().mean().sqrt()) < 0.35
    assert 0.8 < float(samples.std()) < 1.2


@pytest.mark.parametrize("sampler", [da.Block(), da.Coupled()], ids=repr)
def test_parallel_parts_of_a_trained_model(
    model: ar.ARModel, sampler: da.Sampler, check: Callable[[float], None]
) -> None:
    """Two samples of one law. With 2 000 draws each, a Kolmogorov distance of 0.13 in one direction shows."""
    chain = ar.chain(model, da.OUExponential.even(12, first=3.0, last=0.01))
    one = da.sample(chain, 2000, sampler=da.Sequential(), seed=0, max_live=2000)
    other = da.sample(chain, 2000, sampler=sampler, seed=1, max_live=2000)
    assert other.report.mean_rounds < one.report.mean_rounds
    assert same_law(one.samples, other.samples + 0.2) < 1e-6  # it can fail
    check(same_law(one.samples, other.samples))
