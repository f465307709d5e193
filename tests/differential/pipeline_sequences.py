"""Sequences of calls of one pipeline, whose scheduler, network and arguments change in between, and their judge."""

from __future__ import annotations

import copy
import functools
import re
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import diffusers
import pytest
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.samplers import Sampler
from tests.adapters import tiny_pipelines
from tests.differential.cases import coupled, dice
from tests.differential.sequences import PACES, Broken, Clock, Drawn, judge_equal, made_up_time, named

Wrap = Callable[[Any], Any]
NAMES = {
    "ddpm": "DDPMScheduler",
    "ddim": "DDIMScheduler",
    "euler": "EulerAncestralDiscreteScheduler",
    "sde": "DPMSolverMultistepScheduler",
}
TRAINED: dict[int, dict[str, Any]] = {
    1000: {"beta_start": 1e-4, "beta_end": 0.02, "num_train_timesteps": 1000, "steps_offset": 1},
    12: {"beta_start": 0.05, "beta_end": 0.4, "num_train_timesteps": 12, "steps_offset": 0},
}
"""With a dozen timesteps, all of which are visited, schedulers with other settings may differ in their start alone."""
FIXED: dict[str, dict[str, Any]] = {
    "ddpm": {"clip_sample": False},
    "ddim": {"clip_sample": False, "set_alpha_to_one": False},
    "euler": {},
    "sde": {"algorithm_type": "sde-dpmsolver++"},
}
SPACINGS = ("leading", "linspace", "trailing")
PROMPTS = ("red", "big cat", "sea")


class Stopped(Exception):
    """What a callback raises."""


@dataclass(frozen=True)
class Settings:
    """What a pipeline is made of, as plain data."""

    kind: str
    scheduler: str
    spacing: str = "leading"
    predicts: str = "v_prediction"
    betas: str = "linear"
    trained: int = 1000  # timesteps
    size: float = 1.0  # of what the network answers

    def made(self) -> Any:
        """The scheduler."""
        own = {"timestep_spacing": self.spacing, "prediction_type": self.predicts, "beta_schedule": self.betas}
        return getattr(diffusers, NAMES[self.scheduler])(**TRAINED[self.trained] | FIXED[self.scheduler] | own)


@dataclass(frozen=True)
class Asked:
    """The arguments of a call, as plain data."""

    steps: int
    prompts: tuple[str, ...]  # of a pipeline without any, as many as there are images
    seeds: tuple[int, ...]  # of generators: one for each image, or one for all
    listed: bool
    guidance: float
    output: str
    watched: bool
    max_batch_size: int | None
    sampler: Sampler | None

    def named(self, settings: Settings) -> dict[str, Any]:
        generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        named: dict[str, Any] = {"generator": generators if self.listed else generators[0]}
        named |= {"num_inference_steps": self.steps, "output_type": self.output, "max_batch_size": self.max_batch_size}
        named |= {"eta": 1.0} if settings.scheduler == "ddim" else {}
        if settings.kind == "plain":
            return named | {"batch_size": len(self.prompts)}
        return named | {"prompt": list(self.prompts), "guidance_scale": self.guidance}


class Seen:
    """A callback, and what it was shown."""

    def __init__(self, breaks: int | None = None) -> None:
        self.steps, self.latents, self.breaks = list[tuple[int, float]](), list[Tensor](), breaks

    def __call__(self, pipe: Any, step: int, timestep: Any, given: dict[str, Any]) -> dict[str, Any]:
        self.steps.append((step, float(timestep)))
        self.latents.append(given["latents"].clone())
        if len(self.steps) == self.breaks:
            raise Stopped("the callback has seen enough")
        return given


