"""The random samplers of k-diffusion, by their names or by their schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.errors import InputError
from drawahead.oracles.condition import Condition
from drawahead.oracles.denoisers import from_data_prediction
from drawahead.schedules import EulerAncestral, Schedule
from drawahead.science.ladders import DPMPP2MSDE, checked
from drawahead.science.second_order import DPMPPSDE, DPM2Ancestral, DPMPP2SAncestral, Model, StochasticHeun, Twice
from drawahead.validate import instance, short
from drawahead.words import guess

SAMPLERS: dict[str, Callable[[tuple[float, ...]], Schedule]] = {
    "euler_ancestral": EulerAncestral,
    "dpmpp_2m_sde": DPMPP2MSDE,
    "dpmpp_sde": DPMPPSDE,
    "dpm_2_ancestral": DPM2Ancestral,
    "dpmpp_2s_ancestral": DPMPP2SAncestral,
    "heun": StochasticHeun,
}
"""By the names of k-diffusion's functions, less their `sample_`."""


def from_k_diffusion(
    model: Model,
    schedule: Schedule | str,
    shape: Sequence[int],
    sigmas: Sequence[float] | None = None,
    *,
    condition: Condition = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> GaussianChain | StackedChain:
    """A k-diffusion loop: `model(x, sigma, **condition)` predicts the data, as its wrappers do.

    schedule: such as `da.science.DPMPPSDE(sigmas)`; or the name of a `sample_` function, with `sigmas`.
    """
    if isinstance(schedule, str):
        name = schedule.removeprefix("sample_")
        if name not in SAMPLERS:
            near = guess(name, list(SAMPLERS))
            raise InputError(
                f"there is no random sampler {short(schedule)}; "
                + (f"did you mean {near!r}?" if near else f"there are {', '.join(SAMPLERS)}")
            )
        if sigmas is None:
            raise InputError(f"{name} needs sigmas=, such as k_diffusion.sampling.get_sigmas_karras gives")
        schedule = SAMPLERS[name](checked(sigmas))
    instance("schedule", schedule, Schedule, "a schedule such as da.science.DPMPPSDE(sigmas), or a name")
    if not callable(model):
        raise InputError(f"model must be a callable (x, sigma), not {short(model)}")
    settings: dict[str, Any] = {"condition": condition, "dtype": dtype, "device": device}
    if isinstance(schedule, DPMPPSDE):
        return schedule.chain(model, shape, **settings)
    denoiser = schedule.denoiser(model) if isinstance(schedule, Twice) else from_data_prediction(model, schedule)
    return GaussianChain(denoiser, schedule, shape, **settings)
