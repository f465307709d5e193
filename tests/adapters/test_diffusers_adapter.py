"""Every supported scheduler of diffusers is followed step by step; every other setting is refused by name."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

import drawahead as da
from drawahead import CountingDenoiser, InputError, Sequential
from drawahead.adapters import from_diffusers
from drawahead.chains.base import Tally
from drawahead.diffusers.batch import Batch, kept
from drawahead.randomness import Purpose, Stream
from drawahead.verification.statistics import same_law

diffusers = pytest.importorskip("diffusers")
from diffusers import (  # noqa: E402
    DDIMPipeline,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    EulerAncestralDiscreteScheduler,
    UNet2DConditionModel,
    UNet2DModel,
)

Check = Callable[[float], None]
SHAPE = (2, 8, 8)
SIZE = 128
SEED = 5
IMAGES = 2


def tiny_unet(**options: Any) -> Any:
    torch.manual_seed(0)
    unet = UNet2DModel(
        sample_size=8,
        in_channels=2,
        out_channels=2,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        **options,
    )
    return unet.eval()


@pytest.fixture(scope="module", autouse=True)
def _global_random_state() -> Iterator[None]:
    with torch.random.fork_rng():
        yield


@pytest.fixture(scope="module")
def unet() -> Any:
    return tiny_unet().double()


def in_float64(scheduler: Any) -> None:
    """Has a scheduler do its own arithmetic in float64, on its own tables. (In float32 it loses up to four digits
    where it takes the difference of neighbouring levels.)"""
    for name in ("alphas_cumprod", "final_alpha_cumprod", "one", "sigmas"):
        if hasattr(scheduler, name):
            setattr(scheduler, name, getattr(scheduler, name).double())


def followed(
    network: Any, scheduler: Any, steps: int, step_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Tensor:
    """The path (images, steps, *shape) that the scheduler takes by itself with the noise of SEED."""
    stream = Stream.of_samples(SEED, torch.arange(IMAGES))
    module = __import__(type(scheduler).__module__, fromlist=["randn_tensor"])

    def normal(purpose: Purpose, k: int) -> Tensor:
        return stream.normal(purpose, torch.full((IMAGES,), k), size=SIZE).view(IMAGES, *SHAPE).to(network.dtype)

    x = normal(Purpose.START, 0) * float(scheduler.init_noise_sigma)
    states = []
    with torch.no_grad(), monkeypatch.context() as patch:
        for k, t in enumerate(scheduler.timesteps):
            noise = normal(Purpose.VALUE, k)
            patch.setattr(module, "randn_tensor", lambda *_, noise=noise, **__: noise)
            output = network(scheduler.scale_model_input(x, t), t).sample
            x = scheduler.step(output, t, x, **step_options).prev_sample
            states.append(x)
    assert len(states) == steps
    return torch.stack(states, 1)


def deviation(
    unet: Any,
    scheduler: Any,
    steps: int,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Any], None] = in_float64,
    **step_options: Any,
) -> float:
    """The largest difference of any entry after any step, beside the largest entry of that step."""
    chain = from_diffusers(unet, scheduler, num_inference_steps=steps, record=range(1, steps), **step_options)
    ours = da.sample(chain, IMAGES, sampler=Sequential(), seed=SEED).samples
    ours = ours if steps > 1 else ours[:, None]
    own = type(scheduler).from_config(scheduler.config)
    own.set_timesteps(steps)
    prepare(own)
    theirs = followed(unet, own, steps, step_options, monkeypatch)
    assert theirs.isfinite().all()
    size = theirs.abs().amax(dim=(0, 2, 3, 4)).clamp(min=1)
    return float(((ours - theirs).abs().amax(dim=(0, 2, 3, 4)) / size).max())


# Following the scheduler. Three steps do not divide a thousand: spacings then differ in every way they can.

STEPS = 3
FLOAT64 = 1e-12
FLOAT32 = 2e-6
LIMITS: dict[str, dict[str, Any]] = {
    "free": {"clip_sample": False},
    "clipped": {"clip_sample": True},
    "clipped at 0.3": {"clip_sample": True, "clip_sample_range": 0.3},
    "thresholded": {"thresholding": True, "dynamic_thresholding_ratio": 0.8, "sample_max_value": 1.5},
}
SPACINGS = ("leading", "linspace", "trailing")
PREDICTIONS = ("epsilon", "sample", "v_prediction")
VARIANCES = ("fixed_small", "fixed_small_log", "fixed_large")
ETAS = ({"eta": 0.0}, {"eta": 1.0}, {"eta": 0.6, "use_clipped_model_output": True})
ENDS = ({}, {"set_alpha_to_one": False, "steps_offset": 1})
Euler = EulerAncestralDiscreteScheduler
KINDS: dict[Any, dict[str, Any]] = {DDPMScheduler: {}, DDIMScheduler: {"eta": 0.5}, Euler: {}}
BETAS: list[dict[str, Any]] = [
    {"beta_schedule": "linear", "beta_start": 0.001, "beta_end": 0.03},
    {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012},
    {"beta_schedule": "squaredcos_cap_v2"},
    {"beta_schedule": "sigmoid"},
    {"trained_betas": torch.linspace(0.05, 0.3, 20).tolist(), "num_train_timesteps": 20},
    {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"},
    {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "linspace"},
    {"rescale_betas_zero_snr": True, "timestep_spacing": "leading"},
]


def settings() -> Iterator[tuple[Any, dict[str, Any], dict[str, Any], int]]:
    """Schedulers, their settings, options of their steps, and how many steps."""
    ends = [*itertools.product(ETAS, ENDS)]
    for (i, p), (j, spacing), (k, limit) in itertools.product(
        *map(enumerate, (PREDICTIONS, SPACINGS, LIMITS.values()))
    ):
        common = {"prediction_type": p, "timestep_spacing": spacing, **limit}
        yield DDPMScheduler, common | {"variance_type": VARIANCES[(i + j + k) % 3]}, {}, STEPS
        eta, end = ends[(2 * i + j + k) % 6]  # each pair with every value of the others
        yield DDIMScheduler, common | end, eta, STEPS
    for p, spacing, offset in itertools.product(PREDICTIONS[::2], SPACINGS, (0, 1)):
        yield Euler, {"prediction_type": p, "timestep_spacing": spacing, "steps_offset": offset}, {}, STEPS
    for kind, betas in itertools.product(KINDS, BETAS):
        if kind is DDPMScheduler or betas.get("beta_schedule") != "sigmoid":  # the others do not have it
            yield kind, betas, KINDS[kind], STEPS
    for kind, steps, spacing in itertools.product(KINDS, (1, 20, 13), SPACINGS[:2]):
        yield kind, {"num_train_timesteps": 20, "beta_end": 0.4, "timestep_spacing": spacing}, KINDS[kind], steps


@pytest.mark.parametrize(("kind", "given", "options", "steps"), [*settings()], ids=str)
def test_it_is_followed(
    unet: Any, kind: Any, given: dict[str, Any], options: dict[str, Any], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Euler's rounds every state to float32, whatever the model. And on a last step from a timestep above 0 DDPM's adds
    noise of 1e-10, which is left out here."""
    own = given.get("variance_type") != "fixed_large" and given.get("timestep_spacing") == "trailing"
    own |= "beta_schedule" in given or "trained_betas" in given
    tolerance = FLOAT32 if kind is Euler else 1e-9 if kind is DDPMScheduler and own else FLOAT64
    assert deviation(unet, kind(**given), steps, monkeypatch, **options) < tolerance


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_taken_unless_told_otherwise(unet: Any, kind: Any) -> None:
    assert from_diffusers(unet, kind(num_train_timesteps=20)).plan.time.tolist() == list(range(19, -1, -1))


