"""What is learned: the velocity of every part, at noise of its own, given the clean parts before it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drawahead.ardiffusion.model import ARModel
from drawahead.randomness import philox

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
