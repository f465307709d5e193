"""Train the text model: any-order characters of the State of the Union addresses.

python training/text.py --data carry/training --out out/text.safetensors
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from common import Average, Course, optimizer, save, step
from torch import Tensor
from torch.nn.functional import cross_entropy

from drawahead.networks.order_transformer import OrderTransformer
from drawahead.networks.text import ALPHABET, LENGTH, to_tokens


def crops(text: Tensor, starts: Tensor, count: int) -> Tensor:
    """Pieces of the text that begin at the start of a word."""
    first = starts[torch.randint(len(starts), (count,), device=text.device)]
    return text[first[:, None] + torch.arange(LENGTH, device=text.device)]


def task(tokens: Tensor) -> Tensor:
    """A random order for each piece (r, n); for half of them a random number of the first places run left to right,
    as evidence does."""
    rows, n = tokens.shape
    order = torch.rand(rows, n, device=tokens.device).argsort(1)
    known = torch.randint(n, (rows, 1), device=tokens.device) * (torch.rand(rows, 1, device=tokens.device) < 0.5)
    place = torch.arange(n, device=tokens.device)
    return order.gather(1, torch.where(place < known, order, n + place).argsort(1))


def bits(model: OrderTransformer, tokens: Tensor, order: Tensor) -> Tensor:
    """Bits for each character, on average."""
    logits = model.along(tokens, order)
    return cross_entropy(logits.float().flatten(0, 1), tokens.gather(1, order).flatten()) / math.log(2)


def starts_of(text: Tensor) -> Tensor:
    space = ALPHABET.index(" ")
    return ((text[: -LENGTH - 1] == space) & (text[1:-LENGTH] != space)).nonzero()[:, 0] + 1


@torch.no_grad()
def validate(model: OrderTransformer, text: Tensor, order: str) -> float:
    torch.manual_seed(0)
    starts = starts_of(text)
    total = 0.0
    for _ in range(8):
        tokens = crops(text, starts, 256)
        places = torch.arange(LENGTH, device=text.device).expand(256, -1)
        if order == "random":
            places = torch.rand(256, LENGTH, device=text.device).argsort(1)
        with torch.autocast(text.device.type, torch.bfloat16):
            total += float(bits(model, tokens, places))
    return total / 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("carry/training"))
    parser.add_argument("--out", type=Path, default=Path("out/text.safetensors"))
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop by then whatever the steps")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device(options.device)
    train, valid = (
        to_tokens((options.data / f"text-{part}.txt").read_text(encoding="utf-8")).to(device)
        for part in ("train", "valid")
    )
    starts = starts_of(train)
    model = OrderTransformer(len(ALPHABET)).to(device)
    average = Average(model, 0.999)
    fast = torch.compile(bits, dynamic=False) if device.type == "cuda" else bits
    chosen = optimizer(model, 1e-3, 0.1)
    course = Course(options.steps, options.seconds)
    running = torch.zeros((), device=device)
    while course.progress < 1:
        tokens = crops(train, starts, options.batch)
        with torch.autocast(device.type, torch.bfloat16):
            loss = fast(model, tokens, task(tokens))
        step(loss, model, chosen, 1.5e-3 * course.rate)
        average.update(model)
        course.step += 1
        running += loss.detach()
        if course.step % 250 == 0:
            print(f"step {course.step} progress {course.progress:.3f} bits {float(running) / 250:.4f}", flush=True)
            running.zero_()
        if course.step % 2000 == 0:
            print("validation", validate(average.model, valid, "random"), flush=True)
            save(average.model, options.out, {"steps": str(course.step)})
    found = {order: f"{validate(average.model, valid, order):.4f}" for order in ("random", "left to right")}
    facts = {
        "alphabet": ALPHABET,
        "steps": str(course.step),
        "batch": str(options.batch),
        "bits_per_character_random_order": found["random"],
        "bits_per_character_left_to_right": found["left to right"],
    }
    print(facts, flush=True)
    save(average.model, options.out, facts)


if __name__ == "__main__":
    main()
