"""Which run a job gets, and what `Auto` measures to choose its sampler."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

import torch

from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.fixed import divides
from drawahead.rounds import Executor
from drawahead.runs import EngineRun, FixedRun, Job, Run, device_of, home_of
from drawahead.samplers.auto import Auto, Choice
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential


def started(job: Job, executor: Executor, graphs: bool | None, *, split: bool) -> Run:
    """The run for a job: of fixed shape if that is wanted and possible. `split` says rounds must fit a batch size."""
    fixed = device_of(job.chain).type == "cuda" and not split if graphs is None else graphs
    fixed = fixed and FixedRun.window_of(replace(job, sampler=Sequential())) is not None
    if isinstance(job.sampler, Auto):
        bench = _FixedBench(job) if fixed else _EngineBench(job, executor)
        memory: dict[Any, Choice] = home_of(job.chain).__dict__.setdefault("_choices", {})
        sampler, reason = job.sampler.choose(bench, memory)
        job = replace(job, sampler=sampler, choice=reason, probes=bench.probes)
        if isinstance(bench, _EngineBench) and isinstance(sampler, Sequential) and bench.under_way is not None:
            bench.under_way.job = job
            return bench.under_way
        job = replace(job, probes=bench.probes + bench.abandoned())
    window = FixedRun.window_of(job) if fixed else None
    if window is None:
        if graphs:
            raise InputError(
                "graphs=True needs Sequential, or Coupled with a window (or without, on a model that answers a path in "
                f"one pass), on a token or Gaussian chain; not {job.sampler!r} on {type(job.chain).__name__}"
            )
        return EngineRun(job, executor)
    run = FixedRun(job, window)
    if graphs is None:
        try:
            run.prepare()
        except RuntimeError as error:
            note = f"rounds could not be captured: {str(error).splitlines()[0]}"
            return EngineRun(replace(job, choice=f"{job.choice}; {note}".lstrip("; ")), executor)
    return run


def _pilot(job: Job, sampler: Sampler, num_samples: int) -> Job:
    """The same job with other noise, and few samples."""
    return Job(job.chain, sampler, (job.seed + 0x9E3779B97F4A7C15) % 2**63, num_samples, num_samples)


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class _Bench(abc.ABC):
    """What `Auto` measures."""

    pilots: bool
    where: str
    """What else the times depend on."""

    def __init__(self, job: Job, live: int) -> None:
        self.job = job
        self.steps = job.chain.steps
        self.live = live
        chain = job.chain
        self.whole = isinstance(chain, TokenChain) and chain.oracle.one_pass and not chain.oracle.rereads
        self.probes = 0
        self._seconds: dict[int, float] = {}
        self._rounds: dict[int, float] = {}

    def seconds(self, window: int) -> float:
        if window not in self._seconds:
            self._seconds[window] = self._time(window)
        return self._seconds[window]

    def rounds(self, window: int) -> float:
        if window not in self._rounds:
            run = FixedRun(_pilot(self.job, Coupled(window=window), min(2, self.job.num_samples)), window)
            for _ in run.rounds():
                pass
            self._rounds[window] = run.report().mean_rounds
            self.probes += sum(run.widths)
        return self._rounds[window]

    def abandoned(self) -> int:
        """Give up what is under way of the job itself. -> the queries that were asked for it."""
        return 0

    @abc.abstractmethod
    def _time(self, window: int) -> float: ...


@final
class _FixedBench(_Bench):
    """Times rounds of fixed shape, at the number of samples that will be drawn together."""

    pilots = True
    where = "fixed"

    def __init__(self, job: Job) -> None:
        super().__init__(job, FixedRun(replace(job, sampler=Sequential()), 0).size)

    def _time(self, window: int) -> float:
        chain = self.job.chain
        if isinstance(chain, GaussianChain) and not divides(chain, window):
            return float("inf")
        sampler = Coupled(window=window) if window else Sequential()
        run = FixedRun(_pilot(self.job, sampler, self.live), window)
        batch = run.loaded(run.fresh(torch.arange(self.live)))
        length, position = batch.paths.length.tolist(), [0] * batch.rows
        times = []
        for i in range(6):
            drafted = sum(min(window, run.room(p, n)) for p, n in zip(position, length, strict=True) if p < n)
            began = time.perf_counter()
            batch.round(window, 0 if window >= self.steps - 1 else window)
            position = batch.standing()
            self.probes += run.asked(batch.rows, window, drafted)
            if i:  # the first one captures
                times.append(time.perf_counter() - began)
        return min(times)


@final
class _EngineBench(_Bench):
    """Times rounds of the engine, the sampler's own work included.

    On tokens the sequential rounds are those of the job itself: should `Sequential` be chosen, they are not lost. That
    is safe because there no choice changes a sample. On Gaussian steps it could: how long a model takes may depend on
    the state, so timing the job's own samples would let their noise, not yet spent, decide how they are drawn.
    """

    pilots = False

    def __init__(self, job: Job, executor: Executor) -> None:
        super().__init__(job, min(job.max_live, job.num_samples))
        self.executor = executor
        self.where = repr(executor)
        self.under_way: EngineRun | None = None

    def abandoned(self) -> int:
        if self.under_way is None:
            return 0
        self.under_way.close()
        return sum(self.under_way.widths)

    def _time(self, window: int) -> float:
        if not window and isinstance(self.job.chain, TokenChain):
            return self._time_own()
        run = EngineRun(_pilot(self.job, Coupled(window=window) if window else Sequential(), self.live), self.executor)
        try:
            times = [_timed(lambda: next(run.rounds(), None)) for _ in range(2)]
        finally:
            self.probes += sum(run.widths)
            run.close()
        return times[-1]

    def _time_own(self) -> float:
        run = EngineRun(replace(self.job, sampler=Sequential()), self.executor)
        try:
            times = [_timed(lambda: next(run.rounds(), None)) for _ in range(2)]
        except Exception:
            run.close()
            raise
        self.under_way = run
        return min(times)
