"""Pipelines of diffusers with a few random weights each."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers


def tokenizer() -> Any:
    """Reads letters."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    with tempfile.TemporaryDirectory() as folder:
        vocabulary, merges = Path(folder) / "vocab.json", Path(folder) / "merges.txt"
        vocabulary.write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
        merges.write_text("#version: 0.2\n")
        return transformers.CLIPTokenizer(str(vocabulary), str(merges), model_max_length=8, pad_token="<|endoftext|>")


def text_config(size: int = 8) -> Any:
    return transformers.CLIPTextConfig(
        vocab_size=60, hidden_size=size, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=8, bos_token_id=0, eos_token_id=1, pad_token_id=1, projection_dim=size,
    )  # fmt: skip


def unet(**options: Any) -> Any:
    settings: dict[str, Any] = {
        "sample_size": 4,
        "block_out_channels": (8, 16),
        "norm_num_groups": 4,
        "layers_per_block": 1,
        "attention_head_dim": 4,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "cross_attention_dim": 8,
    }
    return diffusers.UNet2DConditionModel(**settings | options).eval()


def vae(latents: int = 4) -> Any:
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 8),
        norm_num_groups=4,
        layers_per_block=1,
        latent_channels=latents,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    ).eval()


def made(kind: str, scheduler: Any = None) -> Any:
    """A pipeline in float64, with a DDPM scheduler of a thousand timesteps unless another is given."""
    torch.manual_seed(0)
    pipe = _MAKERS[kind](scheduler or diffusers.DDPMScheduler(clip_sample=False))
    pipe.set_progress_bar_config(disable=True)
    return pipe.to(torch.float64)


def _stable(kind: str, **parts: Any) -> Any:
    text = transformers.CLIPTextModel(text_config()).eval()
    common = {"vae": vae(), "text_encoder": text, "tokenizer": tokenizer(), "unet": unet()}
    extra = {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    return getattr(diffusers, kind)(**common | parts | extra)


def _xl(scheduler: Any) -> Any:
    network = unet(
        addition_embed_type="text_time", addition_time_embed_dim=4, projection_class_embeddings_input_dim=8 + 6 * 4,
        cross_attention_dim=16,
    )  # fmt: skip
    return diffusers.StableDiffusionXLPipeline(
        vae=vae(), unet=network, scheduler=scheduler, tokenizer=tokenizer(), tokenizer_2=tokenizer(),
        text_encoder=transformers.CLIPTextModel(text_config()).eval(),
        text_encoder_2=transformers.CLIPTextModelWithProjection(text_config()).eval(),
    )  # fmt: skip


def _controlled(scheduler: Any) -> Any:
    control = diffusers.ControlNetModel(
        block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4, cross_attention_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), conditioning_embedding_out_channels=(4, 8),
    )  # fmt: skip
    for name, weight in control.named_parameters():
        if "controlnet" in name:
            torch.nn.init.normal_(weight, std=0.3)  # they begin at zero, where nothing would be controlled
    return _stable("StableDiffusionControlNetPipeline", scheduler=scheduler, controlnet=control.eval())


def _dit(scheduler: Any) -> Any:
    network = diffusers.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=4, in_channels=4, out_channels=8, num_layers=1, norm_num_groups=4,
        sample_size=4, patch_size=2, num_embeds_ada_norm=1000,
    )  # fmt: skip
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    return diffusers.DiTPipeline(network.eval(), vae(), scheduler)


def _inpainting(scheduler: Any, channels: int = 9) -> Any:
    network = unet(in_channels=channels, out_channels=4)
    return _stable("StableDiffusionInpaintPipeline", scheduler=scheduler, unet=network)


def _super_resolution(scheduler: Any) -> Any:
    network = diffusers.UNet2DModel(
        sample_size=4, in_channels=6, out_channels=3, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
    )  # fmt: skip
    decoder = diffusers.VQModel(
        block_out_channels=(8,), norm_num_groups=4, layers_per_block=1, latent_channels=3, num_vq_embeddings=8,
        down_block_types=("DownEncoderBlock2D",), up_block_types=("UpDecoderBlock2D",),
    )  # fmt: skip
    return diffusers.LDMSuperResolutionPipeline(decoder.eval(), network.eval(), scheduler)


def _floyd(kind: str, scheduler: Any) -> Any:
    """Without what reads texts: it is called with embeddings."""
    network = unet(sample_size=8, in_channels=6, out_channels=6, class_embed_type="timestep")
    absent = dict.fromkeys(["tokenizer", "text_encoder", "safety_checker", "feature_extractor", "watermarker"])
    noising = diffusers.DDPMScheduler()
    return getattr(diffusers, kind)(
        unet=network, scheduler=scheduler, image_noising_scheduler=noising, requires_safety_checker=False, **absent
    )


_MAKERS: dict[str, Any] = {
    "latent super-resolution": _super_resolution,
    "super-resolution": lambda scheduler: _floyd("IFSuperResolutionPipeline", scheduler),
    "image super-resolution": lambda scheduler: _floyd("IFImg2ImgSuperResolutionPipeline", scheduler),
    "text": lambda scheduler: _stable("StableDiffusionPipeline", scheduler=scheduler),
    "image": lambda scheduler: _stable("StableDiffusionImg2ImgPipeline", scheduler=scheduler),
    "inpainting": _inpainting,
    "overwriting": lambda scheduler: _inpainting(scheduler, 4),
    "xl": _xl,
    "control": _controlled,
    "dit": _dit,
}


def tiny_audio() -> Any:
    """AudioLDM2 without what reads texts: it is called with embeddings."""
    torch.manual_seed(0)
    network = diffusers.AudioLDM2UNet2DConditionModel(
        sample_size=4, in_channels=2, out_channels=2, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        attention_head_dim=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=((8, 8),) * 2,
    )  # fmt: skip
    decoder = diffusers.AutoencoderKL(
        in_channels=1, out_channels=1, block_out_channels=(8, 8), norm_num_groups=4, layers_per_block=1,
        latent_channels=2, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    vocoder = transformers.SpeechT5HifiGan(
        transformers.SpeechT5HifiGanConfig(
            model_in_dim=8, sampling_rate=16000, upsample_initial_channel=8, upsample_rates=[2, 2],
            upsample_kernel_sizes=[4, 4], resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1]],
        )
    )  # fmt: skip
    reader = transformers.T5EncoderModel(
        transformers.T5Config(vocab_size=10, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    )
    speaker = transformers.GPT2Model(
        transformers.GPT2Config(vocab_size=10, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    )
    absent = dict.fromkeys(["text_encoder", "projection_model", "tokenizer", "tokenizer_2"])
    pipe = diffusers.AudioLDM2Pipeline(
        vae=decoder.eval(), unet=network.eval(), vocoder=vocoder.eval(), feature_extractor=None,
        text_encoder_2=reader.eval(), language_model=speaker.eval(),
        scheduler=diffusers.DDPMScheduler(clip_sample=False), **absent,
    )  # fmt: skip
    pipe.set_progress_bar_config(disable=True)
    return pipe.to(torch.float64)
