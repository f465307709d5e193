"""Train a diffusion policy: DDPM with 100 steps over chunks of 16 actions, given the last two observations.

python training/policy.py --data carry/training/push.npz --out out/push.safetensors --seconds 280

The architecture and its settings are those of LeRobot's diffusion policy for low-dimensional observations: a squared
cosine schedule, noise predicted, predictions clipped, actions and observations scaled to [-1, 1].
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np
import torch
from common import Average, Course, optimizer, step
from diffusers import DDPMScheduler
from policy_unet import PolicyUNet
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

HORIZON, HISTORY, TAKEN, STEPS = 16, 2, 8, 100
SHOWN = 256  # observations that are kept with the weights


@final
@dataclass(frozen=True)
class Scale:
    """Entries from [low, high] to [-1, 1] and back; those that never change become 0."""

    low: Tensor
    high: Tensor

    @staticmethod
    def of(table: Tensor) -> Scale:
        return Scale(table.amin(0), table.amax(0))

    def to(self, device: torch.device | str) -> Scale:
        return Scale(self.low.to(device), self.high.to(device))

    @property
    def _half(self) -> Tensor:
        return ((self.high - self.low) / 2).clamp(min=1e-4)

    def shrink(self, values: Tensor) -> Tensor:
        return (values - (self.low + self.high) / 2) / self._half

    def grow(self, values: Tensor) -> Tensor:
        return values * self._half + (self.low + self.high) / 2


class Policy(nn.Module):
    """Observations in, chunks of actions out, by a loop as people write it."""

    def __init__(self, seen: Scale, done: Scale, widths: tuple[int, ...], scheduler: Any = None) -> None:
        super().__init__()
        self.seen, self.done, self.widths = seen, done, widths
        self.horizon, self.action_dim = HORIZON, len(done.low)
        self.unet = PolicyUNet(self.action_dim, HISTORY * len(seen.low), widths)
        self.noise_scheduler = scheduler or DDPMScheduler(num_train_timesteps=STEPS, beta_schedule="squaredcos_cap_v2")
        self.num_inference_steps = STEPS

    def conditional_sample(
        self, batch_size: int, global_cond: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        device = global_cond.device
        x = torch.randn(batch_size, self.horizon, self.action_dim, device=device, generator=generator)
        self.noise_scheduler.set_timesteps(self.num_inference_steps)
        for t in self.noise_scheduler.timesteps:
            output = self.unet(x, torch.full((batch_size,), int(t), device=device), global_cond=global_cond)
            x = self.noise_scheduler.step(output, t, x, generator=generator).prev_sample
        return x

    @torch.no_grad()
    def predict_action(self, history: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The actions to take now (m, TAKEN, action), from the last observations (m, HISTORY, entries)."""
        told = self.seen.shrink(history).flatten(1)
        chunk = self.conditional_sample(len(told), global_cond=told, generator=generator)
        return self.done.grow(chunk[:, HISTORY - 1 : HISTORY - 1 + TAKEN])

    def save(self, path: Path, told: Tensor, facts: dict[str, str]) -> None:
        """Weights in half precision, as what is trained travels; beside them what a few observations tell the network,
        for studies that have no robot."""
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {f"unet.{name}": weight.half() for name, weight in self.unet.state_dict().items()}
        for name, scale in (("seen", self.seen), ("done", self.done)):
            tensors |= {f"{name}.low": scale.low, f"{name}.high": scale.high}
        tensors["told"] = told
        facts = facts | {"widths": " ".join(map(str, self.widths))}
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path, metadata=facts)

    @classmethod
    def load(cls, path: Path, device: torch.device | str) -> Policy:
        with safe_open(path, "pt", device=str(device)) as held:
            tensors = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118 (it is no dict)
            widths = tuple(int(width) for width in held.metadata()["widths"].split())
        seen, done = (Scale(tensors[f"{name}.low"], tensors[f"{name}.high"]) for name in ("seen", "done"))
        policy = cls(seen, done, widths).to(device)
        policy.unet.load_state_dict(
            {name.removeprefix("unet."): tensor.float() for name, tensor in tensors.items() if name.startswith("unet.")}
        )
        return policy.eval()


def windows(lengths: list[int]) -> Tensor:
    """For every step of every episode, which steps its chunk of actions holds (number, HORIZON): from the first of its
    history on, the first HISTORY of them. Past the ends of an episode they are its first and its last step."""
    parts, begin = [], 0
    for length in lengths:
        at = torch.arange(length)[:, None] + torch.arange(1 - HISTORY, HORIZON - HISTORY + 1)
        parts.append(begin + at.clamp(0, length - 1))
        begin += length
    return torch.cat(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("carry/training/push.npz"))
    parser.add_argument("--out", type=Path, default=Path("out/push.safetensors"))
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop by then whatever the steps")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device(options.device)
    with np.load(options.data) as held:
        seen, done = (torch.tensor(held[name], device=device) for name in ("seen", "done"))
        rows = windows(held["lengths"].tolist()).to(device)
    policy = Policy(Scale.of(seen), Scale.of(done), tuple(options.widths)).to(device)
    seen, done = policy.seen.shrink(seen), policy.done.shrink(done)
    levels = policy.noise_scheduler.alphas_cumprod.to(device)
    average = Average(policy.unet, 0.999)
    chosen, course = optimizer(policy.unet, options.rate, 1e-6), Course(options.steps, options.seconds)

    def loss_of(told: Tensor, clean: Tensor, time: Tensor, noise: Tensor) -> Tensor:
        level = levels[time][:, None, None]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            predicted = policy.unet(level.sqrt() * clean + (1 - level).sqrt() * noise, time, told)
        return (predicted.float() - noise).square().mean()

    fast = torch.compile(loss_of, dynamic=False) if device.type == "cuda" else loss_of
    running, shown = torch.zeros((), device=device), course.began
    while course.progress < 1:
        among = rows[torch.randint(len(rows), (options.batch,), device=device)]
        told, clean = seen[among[:, :HISTORY]].flatten(1), done[among[:, :HORIZON]]
        time = torch.randint(STEPS, (len(among),), device=device)
        loss = fast(told, clean, time, torch.randn_like(clean))
        step(loss, policy.unet, chosen, options.rate * course.rate)
        average.update(policy.unet)
        running = running.lerp(loss.detach(), 0.01) if course.step else loss.detach()
        course.step += 1
        if perf_counter() - shown > 20:
            shown = perf_counter()
            print(f"{shown - course.began:.0f} s, step {course.step}: loss {running.item():.4f}", flush=True)
    policy.unet.load_state_dict(average.model.state_dict())
    facts = {"steps": str(course.step), "loss": f"{running.item():.4f}", "batch": str(options.batch)}
    some = rows[torch.randperm(len(rows), device=device)[:SHOWN]]
    policy.save(options.out, seen[some[:, :HISTORY]].flatten(1), facts)
    size, number = options.out.stat().st_size / 1e6, sum(p.numel() for p in policy.unet.parameters()) / 1e6
    print(
        f"{course.step} steps in {perf_counter() - course.began:.0f} s, loss {running.item():.4f}; "
        f"{number:.1f} million parameters, {size:.1f} MB: {options.out}"
    )


if __name__ == "__main__":
    main()
