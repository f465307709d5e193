"""Sampling loops used in science, and statistics of their samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.science.k_diffusion import (
        DPMPP2MSDE,
        DPMPPSDE,
        DPM2Ancestral,
        DPMPP2SAncestral,
        StochasticHeun,
    )
    from drawahead.science.langevin import Langevin
    from drawahead.science.measurements import posterior
    from drawahead.science.reverse import AnnealedLangevin, EulerMaruyama, ReverseDiffusion
    from drawahead.science.rows import repeated
    from drawahead.science.sde import SDE, VESDE, VPSDE, SubVPSDE
    from drawahead.science.statistics import Draws, Summary, summary
    from drawahead.science.stopping import Estimate, until

__all__ = [
    "DPMPP2MSDE",
    "DPMPPSDE",
    "SDE",
    "VESDE",
    "VPSDE",
    "AnnealedLangevin",
    "DPM2Ancestral",
    "DPMPP2SAncestral",
    "Draws",
    "Estimate",
    "EulerMaruyama",
    "Langevin",
    "ReverseDiffusion",
    "StochasticHeun",
    "SubVPSDE",
    "Summary",
    "posterior",
    "repeated",
    "summary",
    "until",
]

doors(__name__)
