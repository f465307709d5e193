"""What is measured where a sampler is to be chosen: rounds of pilots, on noise that has nothing to do with samples."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from typing import final

import torch

from drawahead.chains.base import Tally
from drawahead.executors.local import Local
from drawahead.rounds.captured.held import Held, captured_run
from drawahead.rounds.choosing import Choice, choose, timed
from drawahead.rounds.packed import PackedRun
from drawahead.rounds.run import Call, ModelChanged, NotCaptured, Run
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.window import WindowSampler

OTHER_NOISE = 0x9E3779B97F4A7C15
"""What is added to a seed for noise that has nothing to do with the samples."""


def chosen(call: Call, held: Held) -> Call:
    """The call with a sampler: the one that was chosen before for as many samples drawn together, or one chosen now."""
    where = "captured" if call.captured else (repr(call.executor), call.max_batch_size)
    key = call.max_live, call.chain.steps, where
    probes, choice = 0, held.chosen.get(key)
    if choice is None:
        if not call.captured:  # what it learns about memory, the run need not learn again
            call = replace(call, graphs=False, executor=call.executor or Local(call.max_batch_size))
        measuring = _Measuring(call, held)
        try:
            choice = held.chosen[key] = choose(measuring)
        except ModelChanged:
            return chosen(call, held)
        except NotCaptured as error:
            if call.graphs:
                raise
            return chosen(not_captured(call, error), held)
        except Exception as error:  # the run itself will meet it, and say where
            choice = Choice(Sequential(), f"measuring failed: {error}")
        probes = measuring.probes
    words = f"{call.choice}; {choice.reason}".lstrip("; ")
    return replace(call, sampler=choice.sampler, choice=words, chosen=choice, probes=probes)


def not_captured(call: Call, error: NotCaptured) -> Call:
    """The call, to be drawn in packed rounds."""
    return replace(call, graphs=False, choice=f"{call.choice}; rounds could not be captured: {error}".lstrip("; "))


def outcome(run: Run) -> str:
    """What the choice came to: the gain that was had, where one was hoped for."""
    call, report = run.call, run.report()
    if call.chosen is None or not isinstance(call.sampler, Coupled) or report.num_samples < call.num_samples:
        return call.choice
    batches = math.ceil(call.num_samples / call.max_live)
    gain = report.steps * call.chosen.single * batches / (time.perf_counter() - run.began)
    words = call.choice.rpartition("; about")[0] or call.choice
    return f"{words}, and samples took {report.mean_rounds:.1f} rounds: {gain:.1f}x less time"


@final
class _Measuring:
    """Times rounds of pilots: as many samples as will be drawn together, the sampler's own work included.

    They are of other noise than the samples': how long a model takes may depend on the state, so timing the call's own
    samples would let their noise, not yet spent, decide how they are drawn.
    """

    def __init__(self, call: Call, held: Held) -> None:
        self.steps, self.live, self.captured = call.chain.steps, call.max_live, call.captured
        self.batches = math.ceil(call.num_samples / call.max_live)
        self.whole = _whole(call)
        self.probes = 0
        self._call, self._held = call, held
        self._single = math.inf

    def seconds(self, window: int) -> float:
        if not self.captured:
            return self._packed(window)
        run = captured_run(self._pilot(Coupled(window=window) if window else Sequential()), self._held)
        try:
            next(run.rounds, None)  # which may have to be captured
            run.wait()
            single = timed(itertools.islice(run.rounds, 4), run.wait)  # which do not wait for the device themselves
            return run.seconds_of(window) or math.inf if window else single
        finally:
            self._end(run)

    def _packed(self, window: int) -> float:
        """A pilot tells two times: its first round drafts nothing."""
        run = self._run(Coupled(window=window or 1))
        try:
            self._single = min(self._single, timed(itertools.islice(run.rounds, 1)))
            return timed(itertools.islice(run.rounds, 1)) if window else self._single
        finally:
            self._end(run)

    def pilot(self, sampler: Sampler, most: float) -> float | None:
        run = self._run(sampler)
        try:
            rounds = sum(1 for _ in itertools.islice(run.rounds, math.floor(most) + 1))
            if run.done < self.live:
                return None
            if self._call.chain.ends_early:  # as many as samples of all steps would take
                rounds = math.ceil(rounds * self.steps * self.live / sum(run.committed))
            return rounds if rounds <= most else None
        finally:
            self._end(run)

    def _run(self, sampler: Sampler) -> Run:
        call, captured = self._pilot(sampler), self.captured and isinstance(sampler, WindowSampler)
        return captured_run(call, self._held) if captured else PackedRun(call)

    def _pilot(self, sampler: Sampler) -> Call:
        seed = (self._call.seed + OTHER_NOISE) % 2**64
        return replace(self._call, sampler=sampler, seed=seed, num_samples=self.live, first=0)

    def _end(self, run: Run) -> None:
        self.probes += sum(run.widths)
        run.close()


def _whole(call: Call) -> bool:
    """Whether a round costs no more for a wider window: one pass answers a path, and all of it is computed anew."""
    if not call.chain.one_pass:
        return False
    paths = call.chain.start(call.seed, torch.tensor([call.first]), Tally())
    paths.remember(call.chain.steps)
    return not paths.remembers
