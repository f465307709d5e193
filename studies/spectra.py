"""A denoiser of 21-cm power spectra, from the files of the package 21cmpsdenoiser, and some of its test spectra."""

from __future__ import annotations

import argparse
import copy
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.errors import InputError
from studies.speed.place import SMALL, Place

SHAPE = (1, 32, 16)
CHOSEN = (50, 3300, 1500)  # of the 7000 test spectra, before, while and after most hydrogen is ionised


@dataclass(frozen=True)
class Emulator:
    """The network, its own sampler, and some spectra with what 21cmFAST says their mean is (all in log10, scaled)."""

    network: nn.Module
    ode: Callable[[Tensor, int], tuple[Tensor, int]]
    """(a spectrum, draws) -> normalised draws, passes."""
    spectra: Tensor  # (m, *SHAPE), normalised
    truth: Tensor  # (m, *SHAPE), log10 mK^2
    redshifts: list[float]
    kperp: list[float]
    scale: tuple[float, float]
    """log10 of a power is a + b times a normalised one."""

    def logs(self, samples: Tensor) -> Tensor:
        return self.scale[0] + self.scale[1] * samples.double().cpu()


def emulator(arguments: argparse.Namespace, place: Place) -> Emulator:
    """From the package's files; on a CPU, without them, a stand-in that shows that everything runs."""
    if arguments.package is None:
        if place.real:
            raise InputError("--package must name the folder psdenoiser of the wheel of 21cmpsdenoiser==1.0.2")
        return _stand_in()
    with np.load(arguments.package / "constants.npz") as file:
        facts = {name: float(file[name].flat[0]) for name in ("noisy_mean", "noisy_std", "mean_mean", "mean_std")}
    with np.load(arguments.spectra) as file:
        noisy, truth = (torch.as_tensor(file[name]).double() for name in ("deltasq_realisations", "true_deltasq_means"))
        redshifts, kperp = file["redshifts"].tolist(), file["kperp_over_Mpc"].tolist()
    spectra = ((noisy.log10() - facts["noisy_mean"]) / facts["noisy_std"] * 2 - 1).float().view(-1, *SHAPE)
    model, sde, sampler = (part_of(arguments.package, name) for name in ("model", "sde", "sample_pytorch"))
    network = model.UNet(dim=SHAPE[1:], channels=2, dim_mults=(1, 2, 4, 8), cdn_len=None)
    weights = torch.load(arguments.package / "denoiser_model.pt", map_location="cpu", weights_only=True)
    network.load_state_dict(weights)
    network = network.to(place.device).eval().requires_grad_(False)

    def ode(spectrum: Tensor, draws: int) -> tuple[Tensor, int]:
        process = sde.VPSDE(beta_min=0.1, beta_max=20.0)  # and its Denoiser's other settings
        made = sampler.GetODESampler(process, (draws, *SHAPE), device=place.device, denoise=True, rtol=1e-5, atol=1e-5)
        found: tuple[Tensor, int] = made.ode_sampler(network, x_cdn=spectrum.cpu(), return_nfe=True)
        return found

    scale = facts["mean_mean"] + facts["mean_std"] / 2, facts["mean_std"] / 2
    return Emulator(network, ode, spectra, truth.log10().view(-1, *SHAPE), redshifts, kperp, scale)


def part_of(package: Path, name: str) -> Any:
    """A module of a package, without any `__init__`: theirs need astropy, for units alone."""
    *folders, _ = [package.name, *name.split(".")]
    for i in range(1, len(folders) + 1):
        bare = ModuleType(".".join(folders[:i]))
        bare.__path__ = [str(package.joinpath(*folders[1:i]))]
        sys.modules.setdefault(bare.__name__, bare)
    return importlib.import_module(f"{package.name}.{name}")


class _Little(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(2, 1, 3, padding=1)
        self.time_mlp = nn.Sequential(nn.Identity())

    def forward(self, x: Tensor, time: Tensor, x_cdn: Tensor) -> Tensor:
        mixed: Tensor = self.mix(torch.cat([x, x_cdn], 1))
        return mixed * torch.cos(time / 1000).view(-1, 1, 1, 1).to(x.dtype)


def _stand_in() -> Emulator:
    torch.manual_seed(0)
    network, ramp = _Little().eval().requires_grad_(False), torch.linspace(-1, 1, 512).view(1, *SHAPE)

    def ode(spectrum: Tensor, draws: int) -> tuple[Tensor, int]:
        return spectrum + 0.1 * torch.randn(draws, *SHAPE), 1

    return Emulator(
        network, ode, torch.cat([ramp, -ramp]), torch.cat([ramp, -ramp]), [6.0, 9.0], [0.1] * 32, (0.0, 0.1)
    )


class _Timed(nn.Module):
    """The network is trained in continuous time: at t, from 0 to 1, it is told 999 t. Step k is at (k + 1) / 1000."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, k: Tensor, x_cdn: Tensor) -> Tensor:
        answer: Tensor = self.network(x, (k + 1) * 0.999, x_cdn)
        return answer


def chain(
    place: Place, model: Emulator, spectra: Tensor, *, precision: str = "float32", last: bool = False
) -> da.GaussianChain:
    """DDPM with the package's own betas, for these spectra (m, *SHAPE); `last`: its channels last in memory."""
    schedule = da.DDPM() if place.real else da.DDPM(timesteps=da.schedules.spaced(SMALL, of=1000))
    dtype: torch.dtype = getattr(torch, precision if place.real else "float32")
    network = model.network if dtype == torch.float32 else halved(model.network, dtype)
    network = network.to(memory_format=torch.channels_last) if last else network
    denoiser = da.from_epsilon(_Timed(network), schedule)
    condition = {"x_cdn": spectra.to(place.device, dtype)}
    return da.GaussianChain(denoiser, schedule, SHAPE, condition=condition, dtype=dtype, device=place.device)


def halved(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy in half precision. Its convolutions standardise their weights in every call, with another constant in half
    precision, which makes another network of it: here that is done once, in float32."""
    network = copy.deepcopy(network)
    for name, module in [*network.named_modules()]:
        if isinstance(module, nn.Conv2d) and type(module) is not nn.Conv2d:
            axes = (1, 2, 3)
            mean, spread = module.weight.mean(axes, keepdim=True), module.weight.var(axes, unbiased=False, keepdim=True)
            plain = nn.Conv2d(module.in_channels, module.out_channels, module.kernel_size, padding=module.padding)
            plain.weight, plain.bias = nn.Parameter((module.weight - mean) * (spread + 1e-5).sqrt()), module.bias
            parent, _, own = name.rpartition(".")
            setattr(network.get_submodule(parent), own, plain.requires_grad_(False))
    embedding: Any = network.to(dtype).time_mlp
    embedding[0].register_forward_hook(lambda module, inputs, output: output.to(dtype))  # times stay in float32
    return network


def shorten(whole: Path, part: Path) -> None:
    """The spectra that are used, with what belongs to them."""
    names = ("deltasq_realisations", "true_deltasq_means", "redshifts")
    with np.load(whole) as file:
        kept = {name: file[name][list(CHOSEN)] for name in names}
        np.savez(part, kperp_over_Mpc=file["kperp_over_Mpc"], kpar_over_Mpc=file["kpar_over_Mpc"], **kept)
