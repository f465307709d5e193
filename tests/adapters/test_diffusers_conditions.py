"""What a network is told: conditions, guidance, an image to begin with, channels and entries that are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, InputError, Sequential
from drawahead.adapters import from_diffusers
from drawahead.chains.base import Tally
from drawahead.diffusers.denoiser import Guidance, Told
from drawahead.oracles.condition import of_samples

diffusers = pytest.importorskip("diffusers")
from diffusers import DDIMScheduler, DDPMScheduler  # noqa: E402

SHAPE = (2, 4, 4)
STEPS = 8


@pytest.fixture(scope="module", autouse=True)
def _global_random_state() -> Iterator[None]:
    with torch.random.fork_rng():
        yield


@pytest.fixture(scope="module")
def unet() -> Any:
    torch.manual_seed(0)
    return diffusers.UNet2DConditionModel(
        sample_size=4, in_channels=2, out_channels=2, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        attention_head_dim=4, cross_attention_dim=8, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    ).eval().double()  # fmt: skip


def rows(number: int, seed: int = 0) -> Tensor:
    return torch.randn(number, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def drawn(chain: da.GaussianChain, number: int = 3, sampler: da.Sampler | None = None, **options: Any) -> Any:
    return da.sample(chain, number, sampler=sampler or Sequential(), seed=0, **options)


def chain_of(unet: Any, **options: Any) -> da.GaussianChain:
    return from_diffusers(unet, DDPMScheduler(clip_sample=False), num_inference_steps=STEPS, **options)


def test_samples_with_different_conditions_share_rounds(unet: Any) -> None:
    together = drawn(chain_of(unet, condition={"encoder_hidden_states": rows(3)}), sampler=Coupled())
    for i in range(3):
        alone = chain_of(unet, condition={"encoder_hidden_states": rows(3)[i : i + 1]})
        single = da.sample(alone, 1, first=i, sampler=Coupled(), seed=0)
        torch.testing.assert_close(single.samples[0], together.samples[i], rtol=1e-9, atol=1e-9)
    assert together.report.rounds < STEPS


CAPTURED = [(4.0, 0.0, True), (4.0, 0.7, True)]
PACKED = [(4.0, 0.0), (4.0, 0.7), (1.0, 0.7), (0.5, 0.7), (0.4, 0.7), (0.0, 1.0), (-1.0, 0.7)]


@pytest.mark.parametrize(("scale", "rescale", "graphs"), CAPTURED + [(*given, False) for given in PACKED])
def test_guidance_is_one_query_of_two_passes(unet: Any, scale: float, rescale: float, graphs: bool) -> None:
    """The same as a callable that asks twice and does the sum itself."""
    told, empty = rows(3), torch.zeros(1, 3, 8, dtype=torch.float64)

    def guided(x: Tensor, t: Tensor, told: Tensor) -> Tensor:
        without, with_it = (
            unet(x, t, encoder_hidden_states=text).sample for text in (empty.expand(len(x), -1, -1), told)
        )
        output = without + scale * (with_it - without)
        size = with_it.std(dim=(1, 2, 3), keepdim=True) / output.std(dim=(1, 2, 3), keepdim=True)
        return rescale * size * output + (1 - rescale) * output

    one = chain_of(
        unet,
        condition={"encoder_hidden_states": told},
        unconditional={"encoder_hidden_states": empty},
        guidance_scale=scale,
        guidance_rescale=rescale,
    )
    other = chain_of(guided, condition={"told": told}, shape=SHAPE, dtype=torch.float64)
    for sampler in (Sequential(), Coupled()):
        ours, theirs = (drawn(chain, sampler=sampler, graphs=graphs) for chain in (one, other))
        torch.testing.assert_close(ours.samples, theirs.samples, rtol=1e-9, atol=1e-9)
        assert ours.report.passes == 2 * ours.report.queries and theirs.report.passes == theirs.report.queries


def test_a_scale_of_one_is_no_guidance(unet: Any) -> None:
    told = {"encoder_hidden_states": rows(2)}
    plain = drawn(chain_of(unet, condition=told), 2).samples
    both = drawn(chain_of(unet, condition=told, unconditional={"encoder_hidden_states": rows(1, 9)}), 2).samples
    torch.testing.assert_close(plain, both, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [2.0, 1.0, 0.5, 0.2, 0.0, -1.5])
def test_labels_and_their_absence(scale: float) -> None:
    """A class-conditional network with a learned variance, as DiT's own script samples it: the variance is that of the
    pass with the label."""

    def network(x: Tensor, t: Tensor, class_labels: Tensor) -> Tensor:
        label = class_labels.view(-1, 1, 1, 1) / 10
        return torch.cat([torch.tanh(x + label), label.expand_as(x)], dim=1)

    scheduler = DDPMScheduler(variance_type="learned_range", clip_sample=False)
    chain = from_diffusers(
        network,
        scheduler,
        num_inference_steps=STEPS,
        class_labels=[1, 2, 3],
        unconditional={"class_labels": 10},
        guidance_scale=scale,
        shape=SHAPE,
        dtype=torch.float64,
    )
    x, k = torch.randn(3, *SHAPE, dtype=torch.float64), torch.tensor([0, 3, 5])
    answer = chain.denoiser(x, k, **of_samples(chain.condition, torch.arange(3)))
    assert torch.allclose(answer[:, 2:, 0, 0], torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)[:, None])
    one, other = drawn(chain, sampler=Coupled()), drawn(chain.replace(record=[1]), sampler=Coupled())
    assert torch.equal(one.samples, other.samples[:, -1]) and one.report.passes == 2 * one.report.queries


def test_an_image_to_begin_with(unet: Any) -> None:
    """The last steps alone, from a noised copy: with no strength left it is nearly the image."""
    image = torch.linspace(-1, 1, 32, dtype=torch.float64).view(SHAPE)
    told = {"encoder_hidden_states": rows(1)}
    scheduler = DDPMScheduler(clip_sample=False)
    whole = from_diffusers(unet, scheduler, num_inference_steps=100, condition=told)
    half = from_diffusers(unet, scheduler, num_inference_steps=100, condition=told, image=image, strength=0.5)
    assert half.steps == 50 and torch.equal(half.plan.time, whole.plan.time[50:])
    assert torch.equal(half.plan.a, whole.plan.a[50:]) and half.plan.start == float(whole.plan.noise[50])
    own = type(scheduler).from_config(scheduler.config)
    own.set_timesteps(100)
    paths = half.start(0, torch.arange(4000), Tally())
    noise = (paths.x - (own.alphas_cumprod[own.timesteps[50]].double().sqrt() * image).flatten()) / half.plan.start
    assert abs(float(noise.mean())) < 0.02 and abs(float(noise.std()) - 1) < 0.02
    near = from_diffusers(unet, scheduler, num_inference_steps=100, condition=told, image=image, strength=0.02)
    assert float((drawn(near).samples - image).abs().max()) < 0.6
    short = from_diffusers(
        lambda x, t: torch.tanh(x), scheduler, num_inference_steps=12, shape=SHAPE, image=image, strength=0.5
    )
    assert da.verify(short, 60, samplers=[Coupled()], with_power=False).passed


def test_channels_beside_the_state(unet: Any) -> None:
    """Nine channels, as inpainting networks have them: mask and picture go in unchanged, beside states that are."""
    seen: list[Tensor] = []

    def network(x: Tensor, t: Tensor) -> Tensor:
        seen.append(x[:, 2:].clone())
        return torch.tanh(x[:, :2] + x[:, 2:4])

    beside = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    scheduler = diffusers.EulerAncestralDiscreteScheduler()
    chain = from_diffusers(network, scheduler, num_inference_steps=6, channels=beside, shape=SHAPE, dtype=torch.float64)
    drawn(chain, 2, Coupled())
    assert all(any(torch.equal(row, own) for own in beside) for shown in seen for row in shown)
    with pytest.raises(InputError, match="UNet2DConditionModel has 2 channels in and 2 out, and channels= brings 3"):
        chain_of(unet, channels=beside, condition={"encoder_hidden_states": rows(1)})


def test_known_entries_noised_or_clean() -> None:
    """Two laws that people use: each state holds a noised copy of what is known, or the value itself."""
    known = torch.full(SHAPE, torch.nan, dtype=torch.float64)
    known[0] = 0.25
    seen: list[Tensor] = []

    def network(x: Tensor, t: Tensor) -> Tensor:
        seen.append(x[:, 0].clone())
        return torch.tanh(x.roll(1, 1))

    common = {"num_inference_steps": STEPS, "shape": SHAPE, "known": known, "dtype": torch.float64}
    for clean in (False, True):
        seen.clear()
        chain = from_diffusers(network, DDIMScheduler(clip_sample=False), eta=1.0, clean=clean, **common)
        for sampler in (Sequential(), Coupled()):
            samples = drawn(chain, sampler=sampler).samples
            assert torch.allclose(samples[:, 0], known[0]) or not clean
        assert all(bool((states == 0.25).all()) == clean for states in seen)
        captured, packed = (drawn(chain, sampler=Coupled(), graphs=graphs).samples for graphs in (True, False))
        torch.testing.assert_close(captured, packed, rtol=1e-9, atol=1e-9)


def test_what_is_told_in_dictionaries() -> None:
    """As SDXL takes it: the form is kept, and each sample has its own rows."""

    def network(x: Tensor, t: Tensor, added: dict[str, Any], flag: bool) -> Tensor:
        assert flag and set(added) == {"embeds", "parts"} and len(added["parts"]) == 1
        return torch.tanh(x + added["embeds"].view(-1, 1, 1, 1) + added["parts"][0].view(-1, 1, 1, 1))

    told = {"added": {"embeds": torch.arange(3.0), "parts": [torch.ones(1)]}, "flag": True}
    chain = from_diffusers(network, DDPMScheduler(), num_inference_steps=STEPS, condition=told, shape=SHAPE)
    assert set(chain.condition) == {"added__embeds", "added__parts__0"}
    assert drawn(chain, sampler=Coupled()).samples.isfinite().all()


def test_rows_go_together_again() -> None:
    tables = {"a": torch.arange(4), "b": {"c": [torch.arange(4) + 10, None]}}
    told, rows = Told.apart(tables)
    assert {name: table.tolist() for name, table in rows.items()} == {"a": [0, 1, 2, 3], "b__c__0": [10, 11, 12, 13]}
    twice = {f"{name}__pass{i}": table[2 * i : 2 * i + 2] for name, table in rows.items() for i in range(2)}
    built = Told(told.form, 2).together(twice)
    assert torch.equal(built["a"], tables["a"]) and torch.equal(built["b"]["c"][0], tables["b"]["c"][0])
    assert built["b"]["c"][1] is None


def test_guidance_of_three_passes() -> None:
    outputs = torch.randn(3, 5, 2, dtype=torch.float64)
    weights = (-1.0, 0.5, 1.5)
    expected = sum(w * o for w, o in zip(weights, outputs, strict=True))
    assert torch.allclose(Guidance(weights)(outputs), expected)
    sizes = [Guidance(weights, 1.0, i)(outputs).std(1) for i in range(3)]  # each pass may be the one with the condition
    torch.testing.assert_close(torch.stack(sizes), outputs.std(2))


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "needs encoder_hidden_states.*condition="),
    ({"condition": {"encoder_hidden_states": rows(2)}, "guidance_scale": 3.0}, "unconditional="),
    (
        {"condition": {"encoder_hidden_states": rows(2)}, "unconditional": {"text": rows(1)}, "guidance_scale": 3.0},
        "unconditional must name what condition names",
    ),
    (
        {"condition": {"encoder_hidden_states": rows(2)}, "unconditional": {"encoder_hidden_states": rows(3)}},
        "one row for each sample, or a single one for all, but .*has 3.*has 2",
    ),
    ({"condition": {"encoder_hidden_states": rows(2)}, "class_labels": [1, 2, 3]}, "has 2.*class_labels has 3"),
    ({"condition": {"encoder_hidden_states": rows(2)}, "strength": 1.5}, "strength=1.5"),
    ({"condition": {"encoder_hidden_states": rows(2)}, "guidance_rescale": -1.0}, "guidance_rescale"),
]


@pytest.mark.parametrize(("options", "named"), BAD, ids=lambda part: part if isinstance(part, str) else "")
def test_bad_input(unet: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        chain_of(unet, **options)


def test_two_entries_of_one_name_are_refused() -> None:
    """An entry inside a dictionary is told by both names; nothing is lost unsaid."""
    table = torch.zeros(1, 2)
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=4)
    condition = {"a": {"b": table}, "a__b": table + 1}
    with pytest.raises(InputError, match="condition has two entries that are called 'a__b': rename one of them"):
        from_diffusers(lambda x, t, **told: x, scheduler, shape=(1, 4, 4), condition=condition)


def test_an_answer_that_is_not_finite_is_refused_before_it_is_clipped() -> None:
    """Clipped, it would look like a picture."""
    chain = from_diffusers(
        lambda x, t: torch.full_like(x, torch.inf), diffusers.DDPMScheduler(num_train_timesteps=4), shape=(1, 4, 4)
    )
    for graphs in (False, True):
        with pytest.raises(da.SamplingError, match="not finite"):
            da.sample(chain, 1, seed=0, sampler=da.Coupled(), graphs=graphs)
