"""Which run a call gets, and what `Auto` measures to choose its sampler."""

from __future__ import annotations

import math
import time
import weakref
from dataclasses import replace
from typing import Any, final

import torch

from drawahead.chains.base import Chain, Tally
from drawahead.chains.tokens import TokenChain
from drawahead.engine.captured import NotCaptured
from drawahead.engine.captured_run import CapturedRun
from drawahead.engine.packed import PackedRun
from drawahead.engine.run import Call, Run
from drawahead.engine.threads import Executor
from drawahead.errors import InputError
from drawahead.samplers.auto import Auto, Experience
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.window import WindowSampler

_OWN_SECONDS = 2e-3  # about what a packed round of Coupled takes beside the model
_QUERIES = 128  # in the first captured round that is timed: about what a GPU answers as quickly as one
_EXPERIENCE: weakref.WeakKeyDictionary[Any, dict[Any, Experience]] = weakref.WeakKeyDictionary()


def start_run(call: Call, executor: Executor, graphs: bool | None, *, split: bool) -> Run:
    """The run for a call: captured if that is wanted and possible. `split` says rounds must fit a batch size."""
    captured = call.chain.device.type == "cuda" and not split if graphs is None else graphs
    if isinstance(call.sampler, Auto):
        return _chosen(call, call.sampler, executor, graphs, captured)
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
            return PackedRun(_noted(call, error), executor)
    return run


def capture_all(chain: Chain, sampler: Sampler, num_samples: int) -> None:
    """Capture all rounds that calls for so many samples may need; nothing where a model or a sampler cannot be."""
    if isinstance(sampler, WindowSampler):
        run = CapturedRun(Call(chain, sampler, 0, num_samples, num_samples), sampler)
        try:
            with torch.no_grad():
                run.prepare_all()
        except NotCaptured:
            pass
        finally:
            run.close()


def _noted(call: Call, error: NotCaptured) -> Call:
    return replace(call, choice=f"{call.choice}; rounds could not be captured: {error}".lstrip("; "))


def _chosen(call: Call, auto: Auto, executor: Executor, graphs: bool | None, captured: bool) -> Run:
    live = min(call.max_live, call.num_samples)
    where = "captured" if captured else repr(executor)
    known = _experience(call.chain.model).setdefault((live, call.chain.steps, where), Experience())
    if known.whole is None:
        known.whole = _whole(call)
    given, noise = (live, known.whole), (call.seed, call.first)
    timings = _CapturedTimings(call, *given) if captured else _PackedTimings(call, executor, *given)
    try:
        # On tokens every choice draws the same samples.
        sampler, reason = (not timings.harmless and known.past.get(noise)) or auto.choose(timings, known)
    except NotCaptured as error:
        if graphs:
            raise
        return _chosen(_noted(call, error), auto, executor, graphs, captured=False)
    if known.choice == (sampler, reason):  # else it was made without measuring, or before
        known.note(noise, known.choice)
    call = replace(call, sampler=sampler, choice=f"{call.choice}; {reason}".lstrip("; "), probes=timings.probes)
    began = time.perf_counter()
    call = replace(call, learn=lambda run: _learn(run, known, began))
    return start_run(call, executor, graphs, split=not captured)


def _learn(run: Run, known: Experience, began: float) -> None:
    """Take in what a run that began then has shown, and say in its report what came instead of what was expected."""
    sampler, report = run.call.sampler, run.report()
    if not isinstance(sampler, Coupled) or report.num_samples < run.call.num_samples:
        return
    window = report.steps - 1 if sampler.window is None else sampler.window
    # A captured round costs the same however few of its rows are still drawn: the slowest sample's count.
    rounds = report.rounds * run.rows / report.num_samples if isinstance(run, CapturedRun) else report.mean_rounds
    known.learn(window, run.seconds_of(window), rounds, report.num_samples)
    if 0 in known.seconds and window in known.seconds:
        ratio = known.seconds[window] / known.seconds[0]
        one_by_one = report.steps * known.seconds[0] * math.ceil(report.num_samples / run.call.max_live)
        words = f"a round with window {window} takes {ratio:.2f} times as long as one without, and samples took "
        words += f"{report.mean_rounds:.1f} rounds: {one_by_one / (time.perf_counter() - began):.1f}x less time"
        run.call = replace(run.call, choice=words)


def _experience(model: Any) -> dict[Any, Experience]:
    """What is known about drawing from this model; it goes with the model."""
    try:
        return _EXPERIENCE.setdefault(model, {})
    except TypeError:  # nothing can be remembered about it
        return {}


def _whole(call: Call) -> bool:
    """Whether a round costs no more for a wider window: one pass answers a path, and all of it is computed anew."""
    if not call.chain.one_pass:
        return False
    paths = call.chain.start(call.seed, torch.tensor([call.first]), Tally())
    paths.remember(call.chain.steps)
    return not paths.remembers


def _pilot(call: Call, sampler: Sampler, num_samples: int) -> Call:
    """The same call with other noise, and few samples."""
    return Call(call.chain, sampler, (call.seed + 0x9E3779B97F4A7C15) % 2**64, num_samples, num_samples)


@final
class _CapturedTimings:
    """Times captured rounds, at the number of samples that will be drawn together."""

    captured = True

    def __init__(self, call: Call, live: int, whole: bool) -> None:
        self.call, self.live = call, live
        self.steps, self.whole = call.chain.steps, whole
        self.harmless = isinstance(call.chain, TokenChain)
        self.first = max(4, min(_QUERIES // live, self.steps - 1))
        self.first = 1 << (self.first.bit_length() - 1)
        self.probes = 0
        self._seconds: dict[int, float] = {}

    def seconds(self, window: int) -> float:
        if window not in self._seconds:
            sampler = Coupled(window=window) if window else Sequential()
            run = CapturedRun(_pilot(self.call, sampler, self.live), sampler)
            try:
                next(run.rounds(), None)  # which may have to be captured
                run.wait()
                began = time.perf_counter()
                more = sum(1 for _ in zip(range(4), run.rounds(), strict=False))
                run.wait()  # rounds that draft nothing do not wait for the device
                one = (time.perf_counter() - began) / more if more else math.inf
                self._seconds[window] = run.seconds_of(window) or math.inf if window else one
            finally:
                self.probes += sum(run.widths)
                run.close()
        return self._seconds[window]


@final
class _PackedTimings:
    """Times packed rounds, the sampler's own work included. A pilot tells two times: its first round drafts nothing.

    They are of other noise than the samples': how long a model takes may depend on the state, so timing the call's own
    samples would let their noise, not yet spent, decide how they are drawn.
    """

    captured = False

    def __init__(self, call: Call, executor: Executor, live: int, whole: bool) -> None:
        self.call, self.executor, self.live = call, executor, live
        self.steps, self.whole = call.chain.steps, whole
        self.harmless = isinstance(call.chain, TokenChain)
        self.first = 1
        self.probes = 0
        self._seconds: dict[int, list[float]] = {}

    def seconds(self, window: int) -> float:
        if len(self._seconds.get(window, ())) < (1 if window else 2):
            run = PackedRun(_pilot(self.call, Coupled(window=window or 1), self.live), self.executor)
            try:
                for width in (0, window) if window else (0,):
                    began = time.perf_counter()
                    next(run.rounds(), None)
                    self._seconds.setdefault(width, []).append(time.perf_counter() - began)
            finally:
                self.probes += sum(run.widths)
                run.close()
        return min(self._seconds[window]) - (_OWN_SECONDS if window == 1 else 0.0)
