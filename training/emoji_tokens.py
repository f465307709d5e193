r"""Train the emoji model of tokens: 32x32 pixels of a palette, from left to right, told words, with an empty prompt.

The data first, as for training/emoji.py:
    python training/emoji_data.py --font .../NotoColorEmoji.ttf --out carry/training/emoji.npz

Then the training, on an H200, in one command of at most 7 minutes, with `carry` for the folder of that name:
    PYTHONUNBUFFERED=1 PYTHONPATH=src python training/emoji_tokens.py --out $OUT/emoji_tokens.safetensors --seconds 330

It writes emoji_tokens.safetensors (what is shipped), emoji_tokens.json (its card in numbers) and emoji_tokens.png: a
line of pictures for every minute. A try on a CPU:
    PYTHONPATH=src python training/emoji_tokens.py --device cpu --steps 20 --batch 4 --layers 2 --width 32 --heads 2
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import torch
from common import Average, Course, optimizer, save, step
from emoji import DATA, LICENCE, PROMPTS, Emoji, read, shortened, write_png
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import drawahead as da
from drawahead.networks.emoji import LENGTH, SIDE
from drawahead.networks.emoji_tokens import GUIDANCE, chain_of, coloured
from drawahead.networks.pixel_transformer import PixelTransformer

COLOURS = 64
PEAK = 2e-3
WINDOW = 32


def palette_of(pictures: Tensor, rounds: int = 20) -> Tensor:
    """Colours (COLOURS, 3) near all pixels of pictures (m, 3, side, side): white, and the centres of k-means."""
    pixels = pictures.permute(0, 2, 3, 1).reshape(-1, 3)
    generator = torch.Generator().manual_seed(0)
    pixels = pixels[torch.randperm(len(pixels), generator=generator)[:200_000].to(pixels.device)]
    coloured = pixels[(pixels < 0.95).any(1)]
    centres = torch.cat([torch.ones(1, 3, device=pixels.device), coloured[: COLOURS - 1]])
    for _ in range(rounds):
        nearest = torch.cdist(pixels, centres).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, pixels)
        count = torch.bincount(nearest, minlength=COLOURS)[:, None]
        centres = torch.where(count > 0, sums / count.clamp(min=1), centres)
        centres[0] = 1.0
    return centres.half().float()  # as it is shipped


def as_tokens(pictures: Tensor, palette: Tensor) -> Tensor:
    """Pictures (m, 3, side, side) as the numbers of the nearest colours (m, side * side)."""
    parts = pictures.permute(0, 2, 3, 1).flatten(1, 2).split(64)
    return torch.cat([torch.cdist(part, palette).argmin(-1) for part in parts])


def loss_of(model: nn.Module, pixels: Tensor, words: Tensor) -> Tensor:
    """Nats a pixel: pixels (m, side * side), words (m, LENGTH)."""
    tokens = torch.cat([words + COLOURS, pixels[:, :-1]], dim=1)
    logits = model(tokens)[:, LENGTH - 1 :]
    return cross_entropy(logits.float().flatten(0, 1), pixels.flatten())


def moved(pixels: Tensor) -> Tensor:
    """Half of the pictures, moved by a pixel in some direction: what comes in is white, token 0."""
    m = len(pixels)
    padded = torch.nn.functional.pad(pixels.view(m, SIDE, SIDE), (1, 1, 1, 1))
    offset = torch.randint(0, 3, (m, 2), device=pixels.device)
    offset = torch.where(torch.rand(m, 1, device=pixels.device) < 0.5, offset, 1)
    at = torch.arange(SIDE, device=pixels.device)
    row, column = (offset[:, i, None] + at for i in range(2))
    return padded[torch.arange(m, device=pixels.device)[:, None, None], row[:, :, None], column[:, None, :]].flatten(1)


@torch.no_grad()
def validate(model: nn.Module, pixels: Tensor, emoji: Emoji, *, told: bool) -> float:
    """The loss with the whole prompt or with none."""
    total = 0.0
    for some, words in zip(pixels.split(64), emoji.words.split(64), strict=True):
        with torch.autocast(some.device.type, torch.bfloat16, enabled=some.is_cuda):
            total += float(loss_of(model, some, words if told else torch.zeros_like(words))) * len(some)
    return total / len(pixels)


def preview(model: PixelTransformer, vocabulary: list[str]) -> tuple[Tensor, da.Report]:
    """A picture of each prompt, drawn as drawahead draws them, and what they cost."""
    known = [prompt for prompt in PROMPTS if set(prompt.split()) <= set(vocabulary)]
    drawn = da.sample(chain_of(model, vocabulary, known), len(known), sampler=da.Coupled(WINDOW), seed=0, graphs=False)
    return coloured(drawn.samples, model.palette), drawn.report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("carry/training"))
    parser.add_argument("--out", type=Path, default=Path("out/emoji_tokens.safetensors"))
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop by then whatever the steps")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=224)
    parser.add_argument("--layers", type=int, default=7)
    parser.add_argument("--heads", type=int, default=7)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device(options.device)
    train, test, vocabulary = read(options.data / "emoji.npz", device)
    palette = palette_of(train.pictures)
    pixels, held_out = as_tokens(train.pictures, palette), as_tokens(test.pictures, palette)
    shape = {name: getattr(options, name) for name in ("width", "layers", "heads")}
    model = PixelTransformer(COLOURS, len(vocabulary) + 1, side=SIDE, words=LENGTH, **shape, drop=options.dropout)
    model = model.to(device)
    model.palette.copy_(palette)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    words = f"{len(pixels)} + {len(held_out)} pictures, {len(vocabulary)} words, {parameters} parameters"
    print(words, flush=True)
    average = Average(model, 0.999)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = [preview(average.model, vocabulary)[0]]  # what cannot be drawn is found out before the training
    fast = torch.compile(loss_of, dynamic=False) if device.type == "cuda" else loss_of
    chosen = optimizer(model, PEAK, 0.1)
    course = Course(options.steps, options.seconds)
    facts = {"words": json.dumps(vocabulary), "network": json.dumps(shape), "data": DATA, "licence": LICENCE}
    running, curve, shown = torch.zeros((), device=device), [], time.perf_counter()

    while course.progress < 1:
        at = torch.multinomial(train.weights, options.batch, replacement=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            told = shortened(train.words[at])[:, torch.randperm(LENGTH, device=device)]  # in any order
            loss = fast(model, moved(pixels[at]), told)
        step(loss, model, chosen, PEAK * course.rate)
        average.update(model)
        course.step += 1
        running += loss.detach()
        if course.step % 200 == 0:
            curve.append((course.step, round(float(running) / 200, 5)))
            print(f"step {course.step} progress {course.progress:.3f} loss {curve[-1][1]}", flush=True)
            running.zero_()
            if time.perf_counter() - shown > 60:
                print("held out", validate(average.model, held_out, test, told=True), flush=True)
                save(average.model, options.out, facts | {"steps": str(course.step)})
                line, report = preview(average.model, vocabulary)
                lines.append(line)
                write_png(options.out.with_suffix(".png"), lines)
                print(f"preview: {report.mean_rounds:.1f} rounds, {report.seconds:.1f} s", flush=True)
                shown = time.perf_counter()
    losses = {
        f"loss_{name}_{prompt}": f"{validate(average.model, some, part, told=prompt == 'prompt'):.5f}"
        for name, some, part in (("train", pixels[::8], train.thinned(8)), ("held_out", held_out, test))
        for prompt in ("prompt", "empty")
    }
    more = {"batch": str(options.batch), "parameters": str(parameters), "guidance": str(GUIDANCE)} | losses
    save(average.model, options.out, facts | {"steps": str(course.step)} | more)
    line, report = preview(average.model, vocabulary)
    write_png(options.out.with_suffix(".png"), [*lines, line])
    card = {name: value for name, value in (facts | more).items() if name != "words"}
    card |= {"prompts": PROMPTS, "seconds": round(time.perf_counter() - course.began), "curve": curve}
    card |= {"steps": course.step, "rounds": report.mean_rounds, "window": WINDOW}
    options.out.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n")
    print(losses, f"preview: {report.mean_rounds:.1f} rounds, {report.seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
