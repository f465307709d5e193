"""Schedules of Gaussian chains, as frozen values."""

from drawahead.schedules.ancestral import EulerAncestral
from drawahead.schedules.base import Plan, Schedule
from drawahead.schedules.given import Given
from drawahead.schedules.localization import StochasticLocalization
from drawahead.schedules.ou import OUExponential
from drawahead.schedules.variance_preserving import (
    DDIM,
    DDPM,
    Threshold,
    cosine_betas,
    ddim_steps,
    ddpm_steps,
    linear_betas,
    scaled_linear_betas,
    spaced,
)

__all__ = [
    "DDIM",
    "DDPM",
    "EulerAncestral",
    "Given",
    "OUExponential",
    "Plan",
    "Schedule",
    "StochasticLocalization",
    "Threshold",
    "cosine_betas",
    "ddim_steps",
    "ddpm_steps",
    "linear_betas",
    "scaled_linear_betas",
    "spaced",
]
