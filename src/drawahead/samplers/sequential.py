"""One step a round: the reference every other sampler must agree with in law."""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.base import Answer, Paths
from drawahead.randomness import Purpose
from drawahead.rounds.threads import Thread
from drawahead.samplers.base import Guarantee
from drawahead.samplers.window import Window, WindowSampler
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class Sequential(WindowSampler):
    """Draw one step per round: n rounds, n queries.

    It is the window sampler that never drafts; `run` is the same loop without what drafts would need.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(exact=True, rounds="n", reference="the chain rule")
    foresight: ClassVar[bool] = False
    window: ClassVar[int | None] = None  # type: ignore[misc]
    pipelined: ClassVar[bool] = True  # type: ignore[misc]
    drafts_from_last: ClassVar[bool] = True

    def attempt(self, rounds: Tensor) -> Tensor | int:
        return 0

    def more_noise(self, paths: Paths, target: object, steps: Tensor, rounds: Tensor) -> tuple[Tensor, Tensor]:
        none = torch.zeros(len(paths), 0, dtype=paths.stream.dtype, device=paths.device)
        return none, none

    def widest(self, steps: int) -> int:
        return 0

    def first_width(self, paths: Paths) -> Tensor:
        return torch.zeros_like(paths.length)

    def next_width(self, wish: Tensor, width: Tensor, kept: Tensor) -> Tensor:
        return torch.zeros_like(kept)

    def judge(self, window: Window) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(window.width), window.target.draw(window.noise)

    def run(self, paths: Paths) -> Thread:
        paths.remember(0)
        while len(paths):
            one = torch.ones(len(paths), dtype=torch.int64)
            answer: Answer = yield paths.ask(None, one, torch.zeros(len(paths), 1, dtype=torch.int64))
            law = answer.target
            paths.commit(law.draw(law.noise(paths.stream, Purpose.VALUE, paths.steps(1))), one)
