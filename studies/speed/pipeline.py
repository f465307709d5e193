"""A UNet of diffusers, trained for a few minutes, through `DrawaheadPipeline` and through diffusers' `DDPMPipeline`.

diffusers is imported here alone, and only where something is measured.
"""

from __future__ import annotations

import gzip
import importlib
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.errors import InputError
from drawahead.show.pictures import encoded
from studies.speed.fresh import started
from studies.speed.place import Place, Setting
from studies.speed.timing import Row, measured

SIDE, STEPS, BATCH, PICTURES = 32, 1000, 256, 16
_FILE = "unet.pt"
_AVERAGED = 0.999
_TOGETHER_SECONDS = 85.0  # must be left for a batch of pictures from diffusers, and for the parts after this one
_FULL_PRECISION_SECONDS = 125.0  # and for float32
_COMPILING_SECONDS = 100.0  # and to compile the network


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


def images(place: Place, folder: Path | None) -> Tensor:
    """Fashion-MNIST, padded to 32 x 32, from -1 to 1 (m, 1, 32, 32); noise for a stand-in."""
    if folder is None:
        if place.real:
            raise InputError("--data must name the folder with train-images-idx3-ubyte.gz")
        return torch.rand(64, 1, SIDE, SIDE) * 2 - 1
    raw = gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes())
    pixels = torch.tensor(np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 1, 28, 28).copy())
    return nn.functional.pad(pixels.float() / 127.5 - 1, (2, 2, 2, 2), value=-1.0).to(place.device)


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
    """In a process of its own: the pipeline's steps one after another, captured, and perhaps compiled."""
    chain = da.adapters.from_diffusers(
        loaded(place, folder, dtype), scheduler(), num_inference_steps=STEPS if place.real else 8
    )
    chain = chain.compiled() if compiled else chain
    return measured(place, chain, da.Sequential(), 1, place.seeds[:2])


def draw(place: Place, which: str, folder: str, dtype: str, runs: int, together: bool) -> Row:
    """In a process of its own: the first image of a pipeline, then `runs` more, and perhaps a few together."""
    diffusers: Any = importlib.import_module("diffusers")
    own: Any = importlib.import_module("drawahead.diffusers.pipeline")
    unet = loaded(place, folder, dtype)
    made = own.DrawaheadPipeline if which == "drawahead" else diffusers.DDPMPipeline
    pipe = made(unet=unet, scheduler=scheduler())
    pipe.set_progress_bar_config(disable=True)
    steps = STEPS if place.real else 8
    where = "cpu" if which == "drawahead" else place.device  # diffusers draws its noise where the generator is

    def one(seed: int, batch: int = 1) -> tuple[float, Any]:
        began = place.now()
        out = pipe(
            batch_size=batch,
            generator=torch.Generator(where).manual_seed(seed),
            num_inference_steps=steps,
            output_type="np",
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
    if together:
        row["together_seconds"], out = one(1, PICTURES if place.real else 2)
    np.save(Path(folder) / f"{which}.npy", np.asarray(out.images)[..., 0])
    return row


def pipeline(results: dict[str, Any], setting: Setting, save: Callable[[], None]) -> None:
    """Train; then every pipeline in a new process, so that its first call is one."""
    place, found = setting.place, {}
    halves = "float16" if place.real else "float32"
    turns = [("drawahead", halves, 8, True), ("ddpm", halves, 1, True)]
    full = place.real and not setting.quick
    turns += [("drawahead", "float32", 4, False), ("ddpm", "float32", 1, False)] if full else []
    works = [*["draw"] * len(turns), "one_by_one", "one_by_one"]
    with started([f"{__name__}:{work}" for work in works]) as waiting, tempfile.TemporaryDirectory() as folder:
        if setting.unet is not None and setting.unet.exists():
            held = torch.load(setting.unet, map_location="cpu", weights_only=True)
            found["training"] = held.pop("training")
            torch.save(held, Path(folder) / _FILE)
        else:
            model, found["training"] = train(place, images(place, setting.data), setting.train_seconds)
            torch.save(model.state_dict(), Path(folder) / _FILE)
            if setting.unet is not None:
                torch.save(model.state_dict() | {"training": found["training"]}, setting.unet)
            del model
        place.forget()
        for i, ((which, dtype, runs, pictures), process) in enumerate(zip(turns, waiting, strict=False)):
            if i >= 2 and setting.left < _FULL_PRECISION_SECONDS:
                print(f"float32 left out: {setting.left:.0f} s are left", flush=True)
                break
            process.ready()
            together = pictures and (which == "drawahead" or setting.left > _TOGETHER_SECONDS)
            options = {"folder": folder, "dtype": dtype, "runs": runs, "together": together}
            row = process.result(place, which=which, **options)
            print(f"pipeline {which} {dtype}:", row, flush=True)
            found.setdefault(dtype, {})[which] = row
            if "ddpm" in found[dtype]:
                results["pipeline"] = found
                save()
            if pictures:
                keep(setting.out, folder, which)
        for compiled, process in zip((False, True), waiting[len(turns) :], strict=True):
            if setting.left > (_COMPILING_SECONDS if compiled else 0.0) and not (compiled and not place.real):
                process.ready()
                row = process.result(place, folder=folder, dtype=halves, compiled=compiled)
                found[halves]["sequential compiled" if compiled else "sequential"] = row
                print("pipeline's steps one by one, compiled" if compiled else "one by one", row["seconds"], flush=True)
                save()


def keep(out: Path, folder: str, which: str) -> None:
    """The pictures of a pipeline, as numbers and as a grid to look at."""
    pictures = np.load(Path(folder) / f"{which}.npy")
    target = out / "pictures"
    target.mkdir(parents=True, exist_ok=True)
    np.save(target / f"{which}.npy", pictures)
    columns = math.ceil(math.sqrt(len(pictures)))
    grid = np.zeros((math.ceil(len(pictures) / columns) * SIDE, columns * SIDE), np.uint8)
    for i, picture in enumerate(pictures):
        y, x = divmod(i, columns)
        grid[y * SIDE : (y + 1) * SIDE, x * SIDE : (x + 1) * SIDE] = (picture * 255).round().clip(0, 255)
    (target / f"{which}.png").write_bytes(encoded(grid))
