"""Picard iteration to a tolerance: fast, reproducible, and not exact.

Shih, Belkhale, Ermon, Sadigh, Anari, "Parallel sampling of diffusion models" (ParaDiGMS, arXiv 2305.16317).
"""

from __future__ import annotations

from typing import ClassVar, final

from torch import Tensor

from drawahead.chains.base import Paths
from drawahead.samplers.base import Guarantee
from drawahead.samplers.coupled import Refining
from drawahead.samplers.window import Window, leading
from drawahead.validate import number
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class Picard(Refining):
    """Refine a window of guesses until they move by less than `tolerance` (root mean square, in standard deviations).

    The same seed gives the sequential sample of that seed up to the tolerance, so it serves as a baseline and for
    "same seed, same image". Its samples do not have the law of the chain: `exact` is False. Deterministic steps are
    refined like any other, with the tolerance in absolute units.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=False, rounds="no bound", reference="parallel sampling of diffusion models, arXiv 2305.16317"
    )
    secant: ClassVar[bool] = False  # type: ignore[misc]
    keeps_guesses: ClassVar[bool] = False
    tolerance: float = 0.1
    window: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        number("tolerance", self.tolerance, least=0)

    def room(self, paths: Paths, position: Tensor) -> Tensor:
        return paths.length - position - 1

    def judge(self, window: Window) -> tuple[Tensor, Tensor]:
        close = window.verified.gap(window.draft) <= self.tolerance
        return leading(close & window.used), window.target.draw(window.noise)
