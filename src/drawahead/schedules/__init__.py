"""Schedules of Gaussian chains, as frozen values."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.schedules.base import Given, LearnedRange, LearnedVariance, Plan, Schedule, Spread
    from drawahead.schedules.ladder import Churn, EulerAncestral
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
        with_learned_range,
    )

__all__ = [
    "DDIM",
    "DDPM",
    "Churn",
    "EulerAncestral",
    "Given",
    "LearnedRange",
    "LearnedVariance",
    "OUExponential",
    "Plan",
    "Schedule",
    "Spread",
    "StochasticLocalization",
    "Threshold",
    "cosine_betas",
    "ddim_steps",
    "ddpm_steps",
    "linear_betas",
    "scaled_linear_betas",
    "spaced",
    "with_learned_range",
]

doors(__name__)
