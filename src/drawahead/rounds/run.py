"""What every run keeps: the call, what is done, and what it has cost."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from drawahead.chains.base import Chain, Tally
from drawahead.errors import InputError
from drawahead.history import History
from drawahead.report import Report
from drawahead.rounds.choosing import Choice
from drawahead.samplers.base import Sampler

TRACED = 16  # samples whose progress the report keeps: the first ones of the call


@dataclass(frozen=True)
class Call:
    """What is to be drawn by one call of `sample`."""

    chain: Chain
    sampler: Sampler
    seed: int
    num_samples: int
    max_live: int
    first: int = 0
    """The number of the first sample; the others follow it."""
    choice: str = ""
    """What `Auto` chose, and why."""
    probes: int = 0
    """Queries it took to choose."""
    chosen: Choice | None = None
    """The choice itself."""
    began: float = field(default_factory=lambda: time.perf_counter())


class Run(abc.ABC):
    """The state of one call."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.began = time.perf_counter()
        self.tally = Tally()
        try:
            self.values = call.chain.empty(call.num_samples)
        except (RuntimeError, TypeError, MemoryError) as error:
            raise InputError(f"there is no memory for {call.num_samples} samples: {str(error)[:200]}") from None
        self.finished: list[
            tuple[Tensor, Tensor | int]
        ] = []  # numbers of samples that ended together, rounds they took
        self.committed: list[int] = []
        self.drafts: list[int] = []
        self.kept: list[int] = []
        self.progress: dict[int, list[int]] = {}
        self.done = 0
        self.oracle_seconds = 0.0

    watched = True
    """Whether somebody looks between rounds, and may stop there or change how it goes on."""
    round_count: int
    widths: list[int]
    passes: int
    rereads: int

    @abc.abstractmethod
    def rounds(self) -> Generator[Callable[[], Report]]:
        """Yields, after every round, a function that makes the report so far."""

    def hurry(self) -> None:
        """Take drafts as they are from now on, so that every sample ends within a few rounds; not exact."""
        self.tally.hurried = True

    @abc.abstractmethod
    def close(self) -> None:
        """Abandon everything still running."""

    def finish(self, numbers: Tensor, lengths: Tensor, values: Tensor, rounds: int) -> None:
        """Note that these samples are done, in so many rounds."""
        places = (numbers - self.call.first).tolist()
        in_order = places == [*range(places[0], places[0] + len(places))] if places else False
        if in_order:
            self.values[places[0] : places[-1] + 1] = values
        else:  # which starts no threads for a few rows, as an index does
            self.values.index_copy_(0, numbers - self.call.first, values.to(self.values))
        self.finished.append((numbers, rounds))
        self.done += len(numbers)
        for place, length in zip(places, lengths.tolist(), strict=True):
            if place < TRACED and length:
                self.progress[place + self.call.first].append(length)

    def begin(self, numbers: Sequence[int]) -> None:
        last = self.call.first + TRACED
        self.progress.update({number: [0] for number in numbers if number < last})

    def traced(self, number: int) -> bool:
        """Whether the report keeps the progress of this sample."""
        return number < self.call.first + TRACED

    def numbers(self) -> Tensor:
        """The numbers of the samples that are done, in order."""
        return torch.cat([torch.zeros(0, dtype=torch.int64), *(numbers for numbers, _ in self.finished)]).sort().values

    @property
    def _haste(self) -> str:
        taken = self.tally.unverified
        return f"hurried: {taken} steps were taken from drafts that nothing verified" if taken else ""

    def report(self) -> Report:
        """What the run has cost up to now; quick to make however many rounds there were."""
        return Report(
            sampler=repr(self.call.sampler),
            choice="; ".join(filter(None, (self.call.choice, self.call.chain.note, self._haste))),
            exact=self.call.sampler.guarantee.exact and not self.tally.unverified,
            seed=self.call.seed,
            num_samples=self.done,
            steps=self.call.chain.steps,
            rounds=self.round_count,
            passes=self.passes,
            probes=self.call.probes,
            rereads=self.rereads,
            drafted=self.tally.drafted,
            accepted=self.tally.accepted,
            candidates=self.tally.candidates,
            seconds=time.perf_counter() - self.call.began,
            oracle_seconds=self.oracle_seconds,
            history=History(self.widths, self.committed, self.drafts, self.kept, self.finished, self.progress),
        )
