"""Training: all parts at once, each with the clean ones before it."""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

from drawahead.ardiffusion import checkpoints
from drawahead.ardiffusion.checkpoints import Checkpoint
from drawahead.ardiffusion.config import ModelConfig, Training
from drawahead.ardiffusion.model import ARModel
from drawahead.errors import InputError
from drawahead.randomness import philox
from drawahead.validate import as_device
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class Progress:
    """Where a training stands. `loss` is the mean over the last block of steps."""

    step: int
    steps: int
    loss: float
    seconds: float
    """Since this call began."""


@final
@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model, ready to draw from, and how it was trained."""

    model: ARModel
    losses: list[tuple[int, float]]
    """The number of steps, and the mean loss of the block that ends there."""
    seconds: float
    """Of this call: a resumed training took longer."""


def train(
    config: ModelConfig,
    data: Tensor,
    *,
    training: Training = Training(),  # noqa: B008  (a frozen value)
    out: str | Path | None = None,
    device: torch.device | str = "cpu",
    on_progress: Callable[[Progress], None] | None = None,
) -> Trained:
    """Train a model on `data` (number, *config.parts.shape).

    With `out`, a folder is kept up to date as `checkpoints` says, and a training that stopped there goes on: on the
    same device the outcome is the same, to the last bit, as without the stop. A folder with another configuration or
    other data is refused. `on_progress` is called after every block.
    """
    clean = _checked(config, data).to(as_device("device", device))
    run = _Run(config, training, clean)
    folder = None if out is None else Path(out)
    checkpoint = None if folder is None else checkpoints.read(folder)
    if checkpoint is not None:
        differ = ["config"] * (checkpoint.config != config)
        differ += [name for name, value in run.facts.items() if checkpoint.facts.get(name) != value]
        if differ:
            raise InputError(f"{folder} holds a training with another {' and '.join(differ)}: use another folder")
        try:
            run.restore(checkpoint)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{folder} is damaged ({error!r:.200}): train again into an empty folder") from None
    began = time.perf_counter()
    saved = run.step
    while run.step < training.steps:
        mean = run.block()
        if not math.isfinite(mean):
            held = "" if folder is None else f"; {folder} holds the state after step {saved}"
            raise InputError(f"the loss is not finite near step {run.step}{held}: lower the rate, or check the data")
        if folder is not None and (run.step - saved >= training.save_every or run.step == training.steps):
            checkpoints.write(folder, run.checkpoint())
            saved = run.step
        if on_progress is not None:
            on_progress(Progress(run.step, training.steps, mean, time.perf_counter() - began))
    return Trained(run.average, run.losses, time.perf_counter() - began)


class _Run:
    """A training under way."""

    def __init__(self, config: ModelConfig, training: Training, clean: Tensor) -> None:
        self.training, self.clean = training, clean
        self.facts = {"training": asdict(training), "data": hashlib.sha256(clean.cpu().numpy().tobytes()).hexdigest()}
        self.model = ARModel(config, seed=training.seed).to(clean.device)
        self.average = copy.deepcopy(self.model).eval().requires_grad_(False)
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": training.decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=training.rate, betas=(0.9, 0.98))
        self.step = 0
        self.losses: list[tuple[int, float]] = []

    def block(self) -> float:
        """Train to the end of the block. -> the mean loss of its steps."""
        total, first = torch.zeros((), device=self.clean.device), self.step
        while self.step < self.training.steps and (self.step == first or self.step % self.training.block):
            total += self._one()
        mean = float(total) / (self.step - first)
        self.losses.append((self.step, mean))
        return mean

    def _one(self) -> Tensor:
        plan, device = self.training, self.clean.device
        source = generator(plan.seed, self.step, device)
        rows = torch.randint(len(self.clean), (plan.batch,), generator=source, device=device)
        value = loss(self.model, self.clean[rows], source)
        for group in self.optimizer.param_groups:
            group["lr"] = plan.rate_at(self.step)
        value.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), plan.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        # Short averages at first: the weights it begins with are of no use.
        keep = min(plan.average, self.step / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1 - keep)
        return value.detach()

    def checkpoint(self) -> Checkpoint:
        groups = {"average": self.average.state_dict(), "model": self.model.state_dict()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            groups[f"optimizer/{number}"] = moments
        weights = {f"{group}/{name}": each for group, own in groups.items() for name, each in own.items()}
        weights = {name: each.detach().cpu().contiguous() for name, each in weights.items()}
        return Checkpoint(self.model.config, self.step, {**self.facts, "losses": self.losses}, weights)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.step = checkpoint.step
        self.losses = [(int(step), float(loss)) for step, loss in checkpoint.facts["losses"]]
        self.model.load_state_dict(checkpoint.part("model"))
        self.average.load_state_dict(checkpoint.part("average"))
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in checkpoint.part("optimizer").items():
            number, _, name = key.partition("/")
            state.setdefault(int(number), {})[name] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})


def _checked(config: ModelConfig, data: Tensor) -> Tensor:
    """The data in parts, in single precision."""
    if not data.dim() or data.is_complex() or len(data) == 0:
        raise InputError("data must be real numbers, with at least one row")
    if not bool(data.isfinite().all()):
        raise InputError("data must be finite numbers")
    return config.parts.split(data).float().contiguous()


_MASK = 0xFFFFFFFF


def generator(seed: int, step: int, device: torch.device) -> torch.Generator:
    """The randomness of one training step, by its address: what came before does not matter."""
    words = philox(seed & _MASK, (seed >> 32) & _MASK, step & _MASK, step >> 32, 0, 0)
    return torch.Generator(device).manual_seed(words[0] << 31 | words[1] >> 1)


def loss(model: ARModel, clean: Tensor, source: torch.Generator) -> Tensor:
    """The mean square error of the velocities of parts (m, K, d), averaged over levels.

    A level is an angle a, uniform: signal = cos a, noise = sin a, between the levels of the configuration.
    """
    least, most = (math.atan(math.exp(-level / 2)) for level in reversed(model.config.levels))
    uniform = torch.rand(clean.shape[:2], generator=source, device=clean.device, dtype=clean.dtype)
    angle = least + (most - least) * uniform
    epsilon = torch.randn(clean.shape, generator=source, device=clean.device, dtype=clean.dtype)
    signal, noise = angle.cos()[..., None], angle.sin()[..., None]
    velocity = model(signal * clean + noise * epsilon, clean, -2 * angle.tan().log())
    error: Tensor = velocity - (signal * epsilon - noise * clean)
    return error.square().mean()
