"""Fixed-point iteration with noise that persists: Jacobi on tokens, Picard on Gaussian steps, both exact.

Every step's noise is fixed once. A round evaluates the window along the current guesses, commits the part on which
guess and target agree, corrects the first disagreement, and redraws all later guesses from the new answers with the
same noise. On tokens this is the universal coupler of "Parallel sampling via counting" (Anari, Gao, Rubinstein, STOC
2024) run on the whole window: the output is the sequential one, token for token.
"""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.base import Answer, Paths
from drawahead.laws import Law
from drawahead.randomness import Purpose
from drawahead.rounds.threads import Thread
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.samplers.window import Window, WindowSampler
from drawahead.validate import number
from drawahead.values import dataclass

_TRIAL = 6  # rounds before a sample may give up speculation


class Refining(WindowSampler):
    """A window sampler whose noise persists and whose drafts are each step's newest answer."""

    foresight: ClassVar[bool] = False
    pipelined: ClassVar[bool] = True  # type: ignore[misc]
    drafts_from_last: ClassVar[bool] = True
    running: ClassVar[tuple[float, float]] = (0.5, 2.5)  # of five times it: most of a window is still being refined
    secant: bool

    def attempt(self, rounds: Tensor) -> Tensor | int:
        return 0

    def more_noise(self, paths: Paths, target: Law, steps: Tensor, rounds: Tensor) -> tuple[Tensor, Tensor]:
        """Corrections come from the persistent noise, and laws that couple alone need no uniforms either."""
        none = torch.zeros(len(paths), 0, dtype=paths.stream.dtype, device=paths.device)
        return (none if target.couples_alone else paths.stream.uniform(Purpose.ACCEPT, steps)), none

    def redraft(self, answer: Answer, draft: Law, width: Tensor, kept: Tensor, columns: int, beyond: int) -> Law:
        """Each step's newest answer: its own where the window had one, else the window's last."""
        column = kept[:, None] + torch.arange(1, columns + 1, device=kept.device)
        return answer.newest(column, width, beyond, draft if self.secant else None)

    def first_width(self, paths: Paths) -> Tensor:
        if self.window is None and paths.one_pass:
            return paths.length
        return self._fixed_or(16.0, paths)


@final
@dataclass(frozen=True)
class Coupled(Refining):
    """Refine a window of guesses until it agrees with its own answers.

    `window` is the number of steps under refinement (None adapts it to what was committed, or takes all that is left
    where one pass answers a whole path). On Gaussian steps agreement is decided by reflection coupling, so that the
    output has the law of the chain whatever the guesses.

    A sample that has committed fewer than `least` steps per round, on average, goes on one step at a time: there
    speculation does not pay.

    With `secant`, the prediction for a Gaussian step is extrapolated from the state of its last answer to the current
    state, along the secant through its last two answers: a quasi-Newton iteration instead of Picard's. Like any draft
    it depends only on noise before its step.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="O~(n^(2/3))", reference="parallel sampling via counting, STOC 2024"
    )
    window: int | None = None
    secant: bool = True
    least: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        number("least", self.least, least=0)

    def pays(self, position: Tensor, rounds: Tensor) -> Tensor | None:
        return None if not self.least else (rounds < _TRIAL) | (position >= self.least * (rounds - 1))

    def judge(self, window: Window) -> tuple[Tensor, Tensor]:
        values, kept = window.target.refined(window.draft, window.guess, window.noise, window.uniform, window.width)
        return kept, values


@final
@dataclass(frozen=True)
class Auto(Sampler):
    """Chooses between `Sequential` and `Coupled` and its window, by timing a few rounds; the report says what and why.

    A runner chooses once for each number of samples drawn together, from timings and from pilot samples on noise of
    their own, never from the samples it returns. So the choice changes no distribution, and equal calls of one runner
    give equal samples. To draw the same samples of a diffusion elsewhere, name the sampler that the report names, or
    the one that `drawahead.tune` returns.
    """

    foresight: ClassVar[bool] = False
    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="n at most", reference="Sequential or Coupled, by measurement"
    )

    def run(self, paths: Paths) -> Thread:
        return Coupled().run(paths)
