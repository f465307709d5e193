"""Few-step solvers of the probability flow as plans of a Gaussian chain without noise: DDIM and DPM-Solver++ (2M).

DDIM: Song et al. (arXiv 2010.02502). DPM-Solver++: Lu et al. (arXiv 2211.01095), second order, multistep. Timesteps are
spread evenly from the noisiest ("trailing"), or the levels are those of Karras et al. (arXiv 2206.00364).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drawahead.schedules import Plan, linear_betas

RHO = 7.0


def ddim(steps: int, betas: tuple[float, ...] = linear_betas()) -> Plan:
    """First order."""
    time, signal, noise = trailing(steps, betas)
    a = noise[1:] / noise[:-1]
    return Plan(a, signal[1:] - a * signal[:-1], torch.zeros_like(a), signal, noise, time, start=1.0)


def dpm(steps: int, betas: tuple[float, ...] = linear_betas(), *, karras: bool = False) -> Plan:
    """Second order, from the prediction of the step before; the first and the last step are of first order."""
    time, signal, noise = (karras_levels if karras else trailing)(steps, betas)
    a = noise[1:] / noise[:-1]
    whole = signal[1:] - a * signal[:-1]  # what multiplies the prediction in all
    log_snr = (signal / noise).log()  # infinite at the end
    width = log_snr[1:] - log_snr[:-1]
    share = torch.zeros_like(a)
    share[1:] = width[1:] / (2 * width[:-1])
    share[-1] = 0.0
    return Plan(
        a, whole * (1 + share), torch.zeros_like(a), signal, noise, time, start=float(noise[0]), c=-whole * share
    )


def trailing(steps: int, betas: tuple[float, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Timesteps (steps,), and signal and noise before each step and after the last (steps + 1,)."""
    level = torch.cumprod(1 - torch.tensor(betas, dtype=torch.float64), 0)
    time = torch.arange(len(betas), 0, -len(betas) / steps).round().long()[:steps] - 1
    kept = torch.cat([level[time], torch.ones(1, dtype=torch.float64)])
    return time, kept.sqrt(), (1 - kept).sqrt()


def karras_levels(steps: int, betas: tuple[float, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """The same with noise-to-signal ratios that fall as Karras' do, between those of the first and last timestep."""
    level = torch.cumprod(1 - torch.tensor(betas, dtype=torch.float64), 0)
    ratio = ((1 - level) / level).sqrt()
    most, least = ratio[-1] ** (1 / RHO), ratio[0] ** (1 / RHO)
    sigma = (most + torch.linspace(0, 1, steps, dtype=torch.float64) * (least - most)) ** RHO
    time = between(sigma.log(), ratio.log())
    kept = torch.cat([1 / (1 + sigma**2), torch.ones(1, dtype=torch.float64)])
    return time, kept.sqrt(), (1 - kept).sqrt()


def between(values: Tensor, table: Tensor) -> Tensor:
    """Where `values` lie in a rising table, as fractional indices."""
    low = (torch.searchsorted(table, values, right=True) - 1).clamp(0, len(table) - 2)
    return low + ((values - table[low]) / (table[low + 1] - table[low])).clamp(0, 1)


SOLVERS: dict[str, Callable[[int], Plan]] = {
    "DDIM": ddim,
    "DPM-Solver++ (2M)": dpm,
    "DPM-Solver++ (2M), Karras levels": lambda steps: dpm(steps, karras=True),
}
