"""Small denoisers whose samples become statistics: the loops that science runs, and what is made of their draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers and editors see
    from drawahead.science.sde import SDE, VESDE, VPSDE, AnnealedLangevin, EulerMaruyama, ReverseDiffusion, SubVPSDE

_HOMES = {
    name: f"science.{home}"
    for home, names in {
        "sde": "SDE VESDE VPSDE AnnealedLangevin EulerMaruyama ReverseDiffusion SubVPSDE",
    }.items()
    for name in names.split()
}

__all__ = ["SDE", "VESDE", "VPSDE", "AnnealedLangevin", "EulerMaruyama", "ReverseDiffusion", "SubVPSDE"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    __getattr__ = doors(__name__, _HOMES)
