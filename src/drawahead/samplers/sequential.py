"""One step a round: the reference every other sampler must agree with in law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from drawahead.chains.base import Answer, Paths
from drawahead.randomness import Purpose
from drawahead.rounds import Thread
from drawahead.samplers.base import Guarantee, Sampler


@final
@dataclass(frozen=True)
class Sequential(Sampler):
    """Draw each step from its target law before asking about the next. n rounds, n queries."""

    guarantee: ClassVar[Guarantee] = Guarantee(exact=True, rounds="n", reference="the chain rule")

    def run(self, paths: Paths) -> Thread:
        while len(paths):
            one = torch.ones(len(paths), dtype=torch.int64)
            answer: Answer = yield paths.ask(None, one, torch.zeros(len(paths), 1, dtype=torch.int64))
            law = answer.target
            paths.commit(law.draw(law.noise(paths.stream, Purpose.VALUE, paths.steps(1))), one)
