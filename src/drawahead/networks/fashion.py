"""The shipped image model: a DDPM of Fashion-MNIST, 28x28, trained with 1000 steps."""

from __future__ import annotations

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.networks.files import trained
from drawahead.networks.unet import UNet
from drawahead.oracles.denoisers import from_epsilon
from drawahead.schedules import DDPM, spaced
from drawahead.validate import whole

SIDE = 28
STEPS = 1000


def fashion(
    steps: int = STEPS,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> GaussianChain:
    """The image model that comes with drawahead: pictures (28, 28) of clothes, with values from -1 to 1.

    With fewer than its 1000 `steps` it visits as many timesteps, spread evenly. `dtype` is what the network computes
    in, `memory_format` how its weights are laid out; states stay in single precision.
    """
    steps = whole("steps", steps)
    network = trained(UNet(), "fashion", device, dtype)
    network.to(memory_format=memory_format)  # type: ignore[call-overload]
    schedule = DDPM(clip=1.0, timesteps=None if steps == STEPS else spaced(steps, of=STEPS))

    def predict(x: Tensor, time: Tensor) -> Tensor:
        noise: Tensor = network(x[:, None].to(dtype), time)
        return noise[:, 0]

    return GaussianChain(from_epsilon(predict, schedule), schedule, (SIDE, SIDE), device=device)
