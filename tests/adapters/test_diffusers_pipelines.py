"""Pipelines of every kind: called as they are, drawn in rounds, and one by one the very path of their own loop."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, InputError, Sequential
from drawahead.diffusers.loops.body import TapeRun
from drawahead.diffusers.loops.calls import ByStep
from drawahead.diffusers.loops.looped import Loop
from drawahead.diffusers.schedulers.supply import Supplied, in_float64
from drawahead.randomness import Purpose, Stream
from drawahead.verification.statistics import same_law

diffusers = pytest.importorskip("diffusers")
pytest.importorskip("transformers")
from tests.adapters.tiny_pipelines import made, tiny_audio  # noqa: E402
from tests.changes import batches_used  # noqa: E402

STEPS = 6
PICTURE = torch.linspace(0, 1, 3 * 8 * 8).view(1, 3, 8, 8)
MASK = (torch.arange(64).view(1, 1, 8, 8) % 3 > 0).float()
PROMPTS = ["red", "big cat"]
CAPTURED = {"graphs": True}


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    diffusers.logging.set_verbosity_error()
    with torch.random.fork_rng():
        yield


@functools.cache
def pipe(kind: str) -> Any:
    return tiny_audio() if kind == "audio" else made(kind)


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def own_loop(kind: str, scheduler: Any, seed: int, arguments: dict[str, Any], original: Any = None) -> Any:
    """What the pipeline's own call gives, its scheduler fed with the noise of a seed of ours."""
    twin, fed = copy.copy(original or pipe(kind)), in_float64(copy.deepcopy(scheduler))
    step, taken = fed.step, []

    @functools.wraps(step)
    def feeding(output: Tensor, timestep: Any, sample: Tensor, *rest: Any, **options: Any) -> Any:
        images = len(sample) // (2 if kind == "dit" and arguments.get("guidance_scale", 4.0) > 1 else 1)
        stream = Stream.of_samples(seed, torch.arange(images))
        noise = stream.normal(Purpose.VALUE, torch.full((images,), len(taken)), size=sample[0].numel())
        noise = torch.cat([noise] * (len(sample) // images)).view(sample.shape)
        taken.append(timestep)
        in_float64(fed)
        with Supplied(lambda shape: noise):
            return step(output, timestep, sample, *rest, **options)

    fed.step = feeding
    vars(twin)["scheduler"] = fed
    return twin(**arguments)


def words(part: Any) -> str:
    return part if isinstance(part, str) else "+".join(part)


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("text", {"prompt": PROMPTS, "guidance_scale": 3.0}),
    ("text", {"prompt": PROMPTS, "guidance_scale": 3.0, "guidance_rescale": 0.7, "negative_prompt": ["sea", "sky"]}),
    ("text", {"prompt": "red", "guidance_scale": 1.0, "num_images_per_prompt": 2}),
    ("text", {"prompt": "red", "latents": torch.ones(1, 4, 4, 4, dtype=torch.float64)}),
    ("xl", {"prompt": PROMPTS, "guidance_scale": 2.0}),
    ("xl", {"prompt": PROMPTS, "guidance_scale": 1.0}),
    ("image", {"prompt": PROMPTS, "image": PICTURE, "strength": 0.7}),
    ("image", {"prompt": "red", "image": PICTURE, "strength": 1.0, "guidance_scale": 1.0}),
    ("control", {"prompt": PROMPTS, "image": PICTURE, "controlnet_conditioning_scale": 0.5}),
    ("control", {"prompt": "red", "image": PICTURE, "guidance_scale": 1.0}),
    ("inpainting", {"prompt": "red", "image": PICTURE, "mask_image": MASK, "height": 8, "width": 8}),
    ("dit", {"class_labels": [3, 5], "guidance_scale": 2.0}),
    ("dit", {"class_labels": [3, 5], "guidance_scale": 1.0}),
    ("overwriting", {"prompt": "red", "image": PICTURE, "mask_image": MASK, "height": 8, "width": 8}),
    (
        "overwriting",
        {"prompt": PROMPTS, "image": PICTURE, "mask_image": MASK, "height": 8, "width": 8, "strength": 0.7},
    ),
    ("control", {"prompt": PROMPTS, "image": PICTURE, "control_guidance_end": 0.5}),
    ("control", {"prompt": PROMPTS, "image": PICTURE, "control_guidance_start": 0.3, "control_guidance_end": 0.8}),
    ("control", {"prompt": PROMPTS, "image": PICTURE, "guess_mode": True}),
    ("xl", {"prompt": PROMPTS, "denoising_end": 0.5}),
    ("audio", {"guidance_scale": 2.0}),
    ("audio", {"guidance_scale": 1.0}),
]
SDE = {"algorithm_type": "sde-dpmsolver++"}
SCHEDULERS = {
    "ddpm": lambda: diffusers.DDPMScheduler(clip_sample=False),
    "sde": lambda: diffusers.DPMSolverMultistepScheduler(**SDE),
}


def finished(out: Any) -> Tensor:
    value = out.audios if hasattr(out, "audios") else out.images
    return torch.as_tensor(value).double()


@pytest.mark.parametrize(("kind", "arguments"), CALLS, ids=words)
def test_one_by_one_it_takes_the_path_of_its_own_loop(kind: str, arguments: dict[str, Any]) -> None:
    theirs, scheduler = pipe(kind), SCHEDULERS["ddpm"]()
    theirs.scheduler = scheduler
    arguments = arguments | {"num_inference_steps": STEPS, "output_type": "np" if kind == "dit" else "latent"}
    arguments |= extra(kind, arguments)
    before = {name: id(part) for name, part in theirs.components.items()}
    ours = da.adapters.DrawaheadPipeline.from_pipe(theirs)
    drawn = ours(**arguments, generator=generator(), sampler=Sequential())
    expected = own_loop(kind, scheduler, drawn.report.seed, arguments | {"generator": generator()})
    assert type(drawn) is type(expected) and drawn.report.exact
    torch.testing.assert_close(finished(drawn), finished(expected), rtol=1e-9, atol=1e-9)
    assert {name: id(part) for name, part in theirs.components.items()} == before  # and nothing was done to it
    guided = arguments.get("guidance_scale", 7.5) > 1
    assert drawn.report.passes == drawn.report.queries * (2 if guided else 1)


def extra(kind: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the audio pipeline is told in place of a text."""
    if kind != "audio":
        return {}
    draw = functools.partial(torch.randn, dtype=torch.float64)
    named = {"prompt_embeds": (2, 3, 8), "generated_prompt_embeds": (2, 5, 8)}
    told: dict[str, Any] = {name: draw(shape, generator=generator(i)) for i, (name, shape) in enumerate(named.items())}
    told |= {f"negative_{name}": 0 * told[name] for name in named}
    masks = {name: torch.ones(2, 3, dtype=torch.int64) for name in ("attention_mask", "negative_attention_mask")}
    return told | masks | {"audio_length_in_s": 0.02}


@pytest.mark.parametrize("kind", ["text", "image", "dit"])
def test_schedulers_with_a_memory(kind: str) -> None:
    """Also where they begin in the middle: then they have nothing to look back at."""
    arguments = dict(next(given for name, given in CALLS if name == kind))
    arguments |= {"num_inference_steps": STEPS, "output_type": "np" if kind == "dit" else "latent"}
    theirs, scheduler = pipe(kind), SCHEDULERS["sde"]()
    theirs.scheduler = scheduler
    ours = da.adapters.DrawaheadPipeline.from_pipe(theirs)
    drawn = ours(**arguments, generator=generator(), sampler=Sequential())
    expected = own_loop(kind, scheduler, drawn.report.seed, arguments | {"generator": generator()})
    # Its tables are float32: small entries are off by a rounding of the largest ones, which differs by processor.
    rounding = 2 * torch.finfo(torch.float32).eps * float(finished(expected).abs().max())
    torch.testing.assert_close(finished(drawn), finished(expected), rtol=1e-6, atol=rounding)


SMALL = torch.linspace(-1, 1, 3 * 4 * 4, dtype=torch.float64).view(1, 3, 4, 4).repeat(2, 1, 1, 1)
LARGE = torch.linspace(-1, 1, 3 * 8 * 8, dtype=torch.float64).view(1, 3, 8, 8).repeat(2, 1, 1, 1)
TOLD = {
    f"{name}prompt_embeds": torch.randn(2, 3, 8, dtype=torch.float64, generator=generator(seed))
    for seed, name in enumerate(["", "negative_"])
}
BESIDE: list[tuple[str, dict[str, Any], list[str]]] = [
    ("latent super-resolution", {"image": SMALL}, ["ddpm", "ddim", "euler", "sde"]),
    ("super-resolution", TOLD | {"image": SMALL}, ["ddpm"]),
    ("super-resolution", TOLD | {"image": SMALL, "guidance_scale": 1.0}, ["ddpm"]),
    ("image super-resolution", TOLD | {"image": LARGE, "original_image": SMALL, "strength": 0.7}, ["ddpm"]),
]


@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize(
    ("kind", "arguments", "name"), [(*case[:2], name) for case in BESIDE for name in case[2]], ids=words
)
def test_images_beside_the_states_are_seen_as_they_are(
    kind: str, arguments: dict[str, Any], name: str, steps: int
) -> None:
    """Some loops let the scheduler scale both at once: with most there is nothing to scale, with others it is done."""
    more = {"ddim": diffusers.DDIMScheduler, "euler": diffusers.EulerAncestralDiscreteScheduler}
    scheduler = (SCHEDULERS | more)[name]()
    theirs = made(kind, scheduler)
    output = "pt" if kind != "latent super-resolution" else "np"
    arguments = arguments | {"num_inference_steps": steps, "output_type": output}
    arguments |= {"eta": 0.7} if name == "ddim" else {}
    if "strength" in arguments and steps == 1:
        arguments["strength"] = 1.0
    drawn = da.adapters.DrawaheadPipeline.from_pipe(theirs)(**arguments, generator=generator(), sampler=Sequential())
    expected = own_loop(kind, scheduler, drawn.report.seed, arguments | {"generator": generator()}, theirs)
    torch.testing.assert_close(finished(drawn), finished(expected), rtol=1e-6, atol=1e-6)


def test_a_learned_variance_beside_images() -> None:
    for kind, arguments, _ in BESIDE[1:]:
        theirs = made(kind, diffusers.DDPMScheduler(variance_type="learned_range", clip_sample=False))
        drawn = da.adapters.DrawaheadPipeline.from_pipe(theirs)(**arguments, num_inference_steps=4, output_type="pt")
        assert drawn.report.exact and finished(drawn).isfinite().all()


class Guides(diffusers.StableDiffusionPipeline):  # type: ignore[misc, name-defined]
    """Guides at any scale, with the pass that has the condition first or last."""

    def __call__(
        self,
        scale: float,
        rescale: float,
        first: bool,
        num_inference_steps: int = STEPS,
        generator: Any = None,
        **_: Any,
    ) -> Any:
        self._guidance_scale, self._guidance_rescale = scale, rescale
        self.scheduler.set_timesteps(num_inference_steps)
        latents = torch.linspace(-1, 1, 2 * 4 * 16, dtype=torch.float64).view(2, 4, 4, 4)
        text = torch.ones(2, 1, 8, dtype=torch.float64)
        told = torch.cat([text, -text] if first else [-text, text])
        for t in self.scheduler.timesteps:
            shown = self.scheduler.scale_model_input(torch.cat([latents] * 2), t)
            both = self.unet(shown, t, encoder_hidden_states=told).sample.chunk(2)
            with_it, without = both if first else both[::-1]
            guided = without + scale * (with_it - without)
            sizes = [part.std(dim=(1, 2, 3), keepdim=True) for part in (with_it, guided)]
            guided = rescale * guided * (sizes[0] / sizes[1]) + (1 - rescale) * guided
            latents = self.scheduler.step(guided, t, latents, generator=generator).prev_sample
        return diffusers.pipelines.ImagePipelineOutput(images=latents)


@pytest.mark.parametrize("first", [False, True], ids=["last", "first"])
@pytest.mark.parametrize("rescale", [0.0, 0.7])
def test_guidance_of_any_scale_is_read(rescale: float, first: bool) -> None:
    """Which pass has the condition is seen, whatever it weighs."""
    theirs = Guides(**made("text").components, requires_safety_checker=False)
    theirs.set_progress_bar_config(disable=True)
    scheduler = SCHEDULERS["ddpm"]()
    theirs.scheduler = scheduler
    for scale in (-1.0, 0.0, 0.3, 0.5, 1.0, 2.0):
        arguments = {"scale": scale, "rescale": rescale, "first": first}
        drawn = da.adapters.DrawaheadPipeline.from_pipe(theirs)(
            **arguments, generator=generator(), sampler=Sequential()
        )
        expected = own_loop("text", scheduler, drawn.report.seed, arguments, theirs)
        torch.testing.assert_close(drawn.images, expected.images, rtol=1e-9, atol=1e-9)


def test_different_prompts_share_rounds() -> None:
    pipe("text").scheduler = SCHEDULERS["ddpm"]()
    ours = da.adapters.DrawaheadPipeline.from_pipe(pipe("text"))
    arguments = {"num_inference_steps": 40, "output_type": "latent", "sampler": Coupled(), "guidance_scale": 3.0}
    two = ours(PROMPTS, generator=[generator(1), generator(2)], **arguments)
    alone = [ours(PROMPTS[i], generator=[generator(i + 1)], **arguments) for i in range(2)]
    torch.testing.assert_close(two.images, torch.cat([one.images for one in alone]), rtol=1e-6, atol=1e-6)
    assert two.report.rounds == max(one.report.rounds for one in alone) < 25
    assert two.report.passes == 2 * two.report.queries


@pytest.mark.parametrize("sampler", [Sequential(), Coupled(window=3)], ids=["one by one", "ahead"])
def test_the_work_beside_the_networks_grows_with_the_images(sampler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not with their square: states of different images at the same step share a batch of the recorded loop."""
    own, entries = TapeRun.__call__, 0

    def run(tape: TapeRun, state: Tensor, k: Tensor, ask: Any) -> list[Tensor]:
        nonlocal entries
        entries += state.numel()
        return own(tape, state, k, ask)

    monkeypatch.setattr(TapeRun, "__call__", run)
    drawing = da.adapters.DrawaheadPipeline.from_pipe(pipe("text"))

    def each(images: int) -> float:
        nonlocal entries
        entries = 0
        prompts = (PROMPTS * images)[:images]
        drawing(prompts, num_inference_steps=STEPS, output_type="latent", sampler=sampler, generator=generator())
        return entries / images

    assert each(8) < 1.5 * each(2)


def test_calls_with_other_prompts_use_what_was_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe("text").scheduler = SCHEDULERS["ddpm"]()
    ours = da.adapters.DrawaheadPipeline.from_pipe(pipe("text"))
    own = da.Runner.using
    monkeypatch.setattr(da.Runner, "using", lambda runner, **named: own(runner, **named | CAPTURED))
    used = batches_used(monkeypatch)
    for seed in range(4):
        prompt = PROMPTS[seed % 2]
        ours(prompt, num_inference_steps=STEPS, output_type="latent", generator=generator(seed), sampler=Coupled())
        gc.collect()
    assert len(used) == 4 and len({id(batch) for batch in used}) == 1


def test_images_have_the_law_of_the_pipeline(check: Any) -> None:
    theirs = pipe("dit")
    theirs.scheduler = SCHEDULERS["ddpm"]()
    ours = da.adapters.DrawaheadPipeline.from_pipe(theirs)
    arguments = {"class_labels": [7] * 100, "guidance_scale": 2.0, "num_inference_steps": STEPS, "output_type": "np"}
    drawn = [ours(**arguments, generator=generator(seed), sampler=Coupled()) for seed in (1, 2, 3)]
    own = [theirs(**arguments, generator=generator(seed)) for seed in (4, 5, 6)]
    assert all(call.report.mean_rounds < STEPS for call in drawn)
    check(same_law(*(torch.cat([finished(call) for call in calls]) for calls in (drawn, own))))


def test_a_callback_and_a_tuple() -> None:
    pipe("text").scheduler = SCHEDULERS["ddpm"]()
    ours, seen = da.adapters.DrawaheadPipeline.from_pipe(pipe("text")), []

    def look(shown: Any, step: int, timestep: Tensor, given: dict[str, Any]) -> dict[str, Any]:
        seen.append((step, int(timestep), given["latents"].shape))
        return given

    images, unsafe, report = ours(
        "red", num_inference_steps=STEPS, callback_on_step_end=look, return_dict=False, sampler=Coupled()
    )
    assert len(images) == 1 and unsafe is None and report.steps == STEPS
    assert seen[-1][0] == STEPS - 1 and all(shape == (1, 4, 4, 4) for _, _, shape in seen)


def test_its_attributes_are_those_of_the_pipeline() -> None:
    theirs = made("text")
    ours = da.adapters.DrawaheadPipeline.from_pipe(theirs)
    ours.scheduler = scheduler = diffusers.DDIMScheduler()
    assert theirs.scheduler is scheduler and ours.unet is theirs.unet
    assert ours("red", num_inference_steps=4, eta=1.0, output_type="latent").report.steps == 4
    with pytest.warns(UserWarning, match="eta=0"):
        ours("red", num_inference_steps=4, output_type="latent")


def test_low_rank_weights_in_the_network_are_part_of_it() -> None:
    """As a LoRA puts them there: beside a layer, inside of the network that is asked."""
    theirs = made("text")
    ours = da.adapters.DrawaheadPipeline.from_pipe(theirs)
    draw = functools.partial(
        ours,
        "red",
        num_inference_steps=4,
        output_type="latent",
        sampler=Sequential(),
        latents=torch.ones(1, 4, 4, 4).double(),
    )
    plain = draw(generator=generator())
    layer = theirs.unet.mid_block.attentions[0].transformer_blocks[0].attn2.to_q
    low = torch.nn.Linear(layer.in_features, layer.out_features, dtype=torch.float64)
    layer.register_forward_hook(lambda module, inputs, output: output + low(inputs[0]))
    changed = draw(generator=generator())
    assert float((plain.images - changed.images).abs().max()) > 1e-6


def test_an_image_adapter_tells_each_image_its_own() -> None:
    theirs = made("text")
    unet, keys = theirs.unet, {}
    cross = [name.removesuffix(".processor") for name in unet.attn_processors if name.endswith("attn2.processor")]
    for i, name in enumerate(cross):
        size = unet.get_submodule(name).to_k.out_features
        keys |= {f"{2 * i + 1}.to_{part}_ip.weight": torch.randn(size, 8) for part in "kv"}
    image = {"proj.weight": torch.randn(32, 8), "proj.bias": torch.zeros(32)}
    image |= {"norm.weight": torch.ones(8), "norm.bias": torch.zeros(8)}
    unet._load_ip_adapter_weights({"image_proj": image, "ip_adapter": keys})
    theirs.to(torch.float64)
    told = [torch.randn(4, 1, 8, dtype=torch.float64, generator=generator())]  # without, and with, for two images
    arguments = {"prompt": PROMPTS, "ip_adapter_image_embeds": told, "num_inference_steps": STEPS}
    arguments |= {"output_type": "latent"}
    drawn = da.adapters.DrawaheadPipeline.from_pipe(theirs)(**arguments, generator=generator(), sampler=Sequential())
    expected = own_loop("text", theirs.scheduler, drawn.report.seed, arguments | {"generator": generator()}, theirs)
    torch.testing.assert_close(drawn.images, expected.images, rtol=1e-9, atol=1e-9)
    plain = da.adapters.DrawaheadPipeline.from_pipe(made("text"))
    del arguments["ip_adapter_image_embeds"]
    other = plain(**arguments, generator=generator(), sampler=Sequential())
    assert float((other.images - drawn.images).abs().max()) > 1e-3


def test_nothing_is_put_into_a_pipeline() -> None:
    theirs = made("text")
    before = dict(vars(theirs))
    ours = da.adapters.DrawaheadPipeline.from_pipe(theirs)
    for prompt in ("red", "big cat"):
        ours(prompt, num_inference_steps=4, output_type="latent", sampler=Sequential())
    assert vars(theirs) == before


# What is refused


def test_a_loop_that_was_misread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own first step is beside the one that was read: what the network is given, and where the step leads."""
    ours = da.adapters.DrawaheadPipeline.from_pipe(made("super-resolution", SCHEDULERS["ddpm"]()))
    arguments = BESIDE[1][1] | {"num_inference_steps": 4, "output_type": "pt", "guidance_scale": 3.0}
    ours(**arguments)
    own = Loop.read

    def misread(change: Any) -> None:
        monkeypatch.setattr(Loop, "read", lambda *given: change(own(*given)))

    def scaled(loop: Any) -> Any:
        """One constant of an operation, such as the strength of guidance."""
        parts = [dataclasses.replace(part, leaves=[_larger(leaf) for leaf in part.leaves])
                 if hasattr(part, "op") else part for part in loop.body.parts]  # fmt: skip
        return dataclasses.replace(loop, body=dataclasses.replace(loop.body, parts=parts))

    def later(loop: Any) -> Any:
        """What the network is told at each step, one step off."""
        call = loop.calls[0]
        variant = call.asking.variants[0]
        leaves = [dataclasses.replace(leaf, index=leaf.index.roll(1)) if isinstance(leaf, ByStep) else leaf
                  for leaf in variant.leaves]  # fmt: skip
        asking = dataclasses.replace(call.asking, variants=[dataclasses.replace(variant, leaves=leaves)])
        return dataclasses.replace(loop, calls=[dataclasses.replace(call, asking=asking)])

    for change, named in ((scaled, "the next states"), (later, "timestep of UNet2DConditionModel")):
        misread(change)
        with pytest.raises(InputError, match=f"its own steps have other numbers.*{named}"):
            ours(**arguments)


def _larger(value: Any) -> Any:
    return 1.5 * value if isinstance(value, float) else value


def test_a_function_put_on_the_scheduler_is_refused() -> None:
    theirs = made("text")
    own = theirs.scheduler.step
    theirs.scheduler.step = lambda *given, **options: own(*given, **options)
    with pytest.raises(InputError, match="a function was put on the DDPMScheduler"):
        da.adapters.DrawaheadPipeline.from_pipe(theirs)("red", num_inference_steps=4)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("text", {"generator": [generator(), generator()]}, "generator"),
    ("text", {"callback": print}, "callback_on_step_end"),
    ("text", {"sampler": Coupled}, "sampler must be"),
    ("text", {"callback_on_step_end_tensor_inputs": ["prompt_embeds"]}, "callback_on_step_end_tensor_inputs"),
]


@pytest.mark.parametrize(("kind", "arguments", "named"), REFUSED, ids=words)
def test_it_is_refused(kind: str, arguments: dict[str, Any], named: str) -> None:
    pipe(kind).scheduler = SCHEDULERS["ddpm"]()
    ours = da.adapters.DrawaheadPipeline.from_pipe(pipe(kind))
    with pytest.raises((InputError, ValueError), match=named):
        ours("red", num_inference_steps=4, **arguments)


def test_a_loop_that_does_more_is_found_out() -> None:
    """A pipeline nobody listed, whose loop touches the latents; and one that tells the network another thing later."""

    class Touches(diffusers.StableDiffusionPipeline):  # type: ignore[misc, name-defined]
        def __call__(self, prompt: str, num_inference_steps: int, change: str, **_: Any) -> Any:
            self.scheduler.set_timesteps(num_inference_steps)
            latents = torch.ones(2, 4, 4, 4, dtype=torch.float64)
            told = torch.ones(2, 1, 8, dtype=torch.float64)
            last = torch.zeros(2, 4, 4, 4, dtype=torch.float64)
            for i, t in enumerate(self.scheduler.timesteps):
                told = told + last.mean() if change == "itself" else told
                output = self.unet(latents, t, encoder_hidden_states=told + i * (change == "told")).sample
                last = output if change == "itself" else last
                output = output.tanh() if change == "output" else output
                output = output.clamp(-9, 9) if change == "large outputs" else output

                output = output + torch.randn_like(output) if change == "noise" else output
                output = output + float(latents.mean()) if change == "numbers" else output
                output = output + latents.flatten().tolist()[0] if change == "list" else output
                output = output.tanh() if change == "once" and i == 2 else output
                output, last = (output + 0.1 * last, output) if change == "momentum" else (output, last)
                if change == "buffer":
                    buffer = torch.zeros_like(told.new_zeros(2, 4, 4, 4))
                    buffer[:, :2] = output[:, :2]
                    output = output + buffer
                latents = self.scheduler.step(output, t, latents).prev_sample
                latents = latents * 1.01 if change == "latents" else latents
            return diffusers.pipelines.ImagePipelineOutput(images=latents)

    touching = Touches(**made("text").components, requires_safety_checker=False)
    touching.set_progress_bar_config(disable=True)
    ours = da.adapters.DrawaheadPipeline.from_pipe(touching)
    assert ours("", num_inference_steps=4, change="nothing").report.steps == 4
    for change in ("latents", "output", "large outputs", "told"):
        drawn = ours("", num_inference_steps=4, change=change, sampler=Sequential())
        arguments = {"prompt": "", "num_inference_steps": 4, "change": change}
        expected = own_loop("text", touching.scheduler, drawn.report.seed, arguments, touching)
        torch.testing.assert_close(drawn.images, expected.images, rtol=1e-6, atol=1e-6)
    refused = {
        "numbers": "decides by the numbers in its latents",
        "list": "decides by the numbers in its latents",
        "buffer": "writes its latents into a tensor of its own",
        "noise": "RuntimeError|random",
        "momentum": "uses in one step what it computed in another",
        "itself": "uses in one step what it computed in another",
        "once": "does other things in a later step",
    }
    for change, named in refused.items():
        with pytest.raises(InputError, match=named):
            ours("", num_inference_steps=4, change=change)


def test_a_pipeline_without_a_network_is_refused() -> None:
    with pytest.raises(InputError, match="must have a network and a scheduler"):
        da.adapters.DrawaheadPipeline.from_pipe(diffusers.LDMPipeline(vqvae=None, unet=None, scheduler=None))
