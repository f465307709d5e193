"""The folder for `custom_generate=`: what it draws is what `drawahead.adapters.generate` draws."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import drawahead as da

FOLDER = Path(__file__).parents[2] / "plugins" / "transformers"


def llama(**options: Any) -> Any:
    torch.manual_seed(0)
    shape = {"vocab_size": 11, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    tokens = {"max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = transformers.LlamaConfig(**shape, **tokens | options, num_attention_heads=2)  # type: ignore[arg-type]
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def model() -> Any:
    return llama()


def test_a_folder_draws_what_the_function_draws(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    reports: list[Any] = []
    arguments: dict[str, Any] = {
        "inputs": torch.tensor([[1, 4], [1, 5]]), "do_sample": True, "max_new_tokens": 24, "temperature": 0.7,
        "seed": 3, "on_result": reports.append,
    }  # fmt: skip
    theirs = model.generate(**arguments, custom_generate=str(FOLDER), trust_remote_code=True)
    ours = model.generate(**arguments, custom_generate=da.adapters.generate)
    assert theirs.tolist() == ours.tolist() and theirs.shape[1] > 2
    assert [one.report.exact for one in reports] == [True, True]


@pytest.mark.parametrize(
    ("tokens", "words"), [(24, "there are only 24 of them"), (100, "8 tokens at once take 8.0 times")]
)
def test_where_nothing_is_gained_its_own_loop_runs(
    tokens: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    clock: None,
) -> None:
    """On a model that is as slow as it has tokens: a tenth more of them at most, and the very sequences."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    slow, asked = llama(max_position_embeddings=128, eos_token_id=None), list[int]()

    def slowly(module: Any, inputs: Any, answer: Any) -> None:
        asked.append(answer[0].shape[1])
        time.sleep(0.01 * asked[-1])

    slow.model.register_forward_hook(slowly)
    arguments: dict[str, Any] = {"inputs": torch.tensor([[1]]), "do_sample": True, "max_new_tokens": tokens}
    torch.manual_seed(3)
    ours = slow.generate(**arguments, custom_generate=str(FOLDER), trust_remote_code=True)
    assert sum(asked) <= 1.1 * tokens
    assert f"nothing is gained, and tokens are drawn one by one: {words}" in caplog.text
    torch.manual_seed(3)
    assert ours.tolist() == slow.generate(**arguments).tolist()


def test_a_version_that_is_not_known_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("transformers.__version__", "6.1.0")
    spec = importlib.util.spec_from_file_location("door", FOLDER / "custom_generate" / "generate.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "tried with transformers 5.22, not with 6.1.0" in caplog.text


def test_a_request_that_is_not_sampling_is_refused_by_name(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    with pytest.raises(da.InputError, match="do_sample"):
        model.generate(torch.tensor([[1, 4]]), custom_generate=str(FOLDER), trust_remote_code=True, max_new_tokens=4)