@pytest.mark.parametrize("kind", KINDS)
def test_schedulers_as_they_are(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float32 model, and a scheduler that does its arithmetic in float32."""
    assert deviation(tiny_unet(), kind(), STEPS, monkeypatch, lambda scheduler: None, **KINDS[kind]) < 1e-5


MATTERS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (DDPMScheduler, {"prediction_type": "sample"}, {}),
    (DDPMScheduler, {"prediction_type": "v_prediction"}, {}),
    (DDPMScheduler, {"variance_type": "fixed_large"}, {}),
    (DDPMScheduler, {"timestep_spacing": "trailing"}, {}),
    (DDPMScheduler, {"timestep_spacing": "linspace"}, {}),
    (DDPMScheduler, {"steps_offset": 3}, {}),
    (DDPMScheduler, {"rescale_betas_zero_snr": True}, {}),
    (DDPMScheduler, LIMITS["free"], {}),
    (DDPMScheduler, LIMITS["clipped at 0.3"], {}),
    (DDPMScheduler, LIMITS["thresholded"], {}),
    (DDIMScheduler, {}, {"eta": 0.7}),
    (DDIMScheduler, {}, {"eta": 0.5, "use_clipped_model_output": True}),
    (DDIMScheduler, {"set_alpha_to_one": False}, {}),
    (EulerAncestralDiscreteScheduler, {"timestep_spacing": "leading"}, {}),
]


@pytest.mark.parametrize(("kind", "setting", "options"), MATTERS, ids=str)
def test_every_setting_matters(unet: Any, kind: Any, setting: dict[str, Any], options: dict[str, Any]) -> None:
    """Else to follow it would show nothing."""

    def drawn(scheduler: Any, **options: Any) -> Tensor:
        chain = from_diffusers(unet, scheduler, num_inference_steps=STEPS, **options)
        return da.sample(chain, IMAGES, sampler=Sequential(), seed=SEED).samples

    changed = drawn(kind(**setting), **KINDS[kind] | options)
    assert float((changed - drawn(kind(), **KINDS[kind])).abs().max()) > 1e-3


def test_timesteps_that_were_set_before_do_not_count(unet: Any) -> None:
    used, unused = DDPMScheduler(), DDPMScheduler()
    used.set_timesteps(3)
    before = {name: value.clone() if isinstance(value, Tensor) else value for name, value in vars(used).items()}
    for name in ("a", "b", "s", "time"):
        one, other = (getattr(from_diffusers(unet, s, num_inference_steps=9).plan, name) for s in (used, unused))
        assert torch.equal(one, other)
    assert len(used.timesteps) == 3
    assert all(value is before[name] or torch.equal(value, before[name]) for name, value in vars(used).items())


@pytest.mark.parametrize("kind", [DDPMScheduler, DDIMScheduler])
def test_tables_that_were_changed_count(unet: Any, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the scheduler's own steps go by them: people change the noise of a scheduler by its tables."""
    changed = kind(clip_sample=False)
    changed.alphas_cumprod = changed.alphas_cumprod**1.5
    chain = from_diffusers(unet, changed, num_inference_steps=STEPS, record=range(1, STEPS), **KINDS[kind])
    ours = da.sample(chain, IMAGES, sampler=Sequential(), seed=SEED).samples
    changed.set_timesteps(STEPS)
    in_float64(changed)
    theirs = followed(unet, changed, STEPS, KINDS[kind], monkeypatch)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


# What is refused

REFUSED: list[tuple[Any, dict[str, Any], dict[str, Any], str]] = [
    (DDPMScheduler, {"variance_type": "learned"}, {}, "learned variance"),
    (DDPMScheduler, {"variance_type": "learned_range"}, {}, "learned variance"),
    (DDPMScheduler, {"variance_type": "fixed_large_log"}, {}, "variance_type"),  # the scheduler itself answers NaN
    (DDPMScheduler, {"prediction_type": "score"}, {}, "prediction_type"),
    (EulerAncestralDiscreteScheduler, {"prediction_type": "sample"}, {}, "prediction_type"),
    (DDPMScheduler, {"timestep_spacing": "cubic"}, {}, "cubic is not supported"),
    (DDPMScheduler, {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}, {}, "rescale_betas_zero_snr"),
    (DDIMScheduler, {"rescale_betas_zero_snr": True, "timestep_spacing": "linspace"}, {}, "rescale_betas_zero_snr"),
    (DDPMScheduler, {}, {"num_inference_steps": 0}, "num_inference_steps"),
    (DDPMScheduler, {}, {"num_inference_steps": 1001}, "num_inference_steps"),
    (EulerAncestralDiscreteScheduler, {}, {"num_inference_steps": 1001}, "num_inference_steps"),
    (DDPMScheduler, {"steps_offset": 1}, {}, "steps_offset"),
    (EulerAncestralDiscreteScheduler, {"steps_offset": 1, "timestep_spacing": "leading"}, {}, "steps_offset"),
    # arange(1000, 0, -1000 / 61) has 62 entries, and the scheduler visits timestep -1
    (DDPMScheduler, {"timestep_spacing": "trailing"}, {"num_inference_steps": 61}, "num_inference_steps"),
    (DDIMScheduler, {}, {"eta": -0.1}, "eta"),
    (DDIMScheduler, {}, {"eta": 3.0}, "eta"),
    (DDPMScheduler, {}, {"eta": 1.0}, "eta"),
    (EulerAncestralDiscreteScheduler, {}, {"use_clipped_model_output": True}, "use_clipped_model_output"),
    (DDPMScheduler, {}, {"class_labels": 1}, "class_labels"),
    (
        diffusers.DPMSolverMultistepScheduler,
        {"solver_order": 3},
        {"num_inference_steps": 9},
        "looks back more than one",
    ),
    (DDPMScheduler, {}, {"step_options": {"s_churn": 1.0}}, "unexpected keyword argument .s_churn."),
    (DDPMScheduler, {}, {"strength": 0.5}, "strength"),
    (DDPMScheduler, {}, {"strength": 0.0001, "num_inference_steps": 10, "image": torch.zeros(SHAPE)}, "no step"),
    (DDPMScheduler, {}, {"guidance_scale": 3.0}, "unconditional"),
    (DDPMScheduler, {}, {"channels": torch.zeros(1, 2, 8, 8)}, "channels= brings 2"),
]


@pytest.mark.parametrize(("kind", "settings", "options", "named"), REFUSED, ids=str)
def test_what_cannot_be_followed_is_refused(
    unet: Any, kind: Any, settings: dict[str, Any], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        from_diffusers(unet, kind(**settings), **options)


def test_a_setting_from_the_future_is_judged_by_what_it_does(unet: Any) -> None:
    from diffusers.configuration_utils import register_to_config

    class DDPMScheduler(diffusers.DDPMScheduler):  # type: ignore[misc, name-defined]
        @register_to_config
        def __init__(self, num_train_timesteps: int = 1000, restless: float = 0.0) -> None:
            super().__init__(num_train_timesteps)
            self.restless = restless

        def step(self, *given: Any, **options: Any) -> Any:
            answer = super().step(*given, **options)
            answer.prev_sample = answer.prev_sample + self.restless * answer.prev_sample**2
            return answer

    calm = from_diffusers(unet, DDPMScheduler(), num_inference_steps=5).plan
    assert torch.equal(calm.s, from_diffusers(unet, diffusers.DDPMScheduler(), num_inference_steps=5).plan.s)
    with pytest.raises(InputError, match="DDPMScheduler cannot be followed exactly"):
        from_diffusers(unet, DDPMScheduler(restless=0.01), num_inference_steps=5)


def test_networks_that_are_refused(unet: Any) -> None:
    scheduler = DDPMScheduler()
    sizes = {"sample_size": 8, "block_out_channels": (8, 16), "norm_num_groups": 4}
    blocks = {
        "down_block_types": ("DownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "UpBlock2D"),
        "layers_per_block": 1,
    }
    for network, named in [
        (UNet2DConditionModel(cross_attention_dim=8, attention_head_dim=4, **sizes, **blocks), "encoder_hidden_states"),
        (UNet2DModel(in_channels=1, out_channels=2, **sizes, **blocks), "learned variance"),
        (UNet2DModel(num_class_embeds=3, **sizes, **blocks), "class_labels"),
        (UNet2DModel(dropout=0.1, **sizes, **blocks), "dropout"),
        (lambda x, t: x, "shape"),
    ]:
        with pytest.raises(InputError, match=named):
            from_diffusers(network, scheduler)
    with pytest.raises(InputError, match="scheduler"):
        from_diffusers(unet)
    with pytest.raises(InputError, match="vqvae"):
        from_diffusers(diffusers.LDMPipeline(vqvae=tiny_unet(), unet=unet, scheduler=scheduler))


# Networks of every kind


def test_a_pipeline_brings_both(unet: Any) -> None:
    chain = from_diffusers(DDPMPipeline(unet, DDPMScheduler(num_train_timesteps=30)))
    assert chain.steps == 30 and chain.shape == SHAPE and chain.dtype == torch.float64
    other = from_diffusers(DDPMPipeline(unet, DDPMScheduler()), DDIMScheduler(num_train_timesteps=20), eta=1.0)
    assert other.steps == 20 and other.plan.s[:-1].all()


def test_one_call_mixes_steps(unet: Any) -> None:
    chain = from_diffusers(unet, DDIMScheduler(), num_inference_steps=10, eta=1.0)
    x, k = torch.randn(5, *SHAPE, dtype=torch.float64), torch.tensor([9, 0, 4, 4, 2])
    with torch.no_grad():
        together = chain.denoiser(x, k)
        alone = torch.cat([chain.denoiser(x[i : i + 1], k[i : i + 1]) for i in range(5)])
    assert torch.allclose(together, alone, rtol=1e-12, atol=1e-12)


def test_class_labels() -> None:
    unet, scheduler = tiny_unet(num_class_embeds=4), DDPMScheduler(num_train_timesteps=5)

    def drawn(label: Any, network: Any = unet) -> Tensor:
        chain = from_diffusers(network, scheduler, class_labels=label, shape=SHAPE)
        return da.sample(chain, 2, sampler=Sequential(), seed=1).samples

    def told(x: Tensor, t: Tensor) -> Tensor:
        output: Tensor = unet(x, t, class_labels=torch.full_like(t, 2)).sample
        return output

    assert torch.equal(drawn(2), drawn(torch.tensor([2])))
    assert torch.equal(drawn(2), drawn(None, told))
    assert not torch.equal(drawn(2), drawn(3))
    assert torch.allclose(drawn([2, 3]), torch.stack([drawn(2)[0], drawn(3)[1]]), atol=1e-5)
    with pytest.raises(InputError, match="has 3 rows, but num_samples is 4"):
        da.sample(from_diffusers(unet, scheduler, class_labels=[1, 2, 3], shape=SHAPE), 4)


def test_class_embeddings_are_given_as_they_are() -> None:
    unet = tiny_unet(class_embed_type="identity")
    chain = from_diffusers(unet, DDPMScheduler(num_train_timesteps=3), class_labels=torch.linspace(-1, 1, 32))
    assert da.sample(chain, 2, seed=0).samples.isfinite().all()


def test_half_precision() -> None:
    """The network works in its own precision; states, laws and samples do not lose theirs."""
    seen = set()
    half = tiny_unet().to(torch.bfloat16)
    half.register_forward_pre_hook(lambda module, inputs: seen.add(inputs[0].dtype))
    chain = from_diffusers(half, DDPMScheduler(), num_inference_steps=5)
    samples = da.sample(chain, 2, sampler=Sequential(), seed=3).samples
    assert seen == {torch.bfloat16} and samples.dtype == torch.float32
    full = da.sample(
        from_diffusers(tiny_unet(), DDPMScheduler(), num_inference_steps=5), 2, sampler=Sequential(), seed=3
    )
    assert 0 < float((samples - full.samples).abs().max()) < 0.1


def test_an_output_of_another_shape_is_reported() -> None:
    chain = from_diffusers(lambda x, t: x.mean(1, keepdim=True), DDPMScheduler(num_train_timesteps=4), shape=SHAPE)
    with pytest.raises(da.SamplingError, match="predictions of shape"):
        da.sample(chain, 1)


@pytest.mark.parametrize("limit", LIMITS)
def test_nothing_waits_for_the_device(limit: str) -> None:
    """Values that do not exist cannot be looked at: a denoiser that passes can be captured as a graph."""
    chain = from_diffusers(lambda x, t: x.tanh() * t[:, None], DDIMScheduler(**LIMITS[limit]), shape=(3,), eta=1.0)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x, k = mode.from_tensor(torch.zeros(5, 3)), mode.from_tensor(torch.arange(5))
        assert chain.denoiser(x, k).shape == (5, 3)
        with pytest.raises(DataDependentOutputException):
            bool(x.any())


# Samplers


def network(x: Tensor, t: Tensor) -> Tensor:
    """Answers as a model of noise might: it mixes entries, and what it says changes with the time."""
    return (0.9 * x + torch.tanh(2 * x.roll(1, -1)) * torch.cos(t / 300)[:, None]).tanh()


@pytest.mark.parametrize(
    ("scheduler", "options"),
    [
        (DDPMScheduler(variance_type="fixed_large", timestep_spacing="trailing"), {}),
        (DDIMScheduler(clip_sample_range=0.5), {"eta": 1.0}),
        (EulerAncestralDiscreteScheduler(), {}),
    ],
    ids=["ddpm", "ddim", "euler"],
)
def test_the_coupled_law_is_the_sequential_one(scheduler: Any, options: dict[str, Any], check: Check) -> None:
    chain = from_diffusers(network, scheduler, num_inference_steps=20, shape=(3,), **options)
    one, other = (
        da.sample(chain, 8_000, sampler=sampler, seed=seed, max_live=8_000)
        for seed, sampler in enumerate([Sequential(), da.Coupled()])
    )
    assert other.report.mean_rounds < 16
    check(same_law(one.samples, other.samples))


def test_what_the_network_is_asked_is_what_is_reported(unet: Any) -> None:
    chain = from_diffusers(unet, DDPMScheduler(), num_inference_steps=12)
    counting = CountingDenoiser(chain.denoiser)
    chain = chain.replace(denoiser=counting)
    for sampler in (Sequential(), da.Coupled(), da.Block()):
        before = counting.calls, counting.queries
        report = da.sample(chain, 3, sampler=sampler, seed=0).report
        assert (counting.calls - before[0], counting.queries - before[1]) == (report.rounds, report.queries)


# The pipeline


def pipeline(unet: Any = None, scheduler: Any = None) -> Any:
    pipe = da.adapters.DrawaheadPipeline(unet or tiny_unet(), scheduler or DDPMScheduler(num_train_timesteps=20))
    pipe.set_progress_bar_config(disable=True)
    return pipe


def seeded(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


@pytest.mark.parametrize("channels", [1, 3])
def test_images_come_as_asked(channels: int) -> None:
    unet = UNet2DModel(8, channels, channels, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
                       down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2)  # fmt: skip
    pipe = pipeline(unet)
    tensor = pipe(2, *seeded(0), output_type="pt", sampler=da.Coupled()).images
    array = pipe(2, *seeded(0), output_type="np", sampler=da.Coupled()).images
    pictures = pipe(2, *seeded(0)).images
    assert tensor.shape == (2, channels, 8, 8) and 0 <= float(tensor.min()) < float(tensor.max()) <= 1
    assert torch.equal(torch.from_numpy(array), tensor.permute(0, 2, 3, 1))
    assert [(picture.size, picture.mode) for picture in pictures] == [((8, 8), {1: "L", 3: "RGB"}[channels])] * 2
    images, report = pipe(2, *seeded(0), output_type="pt", return_dict=False, sampler=da.Coupled())
    assert torch.equal(images, tensor) and report.num_samples == 2 and report.exact and "Coupled" in report.sampler


def test_a_pipeline_draws_from_the_same_chain_until_something_changes() -> None:
    """So that rounds which were captured for one call serve the next; whatever changes makes another chain."""
    pipe, chains = pipeline(), []
    threshold = {"thresholding": True, "clip_sample": False}
    for options in ({}, {}, {"num_inference_steps": 10}, {"num_inference_steps": 10}, {}):
        pipe(1, *seeded(0), output_type="pt", sampler=Sequential(), **options)
        chains.append(pipe._runner.chain)
    assert chains[0] is chains[1] is not chains[2] is chains[3] is not chains[4]
    for other in ({"beta_end": 0.03}, threshold, {"clip_sample_range": 2.0}, {"prediction_type": "sample"}):
        pipe.scheduler = DDPMScheduler(num_train_timesteps=20, **other)
        pipe(1, *seeded(0), output_type="pt", sampler=Sequential())
        assert pipe._runner.chain is not chains[-1], other
        chains.append(pipe._runner.chain)
    pipe.unet = tiny_unet()
    pipe(1, *seeded(0), output_type="pt", sampler=Sequential())
    assert pipe._runner.chain is not chains[-1]


def test_a_pipeline_compiles_its_network_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapped = []
    monkeypatch.setattr(torch, "compile", lambda function: wrapped.append(function) or function)
    pipe = pipeline()

    def drawn(**options: Any) -> Tensor:
        images: Tensor = pipe(2, *seeded(0), output_type="pt", sampler=da.Coupled(4), **options).images
        return images

    plain = drawn()
    assert not wrapped
    assert all(torch.equal(drawn(compile=True), plain) for _ in range(2)) and len(wrapped) == 1
    assert torch.equal(drawn(), plain)


def test_a_pipeline_does_not_keep_what_another_scheduler_began_with() -> None:
    """Visiting every timestep, two spacings have the same steps and begin at different sizes."""
    train = {"num_train_timesteps": 10, "beta_end": 0.01}
    spacings = ("leading", "linspace")
    schedulers = [EulerAncestralDiscreteScheduler(timestep_spacing=spacing, **train) for spacing in spacings]
    unet, reused = tiny_unet(), pipeline(scheduler=schedulers[0])
    reused.unet = unet

    def drawn(pipe: Any) -> Tensor:
        images: Tensor = pipe(2, *seeded(0), num_inference_steps=10, output_type="pt", sampler=Sequential()).images
        return images

    drawn(reused)
    reused.scheduler = schedulers[1]
    assert torch.equal(drawn(reused), drawn(pipeline(unet, schedulers[1])))


def test_whatever_decides_a_chain_makes_another_one() -> None:
    """Each number of a plan, and how it spreads."""
    pipe = pipeline(scheduler=DDPMScheduler(num_train_timesteps=6))
    pipe(1, *seeded(0), sampler=Sequential())
    chain, home = pipe._runner.chain, {"_runner": pipe._runner}

    def with_plan(**changes: Any) -> Any:
        return chain.replace(schedule=da.schedules.Given(dataclasses.replace(chain.schedule.plan(), **changes)))

    assert kept(home, with_plan()) == (pipe._runner, chain)
    plan = chain.schedule.plan()
    spread = da.schedules.LearnedRange(torch.zeros(6).double(), torch.ones(6).double())
    changes: dict[str, Any] = {name: 0.5 * getattr(plan, name) for name in ("a", "b", "s", "signal", "noise", "start")}
    changes |= {"time": plan.time + 1, "final": 2.0, "c": torch.zeros(6).double(), "spread": spread}
    assert set(changes) == {field.name for field in dataclasses.fields(plan)}
    for name, value in changes.items():
        assert kept(dict(home), with_plan(**{name: value}))[0] is not pipe._runner, name
    spreading = with_plan(spread=spread)
    other = with_plan(spread=da.schedules.LearnedRange(spread.low - 1, spread.high))
    assert kept({"_runner": da.Runner(spreading)}, other)[1] is other


def test_images_are_those_of_the_chain() -> None:
    pipe, generator = pipeline(), torch.Generator().manual_seed(4)
    out = pipe(3, torch.Generator().manual_seed(4), output_type="pt", sampler=Sequential())
    chain = from_diffusers(pipe)
    expected = da.sample(chain, 3, sampler=Sequential(), generator=generator).samples
    assert torch.equal(out.images, (expected / 2 + 0.5).clamp(0, 1))
    assert out.report.rounds == out.report.steps == 20 and out["report"] is out.report


@pytest.mark.parametrize("sampler", [Sequential(), da.Coupled(), da.Block(), da.Recursive()], ids=repr)
def test_an_image_depends_only_on_its_own_generator(unet: Any, sampler: da.Sampler) -> None:
    """Up to the model's own rounding, which may differ from batch to batch."""
    pipe = pipeline(unet)

    def drawn(*seeds: int) -> Tensor:
        images: Tensor = pipe(len(seeds), seeded(*seeds), output_type="pt", sampler=sampler).images
        return images

    together, other, alone = drawn(7, 8, 9), drawn(9, 7), drawn(8)
    assert torch.allclose(together[[2, 0]], other, atol=1e-6) and torch.allclose(together[1:2], alone, atol=1e-6)
    single = pipe(1, *seeded(8), output_type="pt", sampler=sampler).images
    assert torch.allclose(single, alone, atol=1e-6) and not torch.allclose(together[0], together[1], atol=1e-2)


@pytest.mark.parametrize("sampler", [Sequential(), da.Coupled(), da.Recursive()], ids=repr)
def test_the_callback_sees_what_is_finished(unet: Any, sampler: da.Sampler) -> None:
    seen: list[tuple[int, int, Tensor]] = []

    def look(pipe: Any, step: int, timestep: Tensor, given: dict[str, Any]) -> dict[str, Any]:
        seen.append((step, int(timestep), given["latents"]))
        return given

    pipe = pipeline(unet)
    out = pipe(3, *seeded(1), output_type="pt", sampler=sampler, callback_on_step_end=look)
    steps = [step for step, _, _ in seen]
    assert steps == sorted(set(steps)) and steps[-1] == 19 and len(steps) <= out.report.rounds
    assert all(timestep == 19 - step for step, timestep, _ in seen)
    assert torch.equal((seen[-1][2].float() / 2 + 0.5).clamp(0, 1), out.images)
    if isinstance(sampler, Sequential):
        assert steps == list(range(20))
        states = da.sample(
            from_diffusers(pipe, record=range(1, 20)), 3, sampler=sampler, generator=seeded(1)[0]
        ).samples
        assert torch.equal(torch.stack([latents for _, _, latents in seen], 1), states)


@pytest.mark.parametrize("listed", [False, True], ids=["one generator", "a list"])
def test_the_callback_sees_no_other_samples(unet: Any, listed: bool) -> None:
    """By default rounds are timed first, with other noise: those states are nobody's business."""
    seen: list[tuple[int, Tensor]] = []
    pipe = pipeline(unet, DDPMScheduler(num_train_timesteps=48))
    out = pipe(
        1,
        seeded(1) if listed else seeded(1)[0],
        output_type="pt",
        callback_on_step_end=lambda pipe, step, timestep, given: seen.append((step, given["latents"])),
    )
    assert torch.equal((seen[-1][1].float() / 2 + 0.5).clamp(0, 1), out.images)
    chosen = eval(out.report.sampler, {name: getattr(da, name) for name in ("Coupled", "Sequential")})
    chain = from_diffusers(pipe, record=range(1, 48))
    states = da.sample(chain, 1, sampler=chosen, generator=seeded(1)[0]).samples
    for step, latents in seen:
        torch.testing.assert_close(latents[0], states[0, step], rtol=1e-9, atol=1e-9)


def test_rounds_are_timed_with_other_noise_than_the_images(unet: Any) -> None:
    """Also where each image has a generator of its own."""
    chain = from_diffusers(unet, DDPMScheduler(num_train_timesteps=5))
    batch, images = Batch(chain, 7, [1, 2]), torch.arange(2)
    own, timed = batch.start(7, images, Tally()), batch.start(8, images, Tally())
    assert not torch.equal(own.x, timed.x) and not torch.equal(own.stream.keys, timed.stream.keys)
    batch.empty(2)
    torch.testing.assert_close(batch.latents, own.x.view(2, *SHAPE))


def test_a_list_of_generators_tells_its_call_from_others(unet: Any) -> None:
    def seed(*seeds: int) -> int:
        return int(pipeline(unet)(len(seeds), seeded(*seeds), sampler=Sequential()).report.seed)

    assert seed(1, 2) == seed(1, 2) and len({seed(1, 2), seed(2, 1), seed(1), seed(1, 3)}) == 4


def test_the_callback_may_not_change_the_law() -> None:
    pipe = pipeline()
    with pytest.raises(da.SamplingError, match="must not replace latents"):
        pipe(callback_on_step_end=lambda *given: {"latents": given[3]["latents"] * 0})
    seen: list[dict[str, Any]] = []
    pipe(callback_on_step_end=lambda *given: seen.append(given[3]), callback_on_step_end_tensor_inputs=[])
    assert seen and not any(seen)


def test_the_progress_bar_counts_steps(capfd: pytest.CaptureFixture[str]) -> None:
    pipe = pipeline()
    pipe.set_progress_bar_config(disable=False)
    pipe()
    assert "20/20" in capfd.readouterr().err


def test_default_numbers_of_steps() -> None:
    for scheduler, steps in [
        (DDPMScheduler(num_train_timesteps=60), 60),
        (DDIMScheduler(num_train_timesteps=100), 50),
        (DDIMScheduler(num_train_timesteps=9), 9),
        (EulerAncestralDiscreteScheduler(), 50),
    ]:
        pipe = pipeline(scheduler=scheduler)
        assert pipe(sampler=Sequential()).report.rounds == steps


def test_without_noise_there_is_a_warning() -> None:
    pipe = pipeline(scheduler=DDIMScheduler(num_train_timesteps=10))
    with pytest.warns(UserWarning, match="eta=0") as caught:
        assert pipe().report.rounds == 10
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe(eta=0.5)
        pipe(sampler=Sequential())
        assert pipe(sampler=da.Picard()).report.rounds < 10


def test_a_pipeline_is_made_from_another_saved_and_loaded(tmp_path: Path) -> None:
    Pipeline = da.adapters.DrawaheadPipeline
    unet, scheduler = tiny_unet(), DDPMScheduler(num_train_timesteps=20)
    coupled = da.Coupled()
    expected = pipeline(unet, scheduler)(1, *seeded(3), output_type="pt", sampler=coupled).images
    DDPMPipeline(unet, scheduler).save_pretrained(tmp_path / "theirs")
    pipeline(unet, scheduler).save_pretrained(tmp_path / "ours")
    for pipe in (
        Pipeline.from_pipe(DDPMPipeline(unet, scheduler)),
        Pipeline.from_pretrained(tmp_path / "theirs"),
        Pipeline.from_pretrained(tmp_path / "ours"),
    ):
        pipe.set_progress_bar_config(disable=True)
        assert torch.allclose(pipe(1, *seeded(3), output_type="pt", sampler=coupled).images, expected, atol=1e-6)
    assert isinstance(Pipeline.from_pipe(DDIMPipeline(unet, scheduler)).scheduler, DDIMScheduler)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"output_type": "tiff"}, "output_type"),
        ({"batch_size": 3, "generator": seeded(1, 2)}, "generator"),
        ({"callback_on_step_end_tensor_inputs": ["prompt_embeds"]}, "callback_on_step_end_tensor_inputs"),
        ({"num_inference_steps": 21}, "num_inference_steps"),
        ({"sampler": "copuled"}, "sampler"),
    ],
)
def test_what_a_pipeline_refuses(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        pipeline()(**options)


def test_without_diffusers_there_is_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    monkeypatch.delitem(sys.modules, "drawahead.diffusers.pipeline", raising=False)
    monkeypatch.delitem(vars(da.adapters), "DrawaheadPipeline", raising=False)  # another test may have been there
    with pytest.raises(InputError, match=r"pip install 'drawahead\[diffusers\]'"):
        _ = da.adapters.DrawaheadPipeline
