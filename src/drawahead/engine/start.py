"""Which run a call gets, and what `Auto` measures to choose its sampler."""

from __future__ import annotations

import abc
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

from drawahead.chains.base import Chain
from drawahead.chains.tokens import TokenChain
from drawahead.engine.captured import NotCaptured
from drawahead.engine.captured_run import CapturedRun
from drawahead.engine.packed import PackedRun
from drawahead.engine.run import Call, Run
from drawahead.engine.threads import Executor
from drawahead.errors import InputError
from drawahead.samplers.auto import Auto, Choice
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.window import WindowSampler

PILOTS = 3
"""Samples drawn, and thrown away, to see how many rounds a window takes: one alone may be far from the mean."""


def start_run(call: Call, executor: Executor, graphs: bool | None, *, split: bool) -> Run:
    """The run for a call: captured if that is wanted and possible. `split` says rounds must fit a batch size."""
    captured = call.chain.device.type == "cuda" and not split if graphs is None else graphs
    if isinstance(call.sampler, Auto):
        bench = _CapturedBench(call) if captured else _PackedBench(call, executor)
        sampler, reason = call.sampler.choose(bench, _remembered(call.chain.model))
        call = replace(call, sampler=sampler, choice=reason, probes=bench.probes)
        if isinstance(bench, _PackedBench) and isinstance(sampler, Sequential) and bench.under_way is not None:
            bench.under_way.call = call
            return bench.under_way
        call = replace(call, probes=bench.probes + bench.abandoned())
    if not captured or not isinstance(call.sampler, WindowSampler):
        if graphs:
            raise InputError(f"graphs=True needs a sampler that draws in windows, such as Coupled(): {call.sampler!r}")
        return PackedRun(call, executor)
    run = CapturedRun(call, call.sampler)
    if graphs is None:
        try:
            run.prepare()
        except NotCaptured as error:
            run.close()
            note = f"rounds could not be captured: {error}"
            return PackedRun(replace(call, choice=f"{call.choice}; {note}".lstrip("; ")), executor)
    return run


_CHOICES: weakref.WeakKeyDictionary[Any, dict[Any, Choice]] = weakref.WeakKeyDictionary()


def _remembered(model: Any) -> dict[Any, Choice]:
    """What was chosen for this model before; it goes with the model. No choice changes a law."""
    try:
        return _CHOICES.setdefault(model, {})
    except TypeError:  # nothing can be remembered about it
        return {}


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
        self.whole = call.chain.one_pass
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
            sampler = Coupled(window=window)
            run = CapturedRun(_pilot(self.call, sampler, number, min(number, self.live)), sampler)
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
class _CapturedBench(_Bench):
    """Times captured rounds, at the number of samples that will be drawn together."""

    pilots = True
    where = "captured"

    def __init__(self, call: Call) -> None:
        super().__init__(call, CapturedRun(call, Sequential()).size)

    def _time(self, window: int) -> float:
        sampler = Coupled(window=window) if window else Sequential()
        run = CapturedRun(_pilot(self.call, sampler, self.live), sampler)
        times = [_timed(lambda: next(run.rounds(), None)) for _ in range(6)]  # one to draft, one to capture
        self.probes += sum(run.widths)
        run.close()
        return min(times[2:])


@final
class _PackedBench(_Bench):
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
        self.under_way: PackedRun | None = None

    def abandoned(self) -> int:
        if self.under_way is None:
            return 0
        self.under_way.close()
        return sum(self.under_way.widths)

    def _time(self, window: int) -> float:
        if not window and isinstance(self.call.chain, TokenChain):
            return self._time_own()
        run = PackedRun(_pilot(self.call, Coupled(window=window) if window else Sequential(), self.live), self.executor)
        try:
            times = [_timed(lambda: next(run.rounds(), None)) for _ in range(2)]
        finally:
            self.probes += sum(run.widths)
            run.close()
        return times[-1]

    def _time_own(self) -> float:
        run = PackedRun(replace(self.call, sampler=Sequential()), self.executor)
        try:
            times = [_timed(lambda: next(run.rounds(), None)) for _ in range(2)]
        except Exception:
            run.close()
            raise
        self.under_way = run
        return min(times)
