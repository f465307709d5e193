"""What a pipeline cannot do is said in one sentence, with the remedy; and what is one line away is done on request."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import drawahead as da
from drawahead import Coupled, InputError, Sequential
from drawahead.diffusers.schedulers.stochastic import stochastic
from tests.adapters.test_diffusers_pipelines import generator, own_loop

diffusers = pytest.importorskip("diffusers")
pytest.importorskip("transformers")
from tests.adapters.tiny_pipelines import made  # noqa: E402

LATENT = {"num_inference_steps": 6, "output_type": "latent"}
ODE: dict[str, Any] = {
    "PNDMScheduler": {"skip_prk_steps": True},
    "UniPCMultistepScheduler": {},
    "HeunDiscreteScheduler": {},
    "DPMSolverMultistepScheduler": {},
    "EulerDiscreteScheduler": {},
    "DDIMScheduler": {},
}


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    diffusers.logging.set_verbosity_error()
    with torch.random.fork_rng():
        yield


def from_pipe(pipe: Any, **options: Any) -> Any:
    return da.adapters.DrawaheadPipeline.from_pipe(pipe, **options)


@pytest.mark.parametrize("name", ODE)
def test_a_scheduler_without_noise_gives_the_line_to_paste(name: str) -> None:
    theirs = made("text", getattr(diffusers, name)(**ODE[name]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            from_pipe(theirs)("red", sampler=Coupled(), **LATENT)
        except InputError as error:
            said = str(error)
        else:
            said = next(str(one.message) for one in caught if "no step of this scheduler is random" in str(one.message))
    assert "pipe.scheduler = DDPMScheduler.from_config(pipe.scheduler.config" in said
    assert "from_pipe(pipe, stochastic=True)" in said


@pytest.mark.parametrize("name", ODE)
def test_a_stochastic_scheduler_on_request(name: str) -> None:
    theirs = made("text", getattr(diffusers, name)(**ODE[name]))
    drawn = from_pipe(theirs, stochastic=True)("red", sampler=Sequential(), generator=generator(), **LATENT)
    assert f"DDPMScheduler in place of {name}" in drawn.report.choice and "DDPMScheduler" in str(drawn.report)
    assert type(theirs.scheduler).__name__ == name
    said = stochastic(theirs.scheduler)
    assert said is not None
    pasted = made("text", theirs.scheduler)
    exec(said[1], {"DDPMScheduler": diffusers.DDPMScheduler, "pipe": pasted})
    arguments = {"prompt": "red", "generator": generator(), **LATENT}
    expected = own_loop("text", pasted.scheduler, drawn.report.seed, arguments, theirs)
    torch.testing.assert_close(drawn.images, expected.images, rtol=1e-6, atol=1e-6)


def test_one_that_draws_noise_is_left_alone() -> None:
    drawn = from_pipe(made("text"), stochastic=True)("red", sampler=Sequential(), **LATENT)
    assert "in place of" not in drawn.report.choice


def test_a_compiled_network() -> None:
    theirs, own = made("text"), made("text")
    theirs.unet = torch.compile(theirs.unet)
    draws = [from_pipe(pipe)("red", sampler=Sequential(), generator=generator(), **LATENT) for pipe in (theirs, own)]
    torch.testing.assert_close(draws[0].images, draws[1].images)


CACHES = {
    "FirstBlockCacheConfig": {"threshold": 0.1},
    "PyramidAttentionBroadcastConfig": {"spatial_attention_block_skip_range": 2},
    "FasterCacheConfig": {"spatial_attention_block_skip_range": 2},
    "TaylorSeerCacheConfig": {},
    "MagCacheConfig": {"num_inference_steps": 6, "mag_ratios": [1.0] * 6},
}


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_is_refused_by_name(name: str) -> None:
    transformer = diffusers.FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=[4, 4, 8],
    )  # fmt: skip
    options: dict[str, Any] = dict(CACHES[name])
    if "skip_range" in next(iter(options), ""):
        options["current_timestep_callback"] = lambda: 500
    transformer.enable_cache(getattr(diffusers, name)(**options))
    theirs = made("text")
    theirs.register_modules(unet=transformer)
    with pytest.raises(
        InputError, match=r"unet of StableDiffusionPipeline keeps what it computed .*Hook.*disable_cache"
    ):
        from_pipe(theirs)("red", **LATENT)


def test_pipelines_of_pipelines_name_those() -> None:
    class Combined(diffusers.StableDiffusionPipeline):  # type: ignore[misc, name-defined]
        def __call__(self, prompt: str, **_: Any) -> Any:
            return diffusers.pipelines.ImagePipelineOutput(images=[])

    theirs = Combined(**made("text").components, requires_safety_checker=False)
    theirs.decoder_pipe = made("text")
    with pytest.raises(InputError, match=r"does not step .* made of other pipelines .decoder_pipe., so give from_pipe"):
        from_pipe(theirs)("red")


def test_tokens_are_not_drawn_with_gaussian_noise() -> None:
    class Writes(diffusers.StableDiffusionPipeline):  # type: ignore[misc, name-defined]
        def __call__(self, prompt: str, **_: Any) -> Any:
            self.scheduler.set_timesteps(4)
            tokens = torch.zeros(1, 4, 4, 4, dtype=torch.int64)
            for t in self.scheduler.timesteps:
                tokens = self.scheduler.step(tokens, t, tokens).prev_sample
            return tokens

    theirs = Writes(**made("text").components, requires_safety_checker=False)
    with pytest.raises(InputError, match=r"Writes draws tokens.*da.adapters.MaskedLM"):
        from_pipe(theirs)("red")


def test_an_error_of_the_pipeline_is_said_with_its_name() -> None:
    with pytest.raises(InputError, match=r"StableDiffusionPipeline cannot be called like this: .*prompt"):
        from_pipe(made("text"))(3)
    with pytest.raises(InputError, match="rows must be names of arguments"):
        from_pipe(made("text"), rows="guidance")
