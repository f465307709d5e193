"""The model: an encoder of finished parts, and a denoiser of the next one."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn

from drawahead.ardiffusion import networks
from drawahead.ardiffusion.config import ModelConfig
from drawahead.ardiffusion.networks import ConditionalDenoiser
from drawahead.ardiffusion.parts import Parts
from drawahead.validate import whole


@final
class ARModel(nn.Module):
    """Auto-regressive diffusion. With one part and no encoder it is an ordinary diffusion model.

    Data should be centred and of about unit size. A new model's weights depend on its `seed` alone.
    """

    def __init__(self, config: ModelConfig, *, seed: int = 0) -> None:
        super().__init__()
        seed = whole("seed", seed, -(2**63), 2**64 - 1)
        self.config = config
        with torch.random.fork_rng(devices=[]):  # networks start from the global generator: it is put back as it was
            torch.default_generator.manual_seed(seed)
            self.encoder = None if config.encoder is None else networks.build(config.encoder, config.parts)
            self.denoiser = ConditionalDenoiser(config)

    @property
    def parts(self) -> Parts:
        return self.config.parts

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(p.numel() for p in self.parameters())

    def forward(self, noisy: Tensor, clean: Tensor, log_snr: Tensor) -> Tensor:
        """Velocities (m, K, d) of all noisy parts, each with the clean parts before it: teacher forcing.

        `noisy` and `clean` are (m, K, d), `log_snr` (m, K), a level for each part.
        """
        m, number, size = clean.shape
        condition = None if self.encoder is None else self.encoder(clean).flatten(0, 1)
        part = torch.arange(number, device=clean.device).repeat(m)
        velocity: Tensor = self.denoiser(noisy.reshape(-1, size), log_snr.reshape(-1), condition, part)
        return velocity.view(m, number, size)

    def mean(self, state: Tensor, part: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
        """See `Conditionals.mean`. Any scale of signal and noise will do: the network sees signal^2 + noise^2 = 1."""
        weight = next(self.parameters())
        size = torch.hypot(signal, noise).double()
        cosine, sine = (signal / size)[:, None], (noise / size)[:, None]
        own = state[torch.arange(len(part), device=part.device), part] / size[:, None]
        finished = state.to(weight.dtype)
        condition = None if self.encoder is None else self.encoder.at(finished, part)
        log_snr = (2 * (cosine / sine).log()[:, 0]).clamp(*self.config.levels)
        velocity: Tensor = self.denoiser(own.to(weight.dtype), log_snr.to(weight.dtype), condition, part)
        return cosine * own - sine * velocity.double()
