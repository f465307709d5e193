"""A few samples drawn again, to see where they stood after every round: sample i of a seed and sampler is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from drawahead.chains import Chain
from drawahead.chains.base import Paths, Tally
from drawahead.chains.tokens import TokenPaths
from drawahead.executors import Local
from drawahead.oracles.tokens import HIDDEN
from drawahead.rounds.threads import Engine
from drawahead.samplers import Sampler, Separated


@final
@dataclass
class Replay:
    """Samples drawn again, by number."""

    progress: dict[int, list[int]] = field(default_factory=dict)
    """Steps committed after each round, from 0 on."""
    values: dict[int, Tensor] = field(default_factory=dict)
    """The finished sample."""
    settled: dict[int, Tensor] = field(default_factory=dict)
    """Of tokens that `Separated` draws: the round after which each position is known (n,)."""


def replay(chain: Chain, sampler: Sampler, seed: int, numbers: Sequence[int]) -> Replay:
    """Draw these samples again."""
    engine, seen = Engine(Local()), Replay({number: [0] for number in numbers})
    with torch.no_grad():
        started = sampler.threads(chain, seed, list(numbers), Tally())
        try:
            for paths, thread in started:
                if isinstance(sampler, Separated) and isinstance(paths, TokenPaths):
                    _hide(paths, seen)
                engine.spawn(thread)
            while not engine.idle:
                engine.round()
                for paths, _ in started:
                    _look(paths, engine.rounds, seen)
        finally:
            engine.close()
    return seen


def _hide(paths: TokenPaths, seen: Replay) -> None:
    """What is not known yet is marked, so that it can be told when it is. `Separated` reads none of it."""
    paths.tokens = torch.where(paths.rank < 0, paths.tokens, HIDDEN)
    for number, rank in zip(paths.sample.tolist(), paths.rank.cpu(), strict=True):
        seen.settled[number] = torch.where(rank < 0, 0, -1)


def _look(paths: Paths, rounds: int, seen: Replay) -> None:
    """Note where the rows of these paths stand after a round."""
    for row, number in enumerate(paths.sample.tolist()):
        seen.progress[number].append(int(paths.position[row]))
        if number in seen.settled and isinstance(paths, TokenPaths):
            new = (paths.tokens[row].cpu() != HIDDEN) & (seen.settled[number] < 0)
            seen.settled[number][new] = rounds
    for numbers, lengths, values in paths.finished:
        for number, length, value in zip(numbers.tolist(), lengths.tolist(), values, strict=True):
            if number in seen.values:
                continue
            seen.values[number] = value
            if length:
                seen.progress[number].append(length)
            if number in seen.settled:
                seen.settled[number][seen.settled[number] < 0] = rounds
