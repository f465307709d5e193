"""How data are cut into parts, what the networks may read, and that one part is ordinary diffusion."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import ardiffusion as ar
from drawahead import rtk

PARTS = ar.Parts((12,), (4,))
CONFIGS = [
    ar.ModelConfig(PARTS, ar.TransformerEncoder(16, 2, 2), ar.MLPDenoiser(16, 2)),
    ar.ModelConfig(PARTS, ar.MLPEncoder(16, 1), ar.TransformerDenoiser(tokens=3, width=16, layers=1, heads=2)),
    ar.ModelConfig(PARTS, None, ar.MLPDenoiser(16, 1)),
]


def awake(config: ar.ModelConfig) -> ar.ARModel:
    """A model that says something: a new one answers 0."""
    model = ar.ARModel(config).double().eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        weight += 0.3 * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return model


def question(rows: int = 8) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    state = torch.randn(rows, 4, 3, generator=generator, dtype=torch.float64)
    angle = torch.linspace(0.1, 1.4, rows, dtype=torch.float64)
    return state, torch.arange(rows) % 4, angle.cos(), angle.sin()


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config.encoder).__name__)
def test_only_finished_parts_are_read(config: ar.ModelConfig) -> None:
    """A part's answer depends on the part itself and on those before it, never on what later places hold."""
    model = awake(config)
    state, part, signal, noise = question()
    answer = model.mean(state, part, signal, noise)
    for lane in range(4):
        moved = state.clone()
        moved[:, lane] += 1.0
        change = (model.mean(moved, part, signal, noise) - answer).abs().amax(1)
        read = part == lane if config.encoder is None else part >= lane
        assert bool((change[~read] == 0).all()) and bool((change[read] > 1e-6).all())


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config.encoder).__name__)
def test_training_and_inference_ask_the_same_network(config: ar.ModelConfig) -> None:
    model = awake(config)
    state, _, signal, noise = question(1)
    clean = question(8)[0][3:4]
    log_snr = (2 * (signal / noise).log()).expand(1, 4)
    velocity = model(state, clean, log_snr)
    for part in range(4):
        told = clean.clone()
        told[0, part:] = torch.nan if config.encoder is None else 9.0  # noise, as far as this part is concerned
        told[0, part] = state[0, part]
        answer = model.mean(told, torch.tensor([part]), signal, noise)
        assert torch.allclose(answer, signal * state[:, part] - noise * velocity[:, part], atol=1e-9)


def test_any_scale_of_signal_and_noise_will_do() -> None:
    model = awake(CONFIGS[0])
    state, part, signal, noise = question()
    scaled = state.clone()
    rows = torch.arange(len(part))
    scaled[rows, part] *= 3.0
    answer, again = model.mean(state, part, signal, noise), model.mean(scaled, part, 3 * signal, 3 * noise)
    assert torch.allclose(answer, again, atol=1e-9)


@pytest.mark.parametrize("sampler", [da.Sequential(), da.Coupled(), da.Block()], ids=repr)
def test_one_part_is_ordinary_diffusion(sampler: da.Sampler) -> None:
    """The same network through GaussianChain draws the same samples."""
    config = ar.ModelConfig(ar.Parts.undivided((3, 2)), None, ar.MLPDenoiser(16, 2))
    model = awake(config)
    for schedule in (da.OUExponential.even(12, last=0.01), da.DDPM(betas=da.schedules.linear_betas(12, 0.02, 0.4))):
        plan = schedule.plan()

        def denoise(x: Tensor, k: Tensor, plan: da.schedules.Plan = plan) -> Tensor:
            signal, noise = plan.signal[k][:, None], plan.noise[k][:, None]
            flat = x.flatten(1)
            velocity = model.denoiser(flat, 2 * (signal / noise).log()[:, 0].clamp(-5, 5), None, torch.zeros_like(k))
            return (signal * flat - noise * velocity).view(x.shape)

        usual = da.GaussianChain(denoise, schedule, (3, 2), dtype=torch.float64)
        parts = ar.chain(model, schedule, dtype=torch.float64)
        one = da.sample(usual, 20, sampler=sampler, seed=3)
        other = da.sample(parts, 20, sampler=sampler, seed=3)
        assert one.report.rounds == other.report.rounds and one.report.queries == other.report.queries
        assert torch.allclose(one.samples, model.parts.join(other.samples), atol=1e-9)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config.encoder).__name__)
