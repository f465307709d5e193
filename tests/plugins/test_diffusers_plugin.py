"""The folder for `custom_pipeline=`: pipelines are loaded from disk and drawn in rounds."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

import drawahead as da
from tests.adapters.tiny_pipelines import made

FOLDER = Path(__file__).parents[2] / "plugins" / "diffusers"


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    diffusers.logging.set_verbosity_error()
    modules = tmp_path_factory.mktemp("modules")  # where diffusers copies a custom pipeline to
    monkeypatch.setattr("diffusers.utils.dynamic_modules_utils.HF_MODULES_CACHE", str(modules))


def loaded(folder: Path) -> Any:
    options = {"custom_pipeline": str(FOLDER), "trust_remote_code": True, "local_files_only": True}
    pipe = diffusers.DiffusionPipeline.from_pretrained(folder, **options)
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.mark.parametrize("kind", ["text", "xl", "dit"])
def test_a_pipeline_from_disk_is_its_own_in_rounds(kind: str, tmp_path: Path) -> None:
    own = made(kind).to(torch.float32)
    own.save_pretrained(tmp_path)
    pipe = loaded(tmp_path)
    assert type(pipe.pipe) is type(own)
    asked: dict[str, Any] = {"class_labels": [3]} if kind == "dit" else {"prompt": "red"}
    arguments: dict[str, Any] = {
        **asked,
        "num_inference_steps": 12,
        "output_type": "np",
        "sampler": da.Coupled(window=11),
    }
    result = pipe(**arguments, generator=torch.Generator().manual_seed(1))
    assert result.report.exact and result.report.rounds < 12
    same = da.adapters.DrawaheadPipeline.from_pipe(own)(**arguments, generator=torch.Generator().manual_seed(1))
    np.testing.assert_allclose(result.images, same.images, atol=1e-5)


def test_a_plain_unet(tmp_path: Path) -> None:
    blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    network = diffusers.UNet2DModel(sample_size=8, block_out_channels=(8, 8), norm_num_groups=2, **blocks)
    diffusers.DDPMPipeline(network, diffusers.DDPMScheduler(20)).save_pretrained(tmp_path)
    pipe = loaded(tmp_path)
    assert isinstance(pipe.rounds, da.adapters.DrawaheadPipeline)
    assert pipe(2, sampler="coupled", output_type="np").images.shape == (2, 8, 8, 3)


@pytest.mark.parametrize("steps", [30, 120])
def test_where_nothing_is_gained_its_own_loop_runs(
    steps: int, tmp_path: Path, caplog: pytest.LogCaptureFixture, clock: None
) -> None:
    """A network that is as slow as it has rows. The first call of 120 steps finds out, for a tenth of them; then, and
    with few steps at once, images are those of the pipeline itself, and so are the questions."""
    own, rows = made("text").to(torch.float32), list[int]()
    own.save_pretrained(tmp_path)
    pipe = loaded(tmp_path).to("cpu")
    arguments: dict[str, Any] = {"prompt": "red", "num_inference_steps": steps, "output_type": "np"}

    def slowly(module: Any, asked: Any, answer: Any) -> None:
        rows.append(len(answer[0]))
        time.sleep(0.01 * rows[-1])

    pipe.unet.register_forward_hook(slowly)
    result = pipe(**arguments, generator=torch.Generator().manual_seed(1))
    assert sum(rows) <= 1.1 * 2 * steps  # guidance asks twice
    assert (result.report is None) == (steps == 30)
    rows.clear()
    result = pipe(**arguments, generator=torch.Generator().manual_seed(1))
    assert rows == [2] * steps and result.report is None
    assert caplog.text.count("nothing is gained, and the pipeline's own loop is used: ") == 1
    own.set_progress_bar_config(disable=True)
    np.testing.assert_array_equal(result.images, own(**arguments, generator=torch.Generator().manual_seed(1)).images)


def test_a_version_that_is_not_known_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("diffusers.__version__", "1.0.2")
    spec = importlib.util.spec_from_file_location("door", FOLDER / "pipeline.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "tried with diffusers 0.42, not with 1.0.2" in caplog.text


def test_a_pipeline_that_diffusers_does_not_have_is_named(tmp_path: Path) -> None:
    made("text").to(torch.float32).save_pretrained(tmp_path)
    index = tmp_path / "model_index.json"
    index.write_text(index.read_text().replace("StableDiffusionPipeline", "PipelineOfTomorrow"))
    with pytest.raises(ValueError, match="has no PipelineOfTomorrow"):
        loaded(tmp_path)
