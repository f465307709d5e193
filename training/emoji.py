r"""Train the emoji model: a DDPM of 32x32 colour pictures, 1000 steps, told words, with an empty prompt for guidance.

The data first, on any machine (see training/emoji_data.py for what it takes):
    python training/emoji_data.py --font .../NotoColorEmoji.ttf --out carry/training/emoji.npz

Then the training, on an H200, in one command of at most 10 minutes, with `carry` for the folder of that name:
    PYTHONUNBUFFERED=1 PYTHONPATH=src python training/emoji.py --out $OUT/emoji.safetensors --seconds 480

It writes emoji.safetensors (what is shipped), emoji.json (its card in numbers) and emoji.png: a line of pictures for
every minute, the last with learned variances. A try on a CPU:
    PYTHONPATH=src python training/emoji.py --device cpu --steps 20 --batch 8 --layers 2 --width 16 \
        --preview-steps 4
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from common import Average, Course, optimizer, save, step
from torch import Tensor, nn

import drawahead as da
from drawahead.networks.emoji import GUIDANCE, SIDE, STEPS, EmojiNetwork, GuidedDenoiser, encoded
from drawahead.schedules import DDPM, spaced
from drawahead.show.pictures import encoded as as_png
from drawahead.show.views import Images

HELD_OUT = 64  # kinds of emoji for validation; the others have all of their words
EMPTY = 0.1  # of the prompts
FEWER = 0.5  # of the prompts lose words, each with a chance of
LOST = 0.3
PEAK = 1e-3
WEIGHT = 1e-3  # of the variance's part of the loss
REPEATED = 4  # timesteps for each picture of a validation
PROMPTS = (
    "red apple",
    "green apple",
    "smiling cat",
    "black cat",
    "blue heart",
    "woman astronaut dark skin",
    "rocket",
    "flag jp",
    "blue apple",  # from here on: of none in the font
    "purple cat face heart shaped eyes",
    "green rocket",
    "frog face tears joy",
)

DATA = (
    "The bitmaps of Noto Color Emoji 2.042 (Copyright 2013-2022 Google Inc. and others), as the Debian package "
    "fonts-noto-color-emoji holds them: 136x128 pixels, laid over white and scaled to 32x32. Names are those of "
    "Unicode's code points, with everyday words for skin tones, professions and colours."
)
LICENCE = (
    "the font that the pictures come from is under the SIL Open Font License 1.1, and upstream's source images under "
    "the Apache License 2.0; the weights hold no glyphs and are no font, and are given under the SIL Open Font License "
    "1.1, too, with this notice"
)


@dataclass(frozen=True)
class Emoji:
    """Pictures (m, 3, side, side) from -1 to 1, their words (m, LENGTH), and how likely each is to be taken (m,)."""

    pictures: Tensor
    words: Tensor
    weights: Tensor

    def batch(self, count: int) -> tuple[Tensor, Tensor]:
        chosen = torch.multinomial(self.weights, count, replacement=True)
        return self.pictures[chosen], self.words[chosen]

    def thinned(self, every: int) -> Emoji:
        return Emoji(self.pictures[::every], self.words[::every], self.weights[::every])


def read(path: Path, device: torch.device) -> tuple[Emoji, Emoji, list[str]]:
    """The emoji to train on, those that are held out, and the vocabulary. An emoji in several tones of skin is no
    likelier than another."""
    found = np.load(path)
    names, kinds = found["names"].tolist(), found["kinds"]
    uses: dict[str, set[int]] = {}
    for name, kind in zip(names, kinds.tolist(), strict=True):
        for word in name.split():
            uses.setdefault(word, set()).add(kind)
    texts = dict(zip(kinds.tolist(), names, strict=True))
    held: list[int] = []
    for kind in np.random.default_rng(0).permutation(len(texts)).tolist():
        words = texts[kind].split()
        if len(held) < HELD_OUT and all(len(uses[word] - {*held, kind}) > 1 for word in words):
            held.append(kind)
    out = np.isin(kinds, held)
    vocabulary = sorted({word for name, apart in zip(names, out, strict=True) if not apart for word in name.split()})
    pictures = torch.tensor(found["pictures"]).to(device).float() / 127.5 - 1
    words = encoded(names, vocabulary).to(device)
    weights = torch.tensor(1 / np.bincount(kinds)[kinds], dtype=torch.float32, device=device)
    parts = (torch.tensor(chosen, device=device) for chosen in (~out, out))
    train, test = (Emoji(pictures[part], words[part], weights[part]) for part in parts)
    return train, test, vocabulary


def shortened(words: Tensor) -> Tensor:
    """Prompts as people write them: half of them with words left out, some empty."""
    rows = len(words), 1
    lossy, empty = (torch.rand(rows, device=words.device) < share for share in (FEWER, EMPTY))
    gone = lossy & (torch.rand(words.shape, device=words.device) < LOST)
    return words.masked_fill(gone | empty, 0)


def loss_of(model: nn.Module, data: Tensor, words: Tensor, levels: Tensor, at: Tensor, noise: Tensor) -> Tensor:
    """The mean squared error of the predicted velocity, and a little of what the predicted variance costs in bits."""
    level = levels[at][:, None, None, None]
    signal, spread = level.sqrt(), (1 - level).sqrt()
    x, velocity = signal * data + spread * noise, signal * noise - spread * data
    answer, place = model(x, at, words).float().chunk(2, dim=1)
    return (answer - velocity).square().mean() + WEIGHT * bits_of(data, x, answer.detach(), place, levels, at)


def bits_of(data: Tensor, x: Tensor, velocity: Tensor, place: Tensor, levels: Tensor, at: Tensor) -> Tensor:
    """The divergence of a step with the variance at `place` in its range from the true one, in bits an entry; the
    last step, which adds no noise, has none."""
    here, after = (level[:, None, None, None] for level in (levels[at], levels[(at - 1).clamp(min=0)]))
    beta = 1 - here / after + 1e-12
    small = beta * (1 - after) / (1 - here)
    seen = (here.sqrt() * x - (1 - here).sqrt() * velocity).clamp(-1, 1)  # the data, as the network predicts them
    off = after.sqrt() * beta / (1 - here) * (seen - data)  # what its mean is off by
    wider = (place + 1) / 2 * (beta.log() - small.log())  # its log variance, beyond the true one
    nats = 0.5 * (wider - 1 + torch.exp(-wider) * (1 + off.square() / small))
    return torch.where(at[:, None, None, None] > 0, nats, 0.0).mean() / math.log(2)


@torch.no_grad()
def validate(model: nn.Module, emoji: Emoji, levels: Tensor, *, told: bool) -> float:
    """The loss with the whole prompt or with none, over the same timesteps and noise for every model."""
    generator = torch.Generator().manual_seed(0)
    device, total, count = emoji.words.device, 0.0, 0
    for pictures, words in zip(emoji.pictures.split(256), emoji.words.split(256), strict=True):
        for _ in range(REPEATED):
            at = torch.randint(STEPS, (len(pictures),), generator=generator).to(device)
            noise = torch.randn(pictures.shape, generator=generator).to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = loss_of(model, pictures, words if told else torch.zeros_like(words), levels, at, noise)
            total, count = total + float(loss) * len(pictures), count + len(pictures)
    return total / count


def preview(
    model: EmojiNetwork, vocabulary: list[str], steps: int, device: torch.device, learned: bool = False
) -> Tensor:
    """A picture of each prompt, drawn as drawahead draws them."""
    known = [prompt for prompt in PROMPTS if set(prompt.split()) <= set(vocabulary)]
    schedule = DDPM(clip=1.0, timesteps=spaced(steps, of=STEPS), learned_range=learned)
    chain = da.GaussianChain(
        GuidedDenoiser(model, schedule, GUIDANCE, torch.float32),
        schedule,
        (3, SIDE, SIDE),
        device=device,
        condition={"words": encoded(known, vocabulary).to(device)},
    )
    return da.sample(chain, len(known), sampler=da.Sequential(), seed=0, graphs=False).samples


def write_png(path: Path, lines: list[Tensor]) -> None:
    """Lines of pictures, one below the other."""
    pixels = [np.concatenate(Images().pixels(line, SIDE), axis=1) for line in lines]
    path.write_bytes(as_png(np.concatenate(pixels).repeat(2, axis=0).repeat(2, axis=1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("carry/training"))
    parser.add_argument("--out", type=Path, default=Path("out/emoji.safetensors"))
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop by then whatever the steps")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--preview-steps", type=int, default=100)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device(options.device)
    train, test, vocabulary = read(options.data / "emoji.npz", device)
    levels = torch.cumprod(1 - torch.tensor(DDPM().betas, dtype=torch.float64), 0).float().to(device)
    shape = {name: getattr(options, name) for name in ("width", "layers", "heads")}
    model = EmojiNetwork(len(vocabulary), **shape, dropout=options.dropout)
    model = model.to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{len(train.words)} + {len(test.words)} pictures, {len(vocabulary)} words, {parameters} parameters", flush=True
    )
    average = Average(model, 0.9995)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    # At once: what cannot be drawn is found out before the training, not after.
    lines = [preview(average.model, vocabulary, options.preview_steps, device)]
    write_png(options.out.with_suffix(".png"), lines)
    fast = torch.compile(loss_of, dynamic=False) if device.type == "cuda" else loss_of
    chosen = optimizer(model, PEAK, 0.01)
    course = Course(options.steps, options.seconds)
    facts = {"words": json.dumps(vocabulary), "network": json.dumps(shape), "data": DATA, "licence": LICENCE}
    running, curve, shown = torch.zeros((), device=device), [], time.perf_counter()
    while course.progress < 1:
        pictures, words = train.batch(options.batch)
        at = torch.randint(STEPS, (len(pictures),), device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = fast(model, pictures, shortened(words), levels, at, torch.randn_like(pictures))
        step(loss, model, chosen, PEAK * course.rate)
        average.update(model)
        course.step += 1
        running += loss.detach()
        if course.step % 500 == 0:
            curve.append((course.step, round(float(running) / 500, 5)))
            print(f"step {course.step} progress {course.progress:.3f} loss {curve[-1][1]}", flush=True)
            running.zero_()
            if time.perf_counter() - shown > 60:
                print("held out", validate(average.model, test, levels, told=True), flush=True)
                save(average.model, options.out, facts | {"steps": str(course.step)})
                lines.append(preview(average.model, vocabulary, options.preview_steps, device))
                write_png(options.out.with_suffix(".png"), lines)
                shown = time.perf_counter()
    losses = {
        f"loss_{name}_{prompt}": f"{validate(average.model, part, levels, told=prompt == 'prompt'):.5f}"
        for name, part in (("train", train.thinned(8)), ("held_out", test))
        for prompt in ("prompt", "empty")
    }
    facts |= {"steps": str(course.step), "batch": str(options.batch), "parameters": str(parameters)} | losses
    save(average.model, options.out, facts)
    lines += [preview(average.model, vocabulary, options.preview_steps, device, learned) for learned in (False, True)]
    write_png(options.out.with_suffix(".png"), lines)
    card = {name: value for name, value in facts.items() if name != "words"}
    card |= {"prompts": PROMPTS, "seconds": round(time.perf_counter() - course.began), "curve": curve}
    options.out.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n")
    print(losses, flush=True)


if __name__ == "__main__":
    main()