def pause(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    time.sleep(len(inputs[0]))


@functools.cache
def pristine(kind: str) -> tuple[Any, dict[str, Any]]:
    """A kind of pipeline, and its parts: nothing is ever drawn from these."""
    if kind == "text":
        pipe = tiny_pipelines.made("text")
        return type(pipe), dict(pipe.components)
    torch.manual_seed(0)
    network = diffusers.UNet2DModel(
        sample_size=4, in_channels=3, out_channels=3, block_out_channels=(8, 8), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
    )  # fmt: skip
    return diffusers.DDPMPipeline, {"unet": network.double().eval()}


def made(settings: Settings) -> Any:
    """A pipeline of diffusers that nothing was drawn from."""
    kind, parts = pristine(settings.kind)
    network = copy.deepcopy(parts["unet"])
    network.register_forward_pre_hook(pause)
    sized(network, settings.size)
    more = {"requires_safety_checker": False} if settings.kind == "text" else {}
    pipe = kind(**parts | {"unet": network, "scheduler": settings.made()} | more)
    pipe.scheduler = settings.made()  # some pipelines change settings of the one they are made with
    pipe.set_progress_bar_config(disable=True)
    return pipe


def sized(network: Any, size: float) -> None:
    with torch.no_grad():
        network.conv_out.weight.mul_(size)
        network.conv_out.bias.mul_(size)


def wrapped(pipe: Any) -> Any:
    ours = da.adapters.DrawaheadPipeline.from_pipe(pipe)
    ours.set_progress_bar_config(disable=True)
    return ours


class PipelineSequence:
    """One sequence: what `wrap` makes of a pipeline is judged."""

    def __init__(self, seed: int, kind: str, clock: Clock, wrap: Wrap) -> None:
        self.d, self.clock = dice(f"pipeline sequence {kind}", seed), clock
        d = self.d
        clock.pace = d.choice(PACES)
        trained, spacing = d.choice(list(TRAINED)), d.choice(SPACINGS)
        self.settings = Settings(kind, self.scheduler(trained), spacing, trained=trained, size=d.choice([1.0, 3.0]))
        self.pipe = wrap(made(self.settings))
        self.steady = d.chance(0.3)  # one way to call, with the default
        self.asked: Asked | None = None
        self.seeds = [d.randrange(1000) for _ in range(2)]
        self.drawn, self.history = Drawn(), [f"{self.settings} {clock.pace}"]
        self.before: Hashable = None
        self.epoch = 0  # calls in a row that draw by the same steps share one

    def scheduler(self, trained: int) -> str:
        return self.d.choice(list(NAMES) if trained > 12 else ["ddpm", "ddim", "euler", "euler"])

    # What is changed between calls

    def change(self) -> None:
        ways = [self.swapped, self.reconfigured, self.reconfigured, self.weighed, self.busy]
        way = self.busy if self.steady else self.d.choice(ways)
        way()
        self.history.append(f"{way.__name__}: {self.settings} {self.clock.pace}")

    def busy(self) -> None:
        self.clock.pace = self.d.choice(PACES)

    def swapped(self) -> None:
        """Another scheduler."""
        name, betas = self.scheduler(self.settings.trained), self.d.choice(["linear", "scaled_linear"])
        self.settings = replace(self.settings, scheduler=name, betas=betas)
        self.pipe.scheduler = self.settings.made()

    def reconfigured(self) -> None:
        """The same scheduler with other settings: made from its own, as people do, or changed where it is."""
        d = self.d
        predicts = d.choice(["v_prediction", "v_prediction", "epsilon"])
        self.settings = replace(self.settings, spacing=d.choice(SPACINGS), predicts=predicts)
        own = {"timestep_spacing": self.settings.spacing, "prediction_type": self.settings.predicts}
        if d.chance(0.5):
            self.pipe.scheduler = type(self.pipe.scheduler).from_config(self.pipe.scheduler.config, **own)
        else:
            self.pipe.scheduler.register_to_config(**own)

    def weighed(self) -> None:
        """Weights are changed in place, or a layer is replaced."""
        size = self.d.choice([0.5, 2.0])
        if self.d.chance(0.5):
            self.pipe.unet.conv_out = copy.deepcopy(self.pipe.unet.conv_out)
        sized(self.pipe.unet, size)
        self.settings = replace(self.settings, size=self.settings.size * size)

    # Calls

    def ask(self) -> Asked:
        """Like the last call, or in another way."""
        d = self.d
        last = self.asked
        if last is None or (not self.steady and d.chance(0.5)):
            prompts = tuple(d.choice(PROMPTS) for _ in range(d.choice([1, 1, 2])))
            output = d.choice(["latent", "latent", "np"] if self.settings.kind == "text" else ["pt", "pt", "np"])
            last = Asked(
                steps=self.steps(),
                prompts=prompts,
                seeds=(0,),
                listed=d.chance(0.6),
                guidance=d.choice([1.0, 2.0, 3.0]),
                output=output,
                watched=d.chance(0.5),
                max_batch_size=d.choice([None, None, 3]),
                sampler=None if self.steady else d.choice([None, coupled(d), da.Sequential()]),
            )
        elif not self.steady and d.chance(0.3):
            last = replace(last, guidance=d.choice([1.0, 2.0, 3.0]), steps=self.steps())
        seeds = tuple(d.choice(self.seeds) for _ in (last.prompts if last.listed else (0,)))
        return replace(last, seeds=seeds, watched=d.chance(0.5))

    def steps(self) -> int:
        return self.d.choice([9, 12, 12, 12, 16] if self.settings.trained > 16 else [12])

    def call(self) -> None:
        d = self.d
        self.asked = asked = self.ask()
        cut, after = d.choice([""] * 6 + ["fails", "stops"]), d.randint(1, 4)
        self.history.append(f"call: {asked} {cut} {after}")
        steps = replace(self.settings, size=1.0), asked.steps, asked.guidance
        self.epoch, self.before = self.epoch + (steps != self.before), steps
        seen = Seen(after if cut == "stops" else None) if asked.watched or cut == "stops" else None
        self.clock.left = after if cut == "fails" else float("inf")
        try:
            out = called(self.pipe, asked, self.settings, asked.sampler, seen)
        except da.InputError as error:  # a fresh one says the same, unless the network broke while the loop was read
            if cut == "fails" and isinstance(error.__cause__, Broken):
                return
            with pytest.raises(da.InputError, match=re.escape(str(error))):
                called(wrapped(made(self.settings)), asked, self.settings, asked.sampler, None)
            return
        except (da.SamplingError, Stopped) as error:
            cause = error if isinstance(error, Stopped) else error.__cause__
            if (cut == "fails" and isinstance(cause, Broken)) or (cut == "stops" and isinstance(cause, Stopped)):
                return
            raise
        finally:
            self.clock.left = float("inf")
        self.judge(asked, out, seen)

    def judge(self, asked: Asked, out: Any, seen: Seen | None) -> None:
        report, images = out.report, torch.as_tensor(out.images)
        assert report.steps == asked.steps and report.exact and report.num_samples == len(asked.prompts)
        by = named(report) if asked.sampler is None else asked.sampler
        beside = None if seen is None else Seen()
        fresh = called(wrapped(made(self.settings)), asked, self.settings, by, beside)
        judge_equal(images, torch.as_tensor(fresh.images), "not what a fresh pipeline draws")
        assert report.sample_rounds == fresh.report.sample_rounds
        if seen is not None and beside is not None:
            assert seen.steps[-1][0] == asked.steps - 1, "the callback must see the last step"
            last = seen.latents[-1]
            if asked.output in ("latent", "pt"):
                last = last if asked.output == "latent" else (last.float() / 2 + 0.5).clamp(0, 1)
                judge_equal(last.to(images.dtype), images, "what a callback is shown last is not what is returned")
            assert seen.steps == beside.steps, "the callback was called at other steps"
            for one, other in zip(seen.latents, beside.latents, strict=True):
                judge_equal(one, other, "the callback was shown other states")
        if asked.sampler is None:
            plain = (self.epoch, self.settings, asked.guidance, asked.output, asked.max_batch_size)
            for i, image in enumerate(images):
                noise = (asked.seeds[i],) if asked.listed else (asked.seeds[0], i)
                where = (plain, len(images), asked.prompts[i] if self.settings.kind == "text" else "", noise)
                self.drawn.judge(where, image, f"image {i}")


def called(pipe: Any, asked: Asked, settings: Settings, by: Sampler | None, seen: Seen | None) -> Any:
    return pipe(**asked.named(settings), sampler=by, callback_on_step_end=seen)


def judge_pipelines(seed: int, kind: str, wrap: Wrap = wrapped, calls: int = 6) -> None:
    """One sequence of calls of a pipeline with or without prompts; `wrap` makes what is judged."""
    with made_up_time() as clock:
        sequence = PipelineSequence(seed, kind, clock, wrap)
        try:
            for _ in range(calls):
                while sequence.d.chance(0.4):
                    sequence.change()
                sequence.call()
        except Exception as error:
            error.add_note("\n".join([f"{kind} sequence {seed}:", *sequence.history]))
            raise
