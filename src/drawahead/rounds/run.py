"""What every run keeps: the call, what is done, and what it has cost."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import field
from typing import Protocol, final

import torch
from torch import Tensor

from drawahead.chains.base import Chain, Tally
from drawahead.errors import InputError, SamplingError
from drawahead.report import History, Report
from drawahead.rounds.choosing import Choice
from drawahead.rounds.threads import Executor
from drawahead.samplers.base import Sampler
from drawahead.values import dataclass
from drawahead.words import counted

TRACED = 16  # samples whose progress the report keeps: the first ones of the call


@dataclass(frozen=True, eq=False)
class Result:
    """Samples, and the report of what they cost."""

    samples: Tensor
    """The finished samples (num_samples, ...), in the order of their numbers."""
    numbers: Tensor
    """Their numbers: first ... first+num_samples-1, with gaps only if the run was stopped early."""
    report: Report
    complete: bool = True
    """Whether these are all the samples that were asked for."""

    def __repr__(self) -> str:
        count, shape = len(self.samples), tuple(self.samples.shape[1:])
        dtype, early = str(self.samples.dtype).removeprefix("torch."), "" if self.complete else ", stopped early"
        return f"<Result: {counted(count, 'sample')} of shape {shape}, {dtype}{early}; {self.report!r}>"

    def _repr_html_(self) -> str:
        from drawahead.show.notebook import of_result  # pages look at everything: they come last

        return of_result(self)


@dataclass(frozen=True)
class Call:
    """What is to be drawn by one call of `sample`, and how."""

    chain: Chain
    sampler: Sampler
    seed: int
    num_samples: int
    max_live: int
    first: int = 0
    """The number of the first sample; the others follow it."""
    executor: Executor | None = None
    """What answers packed rounds; None: this process."""
    max_batch_size: int | None = None
    graphs: bool | None = None
    """Whether rounds must be captured, or must not be; None: as it suits the device."""
    choice: str = ""
    """What was chosen for `Auto`, and why; and what else happened to the model."""
    chosen: Choice | None = None
    """The choice itself, where there was one."""
    probes: int = 0
    """Queries that this call took to choose."""
    began: float = field(default_factory=lambda: time.perf_counter())

    @property
    def captured(self) -> bool:
        """Whether rounds are captured, if the sampler draws in windows and the model can be."""
        splits = self.executor is not None or self.max_batch_size is not None
        return self.chain.device.type == "cuda" and not splits if self.graphs is None else self.graphs


class NotCaptured(Exception):
    """The model does something that a graph cannot hold."""


class ModelChanged(Exception):
    """Rounds of another model were replayed. They are dropped, and nobody has seen anything of them: begin again."""


class Stop(Protocol):
    """A request to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


@final
@dataclass(frozen=True)
class Watch:
    """Who looks between rounds."""

    on_round: Callable[[Report], None] | None = None
    stop: Stop | None = None
    hurry: Stop | None = None

    @property
    def stops(self) -> bool:
        return self.stop is not None and self.stop.is_set()


