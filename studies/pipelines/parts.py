"""The parts of pipelines with a few random weights each: they read no texts, and are called with embeddings."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

diffusers: Any = importlib.import_module("diffusers")
WIDTH = 8  # of the embeddings of U-Nets
WIDE = 32  # of those of transformers


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def lively(network: nn.Module) -> nn.Module:
    """Layers that begin at zero would hide what is told to them."""
    for i, weight in enumerate(network.parameters()):
        if weight.is_floating_point() and not bool(weight.any()):
            nn.init.normal_(weight, std=0.2, generator=torch.Generator().manual_seed(i))
    return network.eval()


def unet(**options: Any) -> Any:
    settings: dict[str, Any] = {
        "sample_size": 4,
        "block_out_channels": (8, 16),
        "norm_num_groups": 4,
        "layers_per_block": 1,
        "attention_head_dim": 4,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "cross_attention_dim": WIDTH,
    }
    return lively(diffusers.UNet2DConditionModel(**settings | options))


def large_unet(**options: Any) -> Any:
    added = {"addition_embed_type": "text_time", "addition_time_embed_dim": 4}
    return unet(**added, projection_class_embeddings_input_dim=WIDTH + 6 * 4, **options)


def control(**options: Any) -> Any:
    return lively(
        diffusers.ControlNetModel(
            block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4,
            cross_attention_dim=WIDTH, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            conditioning_embedding_out_channels=(4, 8), **options,
        )
    )  # fmt: skip


def large_control() -> Any:
    added = {"addition_embed_type": "text_time", "addition_time_embed_dim": 4}
    return control(**added, projection_class_embeddings_input_dim=WIDTH + 6 * 4)


ADAPTED = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}


def adapted_unet() -> Any:
    return unet(**ADAPTED)


def adapter() -> Any:
    return lively(
        diffusers.T2IAdapter(
            in_channels=3, channels=[8, 16], num_res_blocks=1, downscale_factor=2, adapter_type="full_adapter"
        )
    )


def vae(latents: int = 4, **options: Any) -> Any:
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 8), norm_num_groups=4, layers_per_block=1, latent_channels=latents,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **options,
    ).eval()  # fmt: skip


def flux(channels: int = 4, guidance: bool = True, **options: Any) -> Any:
    return lively(
        diffusers.FluxTransformer2DModel(
            patch_size=1, in_channels=channels, num_layers=1, num_single_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=WIDE, pooled_projection_dim=WIDE, axes_dims_rope=[4, 4, 8],
            guidance_embeds=guidance, **options,
        )
    )  # fmt: skip


def flux_control() -> Any:
    return lively(
        diffusers.FluxControlNetModel(
            patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=WIDE, pooled_projection_dim=WIDE, axes_dims_rope=[4, 4, 8],
        )
    )  # fmt: skip


def sd3(kind: str = "SD3Transformer2DModel", **options: Any) -> Any:
    return lively(
        getattr(diffusers, kind)(
            sample_size=8, patch_size=1, in_channels=16, num_layers=1, attention_head_dim=8, num_attention_heads=4,
            joint_attention_dim=WIDE, caption_projection_dim=WIDE, pooled_projection_dim=WIDE, out_channels=16,
            **options,
        )
    )  # fmt: skip


def pixart(size: int = 4, **options: Any) -> Any:
    return lively(
        diffusers.PixArtTransformer2DModel(
            sample_size=size, num_layers=1, patch_size=2, attention_head_dim=8, num_attention_heads=3,
            caption_channels=WIDE, in_channels=4, cross_attention_dim=24, out_channels=8, norm_type="ada_norm_single",
            **options,
        )
    )  # fmt: skip


def wan() -> Any:
    return lively(
        diffusers.WanTransformer3DModel(
            patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4,
            text_dim=WIDE, freq_dim=16, ffn_dim=16, num_layers=1, cross_attn_norm=True, qk_norm="rms_norm_across_heads",
            rope_max_seq_len=32,
        )
    )  # fmt: skip


def wan_vae() -> Any:
    return diffusers.AutoencoderKLWan(
        base_dim=3, z_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True],
        latents_mean=[0.0] * 4, latents_std=[1.0] * 4,
    ).eval()  # fmt: skip


def cogvideo() -> Any:
    return lively(
        diffusers.CogVideoXTransformer3DModel(
            num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4, time_embed_dim=2,
            text_embed_dim=WIDE, num_layers=1, sample_width=2, sample_height=2, sample_frames=9, patch_size=2,
            temporal_compression_ratio=4, max_text_seq_length=8,
        )
    )  # fmt: skip


def cogvideo_vae() -> Any:
    return diffusers.AutoencoderKLCogVideoX(
        in_channels=3, out_channels=3, down_block_types=("CogVideoXDownBlock3D",) * 4, norm_num_groups=2,
        up_block_types=("CogVideoXUpBlock3D",) * 4, block_out_channels=(8, 8, 8, 8), latent_channels=4,
        layers_per_block=1, temporal_compression_ratio=4,
    ).eval()  # fmt: skip


def qwen() -> Any:
    return lively(
        diffusers.QwenImageTransformer2DModel(
            patch_size=2, in_channels=16, out_channels=4, num_layers=1, attention_head_dim=16, num_attention_heads=2,
            joint_attention_dim=WIDE, guidance_embeds=False, axes_dims_rope=(8, 4, 4),
        )
    )  # fmt: skip


def qwen_vae() -> Any:
    return diffusers.AutoencoderKLQwenImage(
        base_dim=8, z_dim=4, dim_mult=[1, 1], num_res_blocks=1, temperal_downsample=[False], latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    ).eval()  # fmt: skip


def chroma() -> Any:
    return lively(
        diffusers.ChromaTransformer2DModel(
            patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=WIDE, axes_dims_rope=[4, 4, 8], approximator_hidden_dim=32,
            approximator_layers=1, approximator_num_channels=16,
        )
    )  # fmt: skip


def aura() -> Any:
    return lively(
        diffusers.AuraFlowTransformer2DModel(
            sample_size=8, patch_size=2, in_channels=4, num_mmdit_layers=1, num_single_dit_layers=1,
            attention_head_dim=8, num_attention_heads=4, caption_projection_dim=WIDE, joint_attention_dim=WIDE,
            out_channels=4, pos_embed_max_size=16,
        )
    )  # fmt: skip


def sana() -> Any:
    return lively(
        diffusers.SanaTransformer2DModel(
            patch_size=1, in_channels=4, out_channels=4, num_layers=1, num_attention_heads=2, attention_head_dim=4,
            num_cross_attention_heads=2, cross_attention_head_dim=4, cross_attention_dim=8, caption_channels=WIDE,
            sample_size=4,
        )
    )  # fmt: skip


def dit() -> Any:
    network = diffusers.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=4, in_channels=4, out_channels=8, num_layers=1, norm_num_groups=4,
        sample_size=4, patch_size=2, num_embeds_ada_norm=1000,
    )  # fmt: skip
    return lively(network)


def motion() -> Any:
    return lively(
        diffusers.MotionAdapter(
            block_out_channels=(8, 16),
            motion_layers_per_block=1,
            motion_norm_num_groups=4,
            motion_num_attention_heads=2,
        )
    )


def deep_vae() -> Any:
    return diffusers.AutoencoderDC(
        latent_channels=4, attention_head_dim=2, encoder_block_types=("ResBlock",) * 2,
        decoder_block_types=("ResBlock",) * 2,
        encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), encoder_qkv_multiscales=((), ()),
        decoder_qkv_multiscales=((), ()), encoder_layers_per_block=(1, 1), decoder_layers_per_block=[1, 1],
        upsample_block_type="interpolate", downsample_block_type="stride_conv", decoder_norm_types="rms_norm",
        decoder_act_fns="silu", scaling_factor=0.5,
    ).eval()  # fmt: skip
