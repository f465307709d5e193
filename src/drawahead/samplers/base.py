"""What every sampler is: a frozen value that turns paths into a generator of queries, and states what it guarantees."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

import torch

from drawahead.chains.base import Chain, Paths, Tally
from drawahead.errors import InputError
from drawahead.rounds.threads import Thread
from drawahead.validate import short
from drawahead.values import dataclass


@dataclass(frozen=True)
class Guarantee:
    """What a sampler guarantees, as data for tests and tables."""

    exact: bool
    """Whether the samples have the law of the sequential chain."""
    rounds: str
    """A bound on the expected number of rounds for a chain of n steps."""
    reference: str
    """Where the method comes from."""


class Sampler(abc.ABC):
    """A frozen description of how to draw. It never calls the model: it yields queries and receives answers."""

    guarantee: ClassVar[Guarantee]
    foresight: ClassVar[bool] = True
    """Whether it needs answers that say something about later steps, too."""

    @abc.abstractmethod
    def run(self, paths: Paths) -> Thread:
        """Bring every row of `paths` to its end."""

    def runs(self, paths: Paths) -> list[Thread]:
        """Threads that do so together: one, or one for each row."""
        return [self.run(paths)]

    def threads(self, chain: Chain, seed: int, samples: Sequence[int], tally: Tally) -> list[tuple[Paths, Thread]]:
        """The threads that draw these samples: one for the whole batch, unless a sampler says otherwise."""
        paths = chain.start(seed, torch.as_tensor(samples), tally)
        return [(paths, self.run(paths))]


def as_sampler(sampler: object) -> Sampler | None:
    """The sampler that an argument `sampler=` names: itself, or by its name."""
    if isinstance(sampler, str):
        from drawahead.samplers.record import named  # which knows all samplers

        return named(sampler)
    if sampler is not None and not isinstance(sampler, Sampler):  # its class, most often
        remedy = f"write {getattr(sampler, '__name__', 'Block')}()"
        raise InputError(f"sampler must be a sampler, or a name such as 'block', not {short(sampler)}: {remedy}")
    return sampler
