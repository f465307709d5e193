"""Small denoisers whose samples become statistics: the loops that science runs, and what is made of their draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers and editors see
    from drawahead.science.ladders import DPMPP2MSDE
    from drawahead.science.reverse import AnnealedLangevin, EulerMaruyama, ReverseDiffusion
    from drawahead.science.sde import SDE, VESDE, VPSDE, SubVPSDE
    from drawahead.science.second_order import DPMPPSDE, DPM2Ancestral, DPMPP2SAncestral, StochasticHeun

_HOMES = {
    name: f"science.{home}"
    for home, names in {
        "ladders": "DPMPP2MSDE",
        "reverse": "AnnealedLangevin EulerMaruyama ReverseDiffusion",
        "sde": "SDE VESDE VPSDE SubVPSDE",
        "second_order": "DPMPPSDE DPM2Ancestral DPMPP2SAncestral StochasticHeun",
    }.items()
    for name in names.split()
}

__all__ = [
    "DPMPP2MSDE",
    "DPMPPSDE",
    "SDE",
    "VESDE",
    "VPSDE",
    "AnnealedLangevin",
    "DPM2Ancestral",
    "DPMPP2SAncestral",
    "EulerMaruyama",
    "ReverseDiffusion",
    "StochasticHeun",
    "SubVPSDE",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    __getattr__ = doors(__name__, _HOMES)
