"""A UNet of diffusers, trained for a few minutes, through `DrawaheadPipeline` and through diffusers' `DDPMPipeline`.

diffusers is imported here alone, and only where something is measured.
"""

from __future__ import annotations

import importlib
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import drawahead as da
from studies.speed.fresh import started
from studies.speed.place import Place, Setting
from studies.speed.timing import Row, measured

SIDE, STEPS, BATCH, LESSONS = 32, 1000, 256, 1024
_FILE = "unet.pt"
_AVERAGED = 0.999


def prepare() -> None:
    """What a process imports before it waits for its turn."""
    importlib.import_module("diffusers")
    importlib.import_module("drawahead.diffusers.pipeline")


def network(place: Place) -> Any:
    """About 10 million parameters; a stand-in on a CPU."""
    diffusers: Any = importlib.import_module("diffusers")
    channels = (64, 128, 192) if place.real else (32, 32, 32)
    return diffusers.UNet2DModel(
        sample_size=SIDE,
        in_channels=1,
        out_channels=1,
        layers_per_block=2 if place.real else 1,
        block_out_channels=channels,
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    )


def scheduler() -> Any:
    diffusers: Any = importlib.import_module("diffusers")
    return diffusers.DDPMScheduler(num_train_timesteps=STEPS, clip_sample=True)


def images(place: Place) -> Tensor:
    """What the shipped network of clothes draws, padded to 32 x 32, from -1 to 1 (m, 1, 32, 32); noise for a
    stand-in."""
    if not place.real:
        return torch.rand(64, 1, SIDE, SIDE) * 2 - 1
    drawn = da.sample(place.fashion(), LESSONS, sampler=da.Sequential(), seed=7, max_live=LESSONS).samples
    pixels = drawn.float().clamp(-1, 1).reshape(-1, 1, 28, 28)
    return nn.functional.pad(pixels, (2, 2, 2, 2), value=-1.0).to(place.device)


def train(place: Place, data: Tensor, seconds: float) -> tuple[Any, Row]:
    """Noise prediction for so many seconds. -> the network with its weights averaged over the last steps, and how it
    went."""
    torch.manual_seed(0)
    model = network(place).to(place.device).train()
    if place.real:
        model.to(memory_format=torch.channels_last)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    averages = [weight.detach().clone() for weight in weights]
    levels = scheduler().alphas_cumprod.to(place.device)
    optimizer = torch.optim.AdamW(weights, lr=0.0, weight_decay=0.01, fused=place.real)
    batch = BATCH if place.real else 4
    running, steps, losses = torch.zeros((), device=place.device), 0, []
    began = place.now()
    while (progress := (time.perf_counter() - began) / seconds) < 1 or steps == 0:
        for group in optimizer.param_groups:
            group["lr"] = 6e-4 * min(1.0, (steps + 1) / 200) * (0.02 + 0.98 * math.cos(math.pi * progress / 2) ** 2)
        clean = data[torch.randint(len(data), (batch,), device=place.device)]
        moment = torch.randint(STEPS, (batch,), device=place.device)
        noise, level = torch.randn_like(clean), levels[moment][:, None, None, None]
        with torch.autocast(torch.device(place.device).type, torch.bfloat16, enabled=place.real):
            answer = model(level.sqrt() * clean + (1 - level).sqrt() * noise, moment).sample
        loss = (answer.float() - noise).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(averages, weights, 1 - min(_AVERAGED, (steps + 1) / (steps + 10)))
        running += loss.detach()
        steps += 1
        if steps % 100 == 0 or steps == 1:  # this waits for the device, so that the clock above is not far ahead of it
            losses.append(float(running) / (100 if steps > 1 else 1))
            running.zero_()
            if steps % 500 == 0:
                print(f"training: step {steps}, {progress:.0%} of the time, loss {losses[-1]:.4f}", flush=True)
    with torch.no_grad():
        for weight, average in zip(weights, averages, strict=True):
            weight.copy_(average)
    size = sum(weight.numel() for weight in model.parameters())
    found = {"parameters": size, "seconds": place.now() - began, "steps": steps, "batch": batch, "loss": losses[-1]}
    print("training:", found, flush=True)
    return model.eval(), found


