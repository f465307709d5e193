"""Classes of pipelines: how each is made, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import torch

from studies.pipelines import parts
from studies.pipelines.parts import WIDE, WIDTH, diffusers, rows

TEXT = {"prompt_embeds": rows(2, 3, WIDTH), "negative_prompt_embeds": rows(2, 3, WIDTH, seed=1)}
LARGE = TEXT | {
    "pooled_prompt_embeds": rows(2, WIDTH, seed=2),
    "negative_pooled_prompt_embeds": rows(2, WIDTH, seed=3),
}
WORDS = {"prompt_embeds": rows(2, 3, WIDE), "negative_prompt_embeds": rows(2, 3, WIDE, seed=1)}
POOLED = {"pooled_prompt_embeds": rows(2, WIDE, seed=2), "negative_pooled_prompt_embeds": rows(2, WIDE, seed=3)}
ONE_WAY = {"prompt_embeds": rows(2, 3, WIDE), "pooled_prompt_embeds": rows(2, WIDE, seed=2)}
MASKS = {
    "prompt_attention_mask": torch.ones(2, 3, dtype=torch.int64),
    "negative_prompt_attention_mask": torch.ones(2, 3, dtype=torch.int64),
}
PICTURE = rows(1, 3, 8, 8).sigmoid()
MASK = (torch.arange(64).view(1, 1, 8, 8) % 3 > 0).double()
PAINT = {"image": PICTURE, "mask_image": MASK, "height": 8, "width": 8}
SMALL = {"height": 8, "width": 8}


@final
@dataclass(frozen=True)
class Case:
    """A pipeline of a class, and a call of it."""

    kind: str
    what: str
    make: Callable[[], dict[str, Any]]
    arguments: dict[str, Any]
    flow: bool = False  # whether its scheduler matches flows
    output: str = "latent"
    options: dict[str, Any] = field(default_factory=dict)

    def pipeline(self) -> Any:
        """Made in float64."""
        torch.manual_seed(0)
        made = {"scheduler": flowing() if self.flow else diffusion()} | self.make()
        pipe = getattr(diffusers, self.kind)(**made, **self.options)
        pipe.set_progress_bar_config(disable=True)
        return pipe.to(torch.float64)


def diffusion() -> Any:
    return diffusers.DDPMScheduler(clip_sample=False)


def flowing() -> Any:
    return diffusers.FlowMatchEulerDiscreteScheduler(stochastic_sampling=True)


def _stable(**own: Any) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        absent = dict.fromkeys(["text_encoder", "tokenizer", "safety_checker", "feature_extractor"])
        return {"vae": parts.vae(), "unet": parts.unet()} | absent | _built(own)

    return make


def _large(**own: Any) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        absent = dict.fromkeys(["text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2"])
        return {"vae": parts.vae(), "unet": parts.large_unet()} | absent | _built(own)

    return make


def _animated() -> dict[str, Any]:
    made = {"vae": parts.vae(), "unet": parts.unet(), "motion_adapter": parts.motion()}
    return made | dict.fromkeys(["text_encoder", "tokenizer"])


def _transformer(network: Callable[[], Any], *absent: str, **own: Any) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        names = ("text_encoder", "tokenizer", *absent)
        return {"vae": parts.vae(), "transformer": network()} | dict.fromkeys(names) | _built(own)

    return make


def _built(own: dict[str, Any]) -> dict[str, Any]:
    return {name: part() for name, part in own.items()}


def _flux(network: Callable[[], Any] = parts.flux, **own: Any) -> Callable[[], dict[str, Any]]:
    own = {"vae": lambda: parts.vae(1, shift_factor=0.0, scaling_factor=1.0)} | own
    return _transformer(network, "text_encoder_2", "tokenizer_2", **own)


def _sd3(**own: Any) -> Callable[[], dict[str, Any]]:
    names = [f"{part}_{i}" for part in ("text_encoder", "tokenizer") for i in (2, 3)]
    own = {"vae": lambda: parts.vae(16, shift_factor=0.0, scaling_factor=1.0)} | own
    return _transformer(parts.sd3, *names, **own)


def _consistent() -> dict[str, Any]:
    own = {"unet": lambda: parts.unet(time_cond_proj_dim=8), "scheduler": diffusers.LCMScheduler}
    return _stable(**own)() | {"image_encoder": None}


SD, XL = "StableDiffusion", "StableDiffusionXL"
CASES = [
    Case(f"{SD}Pipeline", "guidance in one call", _stable(), TEXT),
    Case(f"{SD}Pipeline", "guidance_rescale", _stable(), TEXT | {"guidance_rescale": 0.7}),
    Case(f"{SD}Img2ImgPipeline", "begins partway", _stable(), TEXT | {"image": PICTURE, "strength": 0.7}),
    Case(f"{SD}InpaintPipeline", "overwrites", _stable(), TEXT | PAINT),
    Case(
        f"{SD}InpaintPipeline",
        "channels beside the state",
        _stable(unet=lambda: parts.unet(in_channels=9, out_channels=4)),
        TEXT | PAINT,
    ),
    Case(f"{SD}ControlNetPipeline", "a ControlNet", _stable(controlnet=parts.control), TEXT | {"image": PICTURE}),
    Case(
        f"{SD}ControlNetPipeline",
        "a condition by step",
        _stable(controlnet=parts.control),
        TEXT | {"image": PICTURE, "control_guidance_end": 0.5},
    ),
    Case(
        f"{SD}ControlNetPipeline",
        "guess_mode",
        _stable(controlnet=parts.control),
        TEXT | {"image": PICTURE, "guess_mode": True},
    ),
    Case(
        f"{SD}ControlNetImg2ImgPipeline",
        "a ControlNet",
        _stable(controlnet=parts.control),
        TEXT | {"image": PICTURE, "control_image": PICTURE},
    ),
    Case(
        f"{SD}ControlNetInpaintPipeline",
        "overwrites",
        _stable(controlnet=parts.control),
        TEXT | PAINT | {"control_image": PICTURE},
    ),
    Case(
        f"{SD}AdapterPipeline",
        "an adapter",
        _stable(unet=parts.adapted_unet, adapter=parts.adapter),
        TEXT | {"image": PICTURE.repeat(2, 1, 1, 1), "height": 8, "width": 8},
    ),
    Case(f"{SD}InstructPix2PixPipeline", "three passes",
         _stable(unet=lambda: parts.unet(in_channels=8, out_channels=4)),
         TEXT | {"image": PICTURE}),
    Case("LatentConsistencyModelPipeline", "embedded guidance", _consistent, {"prompt_embeds": TEXT["prompt_embeds"]}),
    Case(f"{SD}PAGImg2ImgPipeline", "three passes", _stable(), TEXT | {"image": PICTURE},
         options={"pag_applied_layers": ["mid"]}),
    Case(f"{SD}PAGInpaintPipeline", "three passes", _stable(), TEXT | PAINT, options={"pag_applied_layers": ["mid"]}),
    Case(f"{SD}ControlNetPAGPipeline", "three passes", _stable(controlnet=parts.control), TEXT | {"image": PICTURE},
         options={"pag_applied_layers": ["mid"]}),
    Case(f"{XL}PAGPipeline", "three passes", _large(), LARGE, options={"pag_applied_layers": ["mid"]}),
    Case(f"{XL}PAGImg2ImgPipeline", "three passes", _large(), LARGE | {"image": PICTURE},
         options={"pag_applied_layers": ["mid"]}),
    Case(f"{XL}AdapterPipeline", "an adapter",
         _large(unet=lambda: parts.large_unet(**parts.ADAPTED), adapter=parts.adapter),
         LARGE | {"image": PICTURE.repeat(2, 1, 1, 1), "height": 8, "width": 8}),
    Case(f"{XL}ControlNetImg2ImgPipeline", "a ControlNet", _large(controlnet=parts.large_control),
         LARGE | {"image": PICTURE, "control_image": PICTURE}),
    Case(f"{XL}ControlNetInpaintPipeline", "overwrites", _large(controlnet=parts.large_control),
         LARGE | PAINT | {"control_image": PICTURE}),
    Case(f"{XL}InstructPix2PixPipeline", "three passes",
         _large(unet=lambda: parts.large_unet(in_channels=8, out_channels=4)), LARGE | {"image": PICTURE}),
    Case("FluxControlImg2ImgPipeline", "begins partway", _flux(lambda: parts.flux(8, out_channels=4)),
         ONE_WAY | SMALL | {"image": PICTURE, "control_image": PICTURE}, flow=True),
    Case("FluxControlInpaintPipeline", "overwrites", _flux(lambda: parts.flux(8, out_channels=4)),
         ONE_WAY | PAINT | {"control_image": PICTURE}, flow=True),
    Case("FluxControlNetImg2ImgPipeline", "begins partway", _flux(controlnet=parts.flux_control),
         ONE_WAY | SMALL | {"image": PICTURE, "control_image": PICTURE}, flow=True),
    Case("FluxControlNetInpaintPipeline", "overwrites", _flux(controlnet=parts.flux_control),
         ONE_WAY | PAINT | {"control_image": PICTURE}, flow=True),
    Case("FluxKontextInpaintPipeline", "overwrites", _flux(),
         ONE_WAY | PAINT | {"_auto_resize": False, "max_area": 64}, flow=True),
    Case("StableDiffusion3InpaintPipeline", "overwrites", _sd3(), WORDS | POOLED | PAINT, flow=True),
    Case("StableDiffusion3PAGPipeline", "three passes", _sd3(), WORDS | POOLED | SMALL, flow=True,
         options={"pag_applied_layers": ["blocks.0"]}),
    Case("ChromaImg2ImgPipeline", "begins partway", _transformer(parts.chroma, vae=lambda: parts.vae(
        1, shift_factor=0.0, scaling_factor=1.0)),
         WORDS | SMALL | {k: v.bool() for k, v in MASKS.items()} | {"image": PICTURE}, flow=True),
    Case("PixArtSigmaPAGPipeline", "three passes", _transformer(parts.pixart), WORDS | MASKS | SMALL
         | {"negative_prompt": None, "use_resolution_binning": False}, options={"pag_applied_layers": ["blocks.0"]}),
    Case("CogVideoXVideoToVideoPipeline", "frames first", _transformer(parts.cogvideo, vae=parts.cogvideo_vae),
         {"prompt_embeds": rows(2, 8, WIDE), "negative_prompt_embeds": rows(2, 8, WIDE, seed=1),
          "height": 16, "width": 16, "video": [rows(3, 16, 16).sigmoid()] * 9}),
    Case("WanVideoToVideoPipeline", "begins partway", _transformer(parts.wan, vae=parts.wan_vae),
         WORDS | {"height": 16, "width": 16, "video": [rows(3, 16, 16).sigmoid()] * 5}, flow=True),
    Case("AnimateDiffVideoToVideoPipeline", "text for each frame", _animated,
         TEXT | {"height": 8, "width": 8, "video": [[rows(3, 8, 8).sigmoid()] * 2] * 2}),
    Case(f"{SD}PAGPipeline", "three passes", _stable(), TEXT, options={"pag_applied_layers": ["mid"]}),
    Case(f"{XL}Pipeline", "guidance in one call", _large(), LARGE),
    Case(f"{XL}Pipeline", "denoising_end", _large(), LARGE | {"denoising_end": 0.5}),
    Case(f"{XL}Img2ImgPipeline", "begins partway", _large(), LARGE | {"image": PICTURE, "strength": 0.7}),
    Case(f"{XL}InpaintPipeline", "overwrites", _large(), LARGE | PAINT),
    Case(f"{XL}ControlNetPipeline", "a ControlNet", _large(controlnet=parts.large_control), LARGE | {"image": PICTURE}),
    Case("DiTPipeline", "labels", lambda: {"vae": parts.vae(), "transformer": parts.dit()},
         {"class_labels": [3, 5], "guidance_scale": 2.0}, output="np"),
    Case("AnimateDiffPipeline", "text for each frame", _animated,
         TEXT | {"num_frames": 2, "height": 8, "width": 8}),
    Case("FluxPipeline", "packed latents, embedded guidance", _flux(), ONE_WAY | SMALL, flow=True),
    Case("FluxPipeline", "guidance in two calls", _flux(),
         ONE_WAY | SMALL | {f"negative_{name}": -value for name, value in ONE_WAY.items()} | {"true_cfg_scale": 3.0},
         flow=True),
    Case("FluxImg2ImgPipeline", "begins partway", _flux(), ONE_WAY | SMALL | {"image": PICTURE}, flow=True),
    Case("FluxInpaintPipeline", "overwrites", _flux(), ONE_WAY | PAINT, flow=True),
    Case("FluxKontextPipeline", "another image in the sequence", _flux(),
         ONE_WAY | SMALL | {"image": PICTURE, "_auto_resize": False, "max_area": 64}, flow=True),
    Case("FluxControlPipeline", "channels beside the state", _flux(lambda: parts.flux(8, out_channels=4)),
         ONE_WAY | SMALL | {"control_image": PICTURE}, flow=True),
    Case("FluxControlNetPipeline", "a ControlNet of a transformer", _flux(controlnet=parts.flux_control),
         ONE_WAY | SMALL | {"control_image": PICTURE}, flow=True),
    Case("StableDiffusion3Pipeline", "guidance in one call", _sd3(), WORDS | POOLED | SMALL, flow=True),
    Case("StableDiffusion3Img2ImgPipeline", "begins partway", _sd3(),
         WORDS | POOLED | SMALL | {"image": PICTURE}, flow=True),
    Case("StableDiffusion3ControlNetPipeline", "a ControlNet of a transformer",
         _sd3(controlnet=lambda: parts.sd3("SD3ControlNetModel")),
         WORDS | POOLED | SMALL | {"control_image": PICTURE}, flow=True),
    Case("PixArtAlphaPipeline", "guidance in one call", _transformer(parts.pixart),
         WORDS | MASKS | SMALL | {"negative_prompt": None, "use_resolution_binning": False}),
    Case("PixArtSigmaPipeline", "guidance in one call", _transformer(parts.pixart),
         WORDS | MASKS | SMALL | {"negative_prompt": None, "use_resolution_binning": False}),
    Case("WanPipeline", "guidance in two calls", _transformer(parts.wan, vae=parts.wan_vae),
         WORDS | {"height": 16, "width": 16, "num_frames": 5}, flow=True),
    Case("WanPipeline", "two networks", _transformer(parts.wan, vae=parts.wan_vae, transformer_2=parts.wan),
         WORDS | {"height": 16, "width": 16, "num_frames": 5}, flow=True, options={"boundary_ratio": 0.6}),
    Case("CogVideoXPipeline", "frames first", _transformer(parts.cogvideo, vae=parts.cogvideo_vae),
         {"prompt_embeds": rows(2, 8, WIDE), "negative_prompt_embeds": rows(2, 8, WIDE, seed=1),
          "height": 16, "width": 16, "num_frames": 9}),
    Case("QwenImagePipeline", "guidance in two calls, rescaled", _transformer(parts.qwen, vae=parts.qwen_vae),
         WORDS | SMALL | {"prompt_embeds_mask": torch.ones(2, 3, dtype=torch.int64), "true_cfg_scale": 3.0,
                          "negative_prompt_embeds_mask": torch.ones(2, 3, dtype=torch.int64)}, flow=True),
    Case("ChromaPipeline", "guidance in two calls", _transformer(parts.chroma, vae=lambda: parts.vae(
        1, shift_factor=0.0, scaling_factor=1.0)), WORDS | SMALL | {k: v.bool() for k, v in MASKS.items()}, flow=True),
    Case("AuraFlowPipeline", "guidance in one call", _transformer(parts.aura),
         WORDS | SMALL | MASKS, flow=True),
    Case("SanaPipeline", "guidance in one call", _transformer(parts.sana, vae=parts.deep_vae),
         WORDS | {"height": 32, "width": 32} | MASKS
         | {"negative_prompt": None, "use_resolution_binning": False}, flow=True),
]  # fmt: skip
"""One or more for each class."""
