"""Which run a call gets, and what `Auto` measures to choose its sampler."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

import torch

from drawahead.chains.base import Chain
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.rounds import Executor
from drawahead.runs import Call, EngineRun, FixedRun, Run, device_of, home_of
from drawahead.samplers.auto import Auto, Choice
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential

PILOTS = 3
"""Samples drawn, and thrown away, to see how many rounds a window takes: one alone may be far from the mean."""


def started(call: Call, executor: Executor, graphs: bool | None, *, split: bool) -> Run:
    """The run for a call: of fixed shape if that is wanted and possible. `split` says rounds must fit a batch size."""
    fixed = device_of(call.chain).type == "cuda" and not split if graphs is None else graphs
    fixed = fixed and FixedRun.window_of(replace(call, sampler=Sequential())) is not None
    if isinstance(call.sampler, Auto):
        bench = _FixedBench(call) if fixed else _EngineBench(call, executor)
        memory: dict[Any, Choice] = home_of(call.chain).__dict__.setdefault("_choices", {})
        sampler, reason = call.sampler.choose(bench, memory)
        call = replace(call, sampler=sampler, choice=reason, probes=bench.probes)
        if isinstance(bench, _EngineBench) and isinstance(sampler, Sequential) and bench.under_way is not None:
            bench.under_way.call = call
            return bench.under_way
        call = replace(call, probes=bench.probes + bench.abandoned())
    window = FixedRun.window_of(call) if fixed else None
    if window is None:
        if graphs:
            raise InputError(
                "graphs=True needs Sequential, or Coupled with a window (or without, on a model that answers a path in "
                f"one pass), on a token or Gaussian chain; not {call.sampler!r} on {type(call.chain).__name__}"
            )
        return EngineRun(call, executor)
    run = FixedRun(call, window)
    if graphs is None:
        try:
            run.prepare()
        except RuntimeError as error:
            note = f"rounds could not be captured: {str(error).splitlines()[0]}"
            return EngineRun(replace(call, choice=f"{call.choice}; {note}".lstrip("; ")), executor)
    return run


def _pilot(call: Call, sampler: Sampler, num_samples: int, together: int | None = None) -> Call:
    """The same call with other noise, and few samples."""
    return Call(call.chain, sampler, (call.seed + 0x9E3779B97F4A7C15) % 2**63, num_samples, together or num_samples)


def _allows(chain: Chain, num_samples: int) -> bool:
    """Whether there is evidence, an order or a start for so many samples."""
    try:
        chain.check(num_samples)
    except InputError:
        return False
    return True


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class _Bench(abc.ABC):
    """What `Auto` measures."""

    pilots: bool
    where: str
    """What else the times depend on."""

    def __init__(self, call: Call, live: int) -> None:
        self.call = call
        self.steps = call.chain.steps
        self.live = live
        chain = call.chain
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
            number = PILOTS if _allows(self.call.chain, PILOTS) else 1
            # No more at a time than the call will draw, so that the graphs captured are those it needs.
            run = FixedRun(_pilot(self.call, Coupled(window=window), number, min(number, self.live)), window)
            for _ in run.rounds():
                pass
            self._rounds[window] = run.report().mean_rounds
            self.probes += sum(run.widths)
        return self._rounds[window]

    def abandoned(self) -> int:
        """Give up what is under way of the call itself. -> the queries that were asked for it."""
        return 0

    @abc.abstractmethod
    def _time(self, window: int) -> float: ...


@final
class _FixedBench(_Bench):
    """Times rounds of fixed shape, at the number of samples that will be drawn together."""

    pilots = True
    where = "fixed"

    def __init__(self, call: Call) -> None:
        super().__init__(call, FixedRun(replace(call, sampler=Sequential()), 0).size)

    def _time(self, window: int) -> float:
        sampler = Coupled(window=window) if window else Sequential()
        run = FixedRun(_pilot(self.call, sampler, self.live), window)
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

    On tokens the sequential rounds are those of the call itself: should `Sequential` be chosen, they are not lost. That
    is safe because there no choice changes a sample. On Gaussian steps it could: how long a model takes may depend on
    the state, so timing the call's own samples would let their noise, not yet spent, decide how they are drawn.
    """

    pilots = False

    def __init__(self, call: Call, executor: Executor) -> None:
        super().__init__(call, min(call.max_live, call.num_samples))
        self.executor = executor
        self.where = repr(executor)
        self.under_way: EngineRun | None = None

    def abandoned(self) -> int:
        if self.under_way is None:
            return 0
        self.under_way.close()
        return sum(self.under_way.widths)

    def _time(self, window: int) -> float:
        if not window and isinstance(self.call.chain, TokenChain):
            return self._time_own()
        run = EngineRun(_pilot(self.call, Coupled(window=window) if window else Sequential(), self.live), self.executor)
        try:
            times = [_timed(lambda: next(run.rounds(), None)) for _ in range(2)]
        finally:
            self.probes += sum(run.widths)
            run.close()
        return times[-1]

    def _time_own(self) -> float:
        run = EngineRun(replace(self.call, sampler=Sequential()), self.executor)
        try:
            times = [_timed(lambda: next(run.rounds(), None)) for _ in range(2)]
        except Exception:
            run.close()
            raise
        self.under_way = run
        return min(times)
