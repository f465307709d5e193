"""Train the image model: a DDPM of Fashion-MNIST, 28x28, 1000 steps.

python training/fashion.py --data carry/training --out out/fashion.safetensors
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
from common import Average, Course, optimizer, save, step
from data import images
from torch import Tensor

from drawahead.networks.unet import UNet
from drawahead.schedules import linear_betas


def loss_of(model: torch.nn.Module, data: Tensor, levels: Tensor, time: Tensor, noise: Tensor) -> Tensor:
    """The mean squared error of the predicted noise."""
    level = levels[time][:, None, None, None]
    noised = level.sqrt() * data + (1 - level).sqrt() * noise
    return (model(noised, time).float() - noise).square().mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("carry/training"))
    parser.add_argument("--out", type=Path, default=Path("out/fashion.safetensors"))
    parser.add_argument("--steps", type=int, default=40000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop by then whatever the steps")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device(options.device)
    data, test = (
        torch.tensor(images(options.data, part)).to(device).float()[:, None] / 127.5 - 1 for part in ("train", "t10k")
    )
    levels = torch.cumprod(1 - torch.tensor(linear_betas(), dtype=torch.float64), 0).float().to(device)
    model = UNet().to(device, memory_format=torch.channels_last)
    average = Average(model, 0.9995)
    fast = torch.compile(loss_of, dynamic=False) if device.type == "cuda" else loss_of
    chosen = optimizer(model, 1e-3, 0.01)
    course = Course(options.steps, options.seconds)
    running = torch.zeros((), device=device)

    def one(data: Tensor, function=fast, net: torch.nn.Module = model) -> Tensor:
        time = torch.randint(len(levels), (len(data),), device=device)
        with torch.autocast(device.type, torch.bfloat16):
            return function(net, data, levels, time, torch.randn_like(data))

    while course.progress < 1:
        batch = data[torch.randint(len(data), (options.batch,), device=device)]
        loss = one(batch.contiguous(memory_format=torch.channels_last))
        step(loss, model, chosen, 1e-3 * course.rate)
        average.update(model)
        course.step += 1
        running += loss.detach()
        if course.step % 500 == 0:
            print(f"step {course.step} progress {course.progress:.3f} loss {float(running) / 500:.5f}", flush=True)
            running.zero_()
        if course.step % 5000 == 0:
            save(average.model, options.out, {"steps": str(course.step)})
    torch.manual_seed(0)
    with torch.no_grad():
        found = {
            name: sum(float(one(part, loss_of, average.model)) for part in values.split(1000)) / (len(values) // 1000)
            for name, values in (("train", data[:10000]), ("test", test))
        }
    facts = {
        "steps": str(course.step),
        "batch": str(options.batch),
        "loss_train": f"{found['train']:.5f}",
        "loss_test": f"{found['test']:.5f}",
    }
    print(facts, flush=True)
    save(average.model, options.out, facts)


if __name__ == "__main__":
    main()
