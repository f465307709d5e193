"""Things people do with adapters that cannot work: each is refused at once, in our words, with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import drawahead as da
from drawahead import adapters
from tests.adapters.words import word_tokenizer

transformers = pytest.importorskip("transformers")
diffusers = pytest.importorskip("diffusers")
from tests.adapters import tiny_pipelines  # noqa: E402

SMALL = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TOKENIZER = word_tokenizer([f"w{i}" for i in range(27)])


def bert(**options: Any) -> Any:
    torch.manual_seed(0)
    return transformers.BertForMaskedLM(transformers.BertConfig(**SMALL, max_position_embeddings=16, **options))


def gpt2() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=16)
    return transformers.GPT2LMHeadModel(config)


def roberta() -> Any:
    torch.manual_seed(0)
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SMALL, pad_token_id=0))


def unet() -> Any:
    blocks = {"down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",), "block_out_channels": (4,)}
    small = {"sample_size": 4, "in_channels": 1, "out_channels": 1, "layers_per_block": 1, "norm_num_groups": 2}
    return diffusers.UNet2DModel(**blocks, **small, attention_head_dim=2).eval()


def refused(act: Callable[[], Any], *words: str) -> None:
    with pytest.raises(da.InputError) as caught:
        act()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("make", [gpt2, lambda: bert(is_decoder=True)], ids=["gpt2", "decoder"])
def test_causal_models_are_no_masked_ones(make: Callable[[], Any]) -> None:
    refused(lambda: adapters.MaskedLM(make(), TOKENIZER), "is causal", "AutoModelForMaskedLM")
    bare = word_tokenizer(["w"])
    bare.mask_token = None  # as GPT-2's: it is the model that is wrong, not the tokenizer
    refused(lambda: adapters.MaskedLM(make(), bare), "is causal")


def test_a_causal_model_is_known_though_its_rows_round_differently() -> None:
    class Rounding(transformers.GPT2LMHeadModel):  # type: ignore[misc, name-defined]
        def forward(self, *given: Any, **named: Any) -> Any:
            answer = super().forward(*given, **named)
            answer.logits = answer.logits * (1 + 1e-15 * torch.arange(len(answer.logits)).double())[:, None, None]
            return answer

    model = Rounding(gpt2().config).double()
    refused(lambda: adapters.MaskedLM(model, TOKENIZER), "is causal", "AutoModelForMaskedLM")


@pytest.mark.parametrize("make", [bert, roberta, lambda: bert().double(), lambda: roberta().bfloat16()])
def test_masked_models_are_not_taken_for_causal(make: Callable[[], Any]) -> None:
    assert adapters.MaskedLM(make(), TOKENIZER).chain("w1 [MASK]").steps == 1


def test_language_models() -> None:
    lm = adapters.MaskedLM(bert(), TOKENIZER)
    for act, *words in (
        (lambda: lm.chain("w1 w2"), "hold no mask token '[MASK]'"),
        (lambda: da.sample(lm), ".chain("),  # type: ignore[arg-type]
        (lambda: da.sample(lm.chain(["w1 [MASK]"]), 3), "one for each sample", "the same again"),
    ):
        refused(act, *words)  # type: ignore[arg-type]
    in_order = da.sample(lm.chain("w1 [MASK] [MASK]", order="left-to-right"), 3, seed=0).samples
    assert in_order.equal(da.sample(lm.chain("w1 [MASK] [MASK]", order=range(5)), 3, seed=0).samples)  # type: ignore[arg-type]


def test_networks_of_diffusers() -> None:
    network, scheduler = unet(), diffusers.DDPMScheduler(num_train_timesteps=4)
    make: Any = adapters.from_diffusers
    for act, *words in (
        (lambda: make(network, diffusers.DDPMScheduler), "not its class: write DDPMScheduler()"),
        (lambda: make(network, scheduler, dtype="float16"), "dtype must be a floating-point dtype"),
        (lambda: make(network, scheduler, device="gpu"), "device cannot be 'gpu'"),
    ):
        refused(act, *words)  # type: ignore[arg-type]


def test_pipelines(tmp_path: Path) -> None:
    plain = adapters.DrawaheadPipeline(unet(), diffusers.DDPMScheduler(num_train_timesteps=4))
    plain.save_pretrained(tmp_path / "plain")
    (tmp_path / "empty").mkdir()
    pipe = tiny_pipelines.made("text")
    pipe.save_pretrained(tmp_path / "prompted")
    prompted = adapters.DrawaheadPipeline.from_pipe(pipe)
    load = adapters.DrawaheadPipeline.from_pretrained
    for act, *words in (
        (lambda: load(tmp_path / "prompted"), "is a StableDiffusionPipeline", "from_pipe"),
        (lambda: load(tmp_path / "empty"), "cannot be loaded as a pipeline"),
        (lambda: load(None), "must be a path"),
        (lambda: plain(sampler="copuled"), "did you mean 'coupled'"),
        (lambda: prompted(), "StableDiffusionPipeline cannot be called like this", "prompt"),
        (lambda: prompted("a", num_inference_steps=0), "cannot be called like this"),
        (lambda: prompted("a", sampler=da.Coupled), "write Coupled()"),
    ):
        refused(act, *words)  # type: ignore[arg-type]
    assert adapters.DrawaheadPipeline.from_pipe(prompted) is prompted
    again = load(tmp_path / "plain")
    again.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(0)
    images, report = again(generator=generator, output_type="np", return_dict=False, sampler="sequential")
    assert images.shape == (1, 4, 4, 1) and report.sampler == "Sequential()"
