"""The pipeline for masked language models, loaded from disk: its law is that of unmasking one token after another."""

from __future__ import annotations

import importlib.util
import itertools
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.dynamic_module_utils import get_class_from_dynamic_module

import drawahead as da
from drawahead.verification.statistics import chi_square
from tests.adapters.words import SPECIAL, word_tokenizer
from tests.exactness import outcome_counts, outcomes

FOLDER = Path(__file__).parents[2] / "plugins" / "transformers"
WORDS = list("abcd")
TEXT = "a [MASK] [MASK] b [MASK]"


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = str(tmp_path_factory.mktemp("modules"))  # where transformers copies what it runs
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", cache)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model on disk."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=64, initializer_range=0.8,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("model")
    transformers.BertForMaskedLM(config).save_pretrained(path)
    word_tokenizer(WORDS).save_pretrained(path)
    return path


def loaded(folder: Path) -> Any:
    made = get_class_from_dynamic_module("drawahead_fill.DrawaheadFillPipeline", str(FOLDER), trust_remote_code=True)
    return transformers.pipeline("fill-mask", model=str(folder), pipeline_class=made)


@torch.no_grad()
def one_by_one(pipe: Any) -> Tensor:
    """The probability of every filling (4^3,): unmasked one by one, in each order as often."""
    first = torch.tensor(pipe.tokenizer(TEXT)["input_ids"])
    masks = (first == pipe.tokenizer.mask_token_id).nonzero()[:, 0]
    words, law = outcomes(3, 4), torch.zeros(64, dtype=torch.float64)
    for order in itertools.permutations(range(3)):
        ids, share = first.repeat(64, 1), torch.full((64,), 1 / 6, dtype=torch.float64)
        for i in order:
            rows = pipe.model(input_ids=ids).logits[:, masks[i], len(SPECIAL) :].double().softmax(-1)
            share *= rows[torch.arange(64), words[:, i]]
            ids[:, masks[i]] = words[:, i] + len(SPECIAL)
        law += share
    return law


def test_its_law_is_that_of_unmasking_one_by_one(folder: Path, check: Any) -> None:
    pipe = loaded(folder)
    drawn = pipe(TEXT, num_samples=4000, seed=1, sampler=da.Coupled())
    ids = torch.tensor([one["token_ids"] for one in drawn])
    found = ids[:, torch.tensor(pipe.tokenizer(TEXT)["input_ids"]) == pipe.tokenizer.mask_token_id] - len(SPECIAL)
    assert pipe.report.mean_rounds < 3
    check(chi_square(outcome_counts(found, 4), one_by_one(pipe)))


def test_texts_share_rounds_and_come_back_as_they_were_given(folder: Path) -> None:
    pipe = loaded(folder)
    drawn = pipe([TEXT, "[MASK] c"], num_samples=2, seed=1, sampler="coupled")
    assert [[one["sequence"][-1] for one in some] for some in drawn][1] == ["c", "c"]
    assert [len(one["sequence"].split()) for some in drawn for one in some] == [5, 5, 2, 2]
    assert pipe.report.rounds <= 3


def test_a_model_may_name_it_in_its_config(folder: Path, tmp_path: Path) -> None:
    """As docs/doors.md has it: then `pipeline` finds it by itself, and a saved pipeline goes on doing so."""
    task = {
        "drawahead-fill": {"impl": f"{FOLDER}--drawahead_fill.DrawaheadFillPipeline", "pt": ["AutoModelForMaskedLM"]}
    }
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"custom_pipelines": task}))
    pipe = transformers.pipeline("drawahead-fill", model=str(folder), trust_remote_code=True)
    assert type(pipe).__name__ == "DrawaheadFillPipeline"
    assert pipe(TEXT, seed=2, sampler="coupled")[0]["sequence"].startswith("a ")


def test_where_nothing_is_gained_the_model_is_asked_once_for_each_mask(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipe, calls = loaded(folder), list[int]()
    pipe(TEXT, seed=2)  # what a model is like is found out before anything is drawn
    pipe.model.register_forward_hook(lambda *_: calls.append(1))
    with caplog.at_level(logging.INFO, logger="drawahead"):
        pipe(TEXT, seed=2)
    assert "nothing is gained, one mask at a time: there are only 3 steps" in caplog.text
    assert pipe.report.rounds == 3
    assert len(calls) <= 3 + 3


def test_a_version_that_is_not_known_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("transformers.__version__", "6.1.0")
    spec = importlib.util.spec_from_file_location("fill", FOLDER / "drawahead_fill.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "tried with transformers 4.57, 5.22, not with 6.1.0" in caplog.text
