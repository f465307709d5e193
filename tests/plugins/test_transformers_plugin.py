"""The folder for `custom_generate=`: what it draws is what `drawahead.adapters.generate` draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import drawahead as da

FOLDER = Path(__file__).parents[2] / "plugins" / "transformers"


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=11, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


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


def test_a_request_that_is_not_sampling_is_refused_by_name(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))
    with pytest.raises(da.InputError, match="do_sample"):
        model.generate(torch.tensor([[1, 4]]), custom_generate=str(FOLDER), trust_remote_code=True, max_new_tokens=4)