def test_a_configuration_survives_json(config: ar.ModelConfig) -> None:
    assert ar.ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_new_model_depends_on_its_seed_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    models = [ar.ARModel(CONFIGS[0], seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(before, torch.random.get_rng_state())
    one, same, other = (torch.cat([p.flatten() for p in model.parameters()]) for model in models)
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert models[0].size == len(one)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ar.ModelConfig(PARTS, levels=(3.0, -3.0)), "levels"),
        (lambda: ar.ModelConfig(PARTS, denoiser=ar.TransformerDenoiser(tokens=2)), "tokens"),
        (lambda: ar.TransformerEncoder(width=10, heads=4), "multiple of heads"),
        (lambda: ar.MLPDenoiser(blocks=0), "blocks must be at least 1"),
        (
            lambda: ar.ModelConfig.from_dict({"parts": {"shape": [4], "grid": [2]}, "encoder": {"kind": "cloud"}}),
            "not a conf",
        ),
        (lambda: ar.RTK(rtk.ULD(0.1, 2.0, 3), rtk.Segments.even(3.0, 3)), "above time 0"),
        (lambda: ar.GaussianParts(torch.zeros(4, 4), ar.Parts((4,), (2,))), "positive definite"),
        (lambda: ar.GaussianParts(torch.eye(3), ar.Parts((4,), (2,))), "covariance must be"),
        (lambda: ar.law(ar.chain(awake(CONFIGS[0]), da.OUExponential.even(3), dtype=torch.float64)), "not affine"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(da.InputError, match=message):
        make()


@pytest.mark.parametrize(
    "parts",
    [
        ar.Parts((12,), (3,)),
        ar.Parts((6, 8), (3, 2)),
        ar.Parts((3, 4, 6), (1, 2, 3)),
        ar.Parts.rows(5, 4),
        ar.Parts.undivided((2, 3)),
    ],
    ids=str,
)
def test_what_is_split_comes_back(parts: ar.Parts) -> None:
    data = torch.randn(7, *parts.shape, generator=torch.Generator().manual_seed(0))
    cut = parts.split(data)
    assert cut.shape == (7, parts.number, parts.size)
    assert torch.equal(parts.join(cut), data)


def test_the_parts_of_an_image_are_its_patches_in_reading_order() -> None:
    image = torch.arange(32).view(1, 4, 8)
    cut = ar.Parts((4, 8), (2, 2)).split(image)
    assert torch.equal(cut[0, 1].view(2, 4), image[0, :2, 4:])
    assert torch.equal(cut[0, 2].view(2, 4), image[0, 2:, :4])
    assert torch.equal(ar.Parts.rows(4, 8).split(image)[0], image[0])


@pytest.mark.parametrize(("shape", "grid"), [((5,), (2,)), ((4, 4), (2,)), ((), ()), ((4,), (0,)), ((4,), (2.0,))])
def test_grids_that_do_not_fit_are_refused(shape: tuple[int, ...], grid: tuple[int, ...]) -> None:
    with pytest.raises(da.InputError):
        ar.Parts(shape, grid)


def test_data_that_do_not_fit_are_refused() -> None:
    parts = ar.Parts((4, 4), (2, 2))
    with pytest.raises(da.InputError, match="data must have shape"):
        parts.split(torch.zeros(3, 4, 5))
    with pytest.raises(da.InputError, match="parts must have shape"):
        parts.join(torch.zeros(3, 4, 5))
