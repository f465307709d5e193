"""What a runner holds between calls: captured rounds, the samplers that were chosen, and nothing of the model."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, final

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from drawahead.chains.base import Chain, Paths
from drawahead.rounds.choosing import Choice
from drawahead.samplers.window import WindowSampler

if TYPE_CHECKING:  # packed rounds do without
    from drawahead.rounds.captured.batch import CapturedBatch
    from drawahead.rounds.captured.guard import Guard
    from drawahead.rounds.captured.run import CapturedRun
    from drawahead.rounds.run import Call

_MOST = 8  # batches
ASYNCHRONOUS = {"cuda"}  # devices that work while Python does
CANARY = 1 / 500
"""The share of sampling time that comparing answers may take."""


@final
class Held:
    """Captured rounds are used again only while the guard holds, and the canary agrees: see `guard` and `canary`.

    One call at a time uses it; others wait. A call inside another, from a callback, gets a batch of its own.
    """

    def __init__(self) -> None:
        self.lock, self.closed = threading.RLock(), False
        self.chosen: dict[Any, Choice] = {}
        """Samplers, by what they were chosen for."""
        self._batches: dict[Any, CapturedBatch] = {}
        self._guard: Guard | None = None
        self._busy = 0.0  # seconds of captured rounds since the canary last agreed
        self._agreed = time.time()
        self._changed: Counter[str] = Counter()  # attributes of the model that changed during a run

    def __reduce__(self) -> tuple[type[Held], tuple[()]]:
        """A copy of what owns it, here or in another process, begins with nothing."""
        return Held, ()

    def __len__(self) -> int:
        """How many batches of captured rounds there are."""
        return len(self._batches)

    def clear(self) -> None:
        """Drop all captured rounds: their memory returns."""
        self._batches.clear()
        self._guard, self._busy, self._agreed = None, 0.0, time.time()

    def pop(self, sampler: WindowSampler, fresh: Paths) -> CapturedBatch | None:
        """The batch for such rows, which is nobody else's until it is given back."""
        return self._batches.pop(_key(sampler, fresh), None)

    def pop_learned(self, sampler: WindowSampler, rows: int, kind: Hashable) -> CapturedBatch | None:
        """The batch for so many rows that has learned how samples of this kind begin, if there is one."""
        for key, batch in self._batches.items():
            if batch.rows == rows and batch.sampler == sampler and batch.learned.get(kind) is not None:
                return self._batches.pop(key)
        return None

    @property
    def in_place(self) -> bool:
        """Whether a round may begin before the guard has looked: all memory that it reads is still the model's."""
        return self._guard is not None and self._guard.in_place

    def holds(self, chain: Chain, now: Guard | None = None) -> bool:
        """Whether the model is the one whose rounds were captured, as far as the guard sees; if not, they are dropped.
        From now on it is this one. `now`: a guard of it that has begun to look."""
        now = now or looking_at(chain)
        now.go_on()
        same = self._guard is not None and now.marks == self._guard.marks
        if not same:
            self.clear()
            self._guard = now
        return same

    def is_due(self, batch: CapturedBatch) -> bool:
        """Whether it is time for the canary: so rarely that it takes a small share of the time."""
        return batch.canary is not None and batch.canary.seconds <= CANARY * self._busy

    def agrees(self, chain: Chain, batch: CapturedBatch) -> bool:
        """Whether the model answers as its captured rounds do. If not they are dropped, and a warning says so."""
        if batch.agrees(chain):
            self._busy, self._agreed = 0.0, time.time()
            return True
        since = time.strftime("%H:%M:%S", time.localtime(self._agreed))
        warnings.warn(
            f"the model no longer answers as its captured rounds do: something they could not see has changed since "
            f"{since}, and samples drawn since then may be those of the model before. Rounds are captured anew; after "
            "such a change call Runner.recapture()",
            RuntimeWarning,
            stacklevel=2,
        )
        self.clear()
        self.holds(chain)
        return False

    def give_back(self, chain: Chain, sampler: WindowSampler, batch: CapturedBatch, seconds: float) -> None:
        """Keep the batch of a call that has ended, if the model is still the one that it began with."""
        self._busy += seconds
        if not batch.graphs or self._guard is None:
            return
        if batch.captured_since_kept:
            now = looking_at(chain)
            now.go_on()
            if now.marks != self._guard.marks:
                if any(batch.graphs.values()):  # where rounds run as they are there is nothing to say
                    self._say_changing(self._guard.difference(now))
                self.clear()
                return
            batch.captured_since_kept = False
        self._batches[_key(sampler, batch.paths)] = batch
        while len(self._batches) > _MOST:
            del self._batches[next(iter(self._batches))]

    def _say_changing(self, name: str) -> None:
        """A model that changes whenever it is drawn from cannot use its captured rounds again: say so, the second time.
        Once may be a cache that its first call fills."""
        self._changed[name] += 1
        if self._changed[name] == 2:
            warnings.warn(
                f"{name!r} of the model changed while samples were drawn, so its rounds are captured anew in every "
                "call; leave it as it is, or draw with graphs=False",
                RuntimeWarning,
                stacklevel=2,
            )