def loaded(place: Place, folder: str, dtype: str) -> Any:
    """The trained network."""
    unet = network(place)
    unet.load_state_dict(torch.load(Path(folder) / _FILE, map_location="cpu", weights_only=True))
    return unet.to(place.device, getattr(torch, dtype)).eval().requires_grad_(False)


def one_by_one(place: Place, folder: str, dtype: str, compiled: bool) -> Row:
    """In a process of its own: the pipeline's steps one after another, captured."""
    chain = da.adapters.from_diffusers(
        loaded(place, folder, dtype), scheduler(), num_inference_steps=STEPS if place.real else 8
    )
    return measured(place, chain.compiled() if compiled else chain, da.Sequential(), 1, place.seeds[:2])


def draw(place: Place, which: str, folder: str, dtype: str, runs: int, compiled: bool = False) -> Row:
    """In a process of its own: the first image of a pipeline, then `runs` more."""
    diffusers: Any = importlib.import_module("diffusers")
    own: Any = importlib.import_module("drawahead.diffusers.pipeline")
    unet = loaded(place, folder, dtype)
    made = own.DrawaheadPipeline if which == "drawahead" else diffusers.DDPMPipeline
    pipe = made(unet=unet, scheduler=scheduler())
    pipe.set_progress_bar_config(disable=True)
    steps = STEPS if place.real else 8
    options = {"compile": True} if compiled else {}
    where = "cpu" if which == "drawahead" else place.device  # diffusers draws its noise where the generator is

    def one(seed: int) -> tuple[float, Any]:
        began = place.now()
        out = pipe(
            generator=torch.Generator(where).manual_seed(seed),
            num_inference_steps=steps,
            output_type="np",
            **options,
        )
        return place.now() - began, out

    cold, out = one(99)
    warm, outside = [], [0.0]
    for seed in place.seeds[:runs]:
        seconds, out = one(seed)
        warm.append(seconds)
        if which == "drawahead":
            outside.append(seconds - out.report.seconds)
    row: Row = {"cold": cold, "all_seconds": warm, "seconds": statistics.median(warm) if warm else None, "steps": steps}
    if which == "drawahead":
        report = out.report
        row |= {"rounds": report.mean_rounds, "sampler": report.sampler, "choice": report.choice}
        row["outside_seconds"] = statistics.median(outside[1:])
    return row


def pipeline(results: dict[str, Any], setting: Setting, save: Callable[[], None]) -> None:
    """Train; then every pipeline in a new process, so that its first call is one."""
    place, found = setting.place, {}
    halves = "float16" if place.real else "float32"
    works = ["draw", "draw", "one_by_one"] + (["draw", "one_by_one"] if place.real else [])  # a CPU takes minutes
    with started([f"{__name__}:{work}" for work in works]) as waiting, tempfile.TemporaryDirectory() as folder:
        model, found["training"] = train(place, images(place), setting.train_seconds)
        torch.save(model.state_dict(), Path(folder) / _FILE)
        del model
        place.forget()
        ahead, ddpm, single, *compiled = waiting
        rows = found[halves] = {}
        for which, runs, process in (("drawahead", 8, ahead), ("ddpm", 1, ddpm)):
            process.ready()
            rows[which] = process.result(place, which=which, folder=folder, dtype=halves, runs=runs)
            print(f"pipeline {which}:", rows[which], flush=True)
        results["pipeline"] = found
        save()
        single.ready()
        rows["sequential"] = single.result(place, folder=folder, dtype=halves, compiled=False)
        print("pipeline's steps one by one", rows["sequential"]["seconds"], flush=True)
        save()
        for process in compiled:
            if setting.left < 200:
                print(f"no time is left for {process.work}, compiled", flush=True)
                break
            process.ready()
            one = process.work.endswith("one_by_one")
            own = {} if one else {"which": "drawahead", "runs": 8}
            name = "sequential, compiled" if one else "drawahead, compiled"
            rows[name] = process.result(place, folder=folder, dtype=halves, compiled=True, **own)
            print(f"pipeline {name}:", rows[name], flush=True)
            save()