class Run(abc.ABC):
    """The state of one call."""

    watched = True
    """Whether somebody may stop between rounds, or change how it goes on."""

    reported = True
    """Whether somebody is told after each round what it came to."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.began = time.perf_counter()
        self.tally = Tally()
        try:
            self.values = call.chain.empty(call.num_samples)
        except (RuntimeError, TypeError, MemoryError) as error:
            raise InputError(
                f"{call.num_samples} samples do not fit into memory: draw fewer at a time ({str(error)[:200]})"
            ) from None
        self.finished: list[tuple[Tensor, int]] = []  # numbers of samples that ended together, rounds they took
        self.round_count = self.passes = 0
        self.widths: list[int] = []  # of each round, as the next three
        self.committed: list[int] = []
        self.drafts: list[int] = []
        self.kept: list[int] = []
        self.progress: dict[int, list[int]] = {}
        self.done = 0
        self.oracle_seconds = 0.0
        self.rounds: Generator[Callable[[], Report]] = self._rounds()
        """Yields, after every round, a function that makes the report so far."""

    @abc.abstractmethod
    def _rounds(self) -> Generator[Callable[[], Report]]: ...

    @abc.abstractmethod
    def close(self) -> None:
        """Abandon everything still running."""

    def drive(self, watch: Watch) -> None:
        """Go on to the end, unless it is stopped."""
        self.reported = watch.on_round is not None
        self.watched = watch.stop is not None or watch.hurry is not None
        try:
            with closing(self.rounds) as rounds:
                for report in rounds:
                    if watch.on_round is not None:
                        watch.on_round(report())
                    if watch.stops:
                        return
                    if watch.hurry is not None and watch.hurry.is_set():
                        self.tally.hurried = True  # drafts are taken as they are from now on
        except Exception as error:
            if isinstance(error, ModelChanged) or (isinstance(error, NotCaptured) and not self.round_count):
                raise
            raise SamplingError(
                f"sampling stopped in round {self.round_count} with {self.done} of {self.call.num_samples} samples "
                f"finished (they are in .result): {error}",
                self.result(),
            ) from error

    def finish(self, numbers: Tensor, lengths: Tensor, values: Tensor, rounds: int) -> None:
        """Note that these samples are done, in so many rounds."""
        places = (numbers - self.call.first).tolist()
        if places and places == [*range(places[0], places[0] + len(places))]:
            self.values[places[0] : places[-1] + 1] = values
        else:  # which starts no threads for a few rows, as an index does
            self.values.index_copy_(0, numbers - self.call.first, values.to(self.values))
        self.finished.append((numbers, rounds))
        self.done += len(numbers)
        for number, length in zip(numbers.tolist(), lengths.tolist(), strict=True):
            if length:
                self.trace(number, length)

    def begin(self, numbers: Sequence[int]) -> None:
        """Note that these samples begin."""
        last = self.call.first + TRACED
        self.progress.update({number: [0] for number in numbers if number < last})

    def trace(self, number: int, position: int) -> None:
        """Note how far a sample has come, if it is one of the first few."""
        if number < self.call.first + TRACED:
            self.progress[number].append(position)

    def count(self, committed: int, drafted: int, accepted: int) -> None:
        """Note what a round has come to."""
        self.committed.append(committed)
        self.drafts.append(drafted)
        self.kept.append(accepted)

    def result(self) -> Result:
        """What is done by now."""
        numbers = torch.cat([torch.zeros(0, dtype=torch.int64), *(numbers for numbers, _ in self.finished)]).sort()[0]
        self.done = len(numbers)  # Ctrl-C may have come before this was counted
        complete = self.done == self.call.num_samples
        samples = self.values if complete else self.values[numbers - self.call.first]
        return Result(samples, numbers, self.report(), complete)

    def report(self) -> Report:
        """What the run has cost up to now; quick to make however many rounds there were."""
        call, tally = self.call, self.tally
        haste = f"hurried: {tally.unverified} steps were taken from drafts that nothing verified"
        return Report(
            sampler=repr(call.sampler),
            choice="; ".join(filter(None, (call.choice, call.chain.note, haste if tally.unverified else ""))),
            exact=call.sampler.guarantee.exact and not tally.unverified,
            seed=call.seed,
            num_samples=self.done,
            steps=call.chain.steps,
            rounds=self.round_count,
            passes=self.passes,
            probes=call.probes,
            drafted=tally.drafted,
            accepted=tally.accepted,
            candidates=tally.candidates,
            seconds=time.perf_counter() - call.began,
            oracle_seconds=self.oracle_seconds,
            history=History(self.widths, self.committed, self.drafts, self.kept, self.finished, self.progress),
        )


def device_error(error: BaseException | None) -> str | None:
    """What the device itself said, in a line, if it failed: nothing can be computed on it afterwards."""
    while error is not None:
        if isinstance(error, torch.AcceleratorError) or str(error).startswith("CUDA error"):
            return str(error).splitlines()[0]
        error = error.__cause__ or error.__context__
    return None
