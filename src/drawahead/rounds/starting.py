"""Which run a call gets, packed or captured, and what is measured where its sampler is to be chosen."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace
from typing import final

import torch

from drawahead.chains.base import Chain, Tally
from drawahead.errors import InputError
from drawahead.rounds.captured_run import CapturedRun
from drawahead.rounds.choosing import Choice, choose, timed
from drawahead.rounds.held import Held
from drawahead.rounds.packed import PackedRun
from drawahead.rounds.recording import NotCaptured
from drawahead.rounds.run import Call, Run
from drawahead.rounds.threads import Executor
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Auto, Coupled
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.window import WindowSampler

OTHER_NOISE = 0x9E3779B97F4A7C15
"""What is added to a seed for noise that has nothing to do with the samples."""


def settled(call: Call, executor: Executor, graphs: bool | None, *, split: bool, held: Held) -> tuple[Call, bool]:
    """The call with its sampler, chosen if need be, and whether rounds are captured. `split` says they must fit a batch
    size."""
    captured = call.chain.device.type == "cuda" and not split if graphs is None else graphs
    if isinstance(call.sampler, Auto):
        try:
            return _chosen(call, executor, held, captured), captured
        except NotCaptured as error:
            if graphs:
                raise
            return _chosen(_noted(call, error), executor, held, captured=False), False
    if graphs and not isinstance(call.sampler, WindowSampler):
        raise InputError(f"graphs=True needs a sampler that draws in windows, such as Coupled(): {call.sampler!r}")
    return call, captured


def start(call: Call, executor: Executor, graphs: bool | None, *, split: bool, held: Held) -> Run:
    """The run for a call: captured if that is wanted and possible."""
    call, captured = settled(call, executor, graphs, split=split, held=held)
    if not captured or not isinstance(call.sampler, WindowSampler):
        return PackedRun(call, executor)
    run = CapturedRun(call, call.sampler, held)
    if graphs is None:
        try:
            run.prepare()
        except NotCaptured as error:
            run.close()
            return PackedRun(_noted(call, error), executor)
    return run


def capture_all(chain: Chain, sampler: Sampler, num_samples: int, held: Held) -> None:
    """Capture all rounds that calls for so many samples may need; nothing where a model or a sampler cannot be."""
    if isinstance(sampler, WindowSampler):
        run = CapturedRun(Call(chain, sampler, 0, num_samples, num_samples), sampler, held)
        try:
            with torch.no_grad():
                run.prepare_all()
        except NotCaptured:
            pass
        finally:
            run.close()


def _noted(call: Call, error: NotCaptured) -> Call:
    return replace(call, choice=f"{call.choice}; rounds could not be captured: {error}".lstrip("; "))


def _chosen(call: Call, executor: Executor, held: Held, captured: bool) -> Call:
    """The call with a sampler: the one that was chosen before for as many samples drawn together, or one chosen now."""
    key = call.max_live, call.chain.steps, "captured" if captured else repr(executor)
    probes, choice = 0, held.chosen.get(key)
    if choice is None:
        measuring = _Measuring(call, executor, held, captured)
        try:
            choice = held.chosen[key] = choose(measuring)
        except NotCaptured:
            raise
        except Exception as error:  # the run itself will meet it, and say where
            choice = Choice(Sequential(), f"measuring failed: {error}")
        probes = measuring.probes
    words = f"{call.choice}; {choice.reason}".lstrip("; ")
    return replace(call, sampler=choice.sampler, choice=words, chosen=choice, probes=probes)


def came(run: Run) -> str:
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

    def __init__(self, call: Call, executor: Executor, held: Held, captured: bool) -> None:
        self.steps, self.live, self.captured = call.chain.steps, call.max_live, captured
        self.batches = math.ceil(call.num_samples / call.max_live)
        self.whole = _whole(call)
        self.probes = 0
        self._call, self._executor, self._held = call, executor, held
        self._single = math.inf

    def seconds(self, window: int) -> float:
        if not self.captured:
            return self._packed(window)
        sampler = Coupled(window=window) if window else Sequential()
        run = CapturedRun(self._pilot(sampler), sampler, self._held)
        try:
            next(run.rounds(), None)  # which may have to be captured
            run.wait()
            single = timed(itertools.islice(run.rounds(), 4), run.wait)  # which do not wait for the device themselves
            return run.seconds_of(window) or math.inf if window else single
        finally:
            self.probes += sum(run.widths)
            run.close()

    def _packed(self, window: int) -> float:
        """A pilot tells two times: its first round drafts nothing."""
        run = PackedRun(self._pilot(Coupled(window=window or 1)), self._executor)
        try:
            self._single = min(self._single, timed(itertools.islice(run.rounds(), 1)))
            return timed(itertools.islice(run.rounds(), 1)) if window else self._single
        finally:
            self.probes += sum(run.widths)
            run.close()

    def pilot(self, sampler: Sampler, most: float) -> float | None:
        call = self._pilot(sampler)
        packed = not self.captured or not isinstance(sampler, WindowSampler)
        run: Run = PackedRun(call, self._executor) if packed else CapturedRun(call, sampler, self._held)  # type: ignore[arg-type]
        try:
            rounds = sum(1 for _ in itertools.islice(run.rounds(), math.floor(most) + 1))
            return rounds if run.done == call.num_samples else None
        finally:
            self.probes += sum(run.widths)
            run.close()

    def _pilot(self, sampler: Sampler) -> Call:
        call = self._call
        return Call(call.chain, sampler, (call.seed + OTHER_NOISE) % 2**64, self.live, self.live)


def _whole(call: Call) -> bool:
    """Whether a round costs no more for a wider window: one pass answers a path, and all of it is computed anew."""
    if not call.chain.one_pass:
        return False
    paths = call.chain.start(call.seed, torch.tensor([call.first]), Tally())
    paths.remember(call.chain.steps)
    return not paths.remembers