@final
class Trust:
    """Whether the rounds that a call uses again are those of its model. Where a device works while Python does, that is
    looked at while the first of them run."""

    def __init__(self, held: Held, chain: Chain) -> None:
        self.early = False
        """Whether rounds may begin before it is known."""
        self.asynchronous = chain.device.type in ASYNCHRONOUS
        """Whether the device works while Python does."""
        self._held, self._chain = held, chain
        self._looking: Guard | None = None

    def of(self, batch: CapturedBatch | None) -> CapturedBatch | None:
        """The batch, unless it is known to be another model's."""
        held, chain = self._held, self._chain
        due = batch is not None and held.is_due(batch)  # then it is asked where the last call's samples have come to
        self.early = batch is not None and not due and self.asynchronous and held.in_place
        if not self.early and (not held.holds(chain) or (batch is not None and due and not held.agrees(chain, batch))):
            return None
        return batch

    def begin(self) -> None:
        """Begin to look, if that was not done before."""
        if self.early:
            self._looking = looking_at(self._chain)

    def look(self, seconds: float = math.inf) -> bool:
        """Look on, for so many seconds at most. -> False if the model is another one."""
        if self._looking is None:
            return True
        self._looking.go_on(seconds)
        if not self._looking.done:
            return True
        guard, self._looking = self._looking, None
        return self._held.holds(self._chain, guard)


def captured_run(call: Call, held: Held) -> CapturedRun:
    """A run of captured rounds, with the code that only they need."""
    from drawahead.rounds.captured.run import CapturedRun

    return CapturedRun(call, held)


def looking_at(chain: Chain) -> Guard:
    """A guard that begins to look at a chain's model, and at what torch is told for all models."""
    from drawahead.rounds.captured.guard import Guard

    return Guard(_modes(chain.device) | chain.captured_parts())


def _modes(device: torch.device) -> dict[str, Any]:
    """What torch is told for all models, and no model holds."""
    cuda, cudnn, hooks = torch.backends.cuda, torch.backends.cudnn, vars(torch.nn.modules.module)
    autocast = torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type)
    precision = torch.get_default_dtype(), torch.get_float32_matmul_precision(), cudnn.allow_tf32
    half = cuda.matmul.allow_fp16_reduced_precision_reduction, cuda.matmul.allow_bf16_reduced_precision_reduction
    kernels = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark, cudnn.enabled
    attention = cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()
    stacks = _get_current_function_mode_stack(), _get_current_dispatch_mode_stack()
    every = [part for name, part in hooks.items() if name.startswith("_global_") and part]
    return {"torch": (autocast, precision, half, kernels, attention), "modes": stacks, "hooks of all modules": every}


def _key(sampler: WindowSampler, paths: Paths) -> tuple[Any, ...]:
    """What captured rounds depend on beside the model."""
    rows = tuple((name, tuple(tensor.shape), tensor.dtype) for name, tensor in paths.tensors().items())
    return repr(sampler), rows
